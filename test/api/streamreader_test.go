package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A stream is a connection that receives server-sent events.
type stream struct {
	t      *testing.T
	cancel context.CancelFunc
	frames chan frame // closed when the service has ended the stream
	ready  frame
	start  int64 // position in the ready frame
}

type frame struct{ id, event, data, retry string }

// tryOpenStream opens a stream. If it is refused, the stream is nil and the answer is returned.
func (v *service) tryOpenStream(t *testing.T, as string, headers ...string) (*stream, answer) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	method, path, _ := strings.Cut(streamRequest, " ")
	r, err := http.NewRequestWithContext(ctx, method, "http://"+v.host+path, nil)
	require.NoError(t, err)
	r.Header = v.fixture.credentials(t, as)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	res, err := (&http.Client{Transport: v.client.Transport}).Do(r) // without a timeout
	require.NoError(t, err)
	if res.StatusCode != http.StatusOK {
		defer cancel()
		return nil, v.readAnswer(t, streamRequest, res)
	}
	s := &stream{t: t, cancel: cancel, frames: make(chan frame, 100_000)}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer res.Body.Close()
		defer close(s.frames)
		readFrames(res.Body, s.frames)
	})
	t.Cleanup(func() { cancel(); reading.Wait() })
	s.ready = s.next()
	require.Equal(t, "ready", s.ready.event)
	require.NoError(t, json.Unmarshal([]byte(s.ready.data), &struct{ Seq *int64 }{&s.start}))
	require.Equal(t, fmt.Sprint(s.start), s.ready.id)
	return s, answer{}
}

// openStream opens a stream and requires that it is accepted.
func (v *service) openStream(t *testing.T, as string, headers ...string) *stream {
	t.Helper()
	s, a := v.tryOpenStream(t, as, headers...)
	require.NotNil(t, s, "%s", a.statusAndCode())
	return s
}

// readFrames parses server-sent events as browsers do, until the end of from.
func readFrames(from io.Reader, to chan<- frame) {
	var f frame
	for lines := bufio.NewScanner(from); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case lines.Text() == "" && f.data != "":
			to <- f
			f = frame{}
		case name == "id":
			f.id = value
		case name == "event":
			f.event = value
		case name == "retry":
			f.retry = value
		case name == "data":
			f.data += value
		}
	}
}

// next returns the next frame, or the zero frame if the stream has ended.
func (s *stream) next() frame {
	s.t.Helper()
	select {
	case f := <-s.frames:
		return f
	case <-time.After(timeout):
		require.FailNow(s.t, "timed out")
	}
	return frame{}
}

// kindsUntilEnd waits for the end of the stream, and returns the event kinds received until then.
func (s *stream) kindsUntilEnd() (kinds []string) {
	s.t.Helper()
	for f := s.next(); f != (frame{}); f = s.next() {
		kinds = append(kinds, f.event)
	}
	return kinds
}

// kindsUntil returns the kinds of the next events, up to and including one of kind last.
func (s *stream) kindsUntil(last string) (kinds []string) {
	s.t.Helper()
	for {
		f := s.next()
		require.NotZero(s.t, f, "the stream has ended after %v", kinds)
		if kinds = append(kinds, f.event); f.event == last {
			return kinds
		}
	}
}
