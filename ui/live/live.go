// Package live leads the live updates of a workspace on to browsers.
package live

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"svc/http/middleware"
	"svc/ui/client"
	"svc/ui/page"
)

const (
	limit    = time.Hour        // then the browser comes again
	patience = 10 * time.Second // in which a browser has to take something
	silence  = 40 * time.Second // after which the service is taken for gone: it says something every 15
	maxLine  = 64 << 10         // bytes of a line of the service's
)

// Mount adds GET /w/{workspace}/live: server-sent events, in three kinds. "ready" comes
// first; "happened" says {"seq", "kind", "target"}, where target is a noun such as
// member; "over" says why there is no more to come. ?after is the number of the event
// after which it begins, which the Last-Event-ID of a browser that comes again outdoes.
func Mount(handle page.Handle, service *client.Service, ending <-chan struct{}, log *slog.Logger) {
	handle(http.MethodGet, "/w/{workspace}/live", middleware.Limits{Time: limit, Stream: true}, &stream{service, ending, log})
}

type stream struct {
	service *client.Service
	ending  <-chan struct{}
	log     *slog.Logger
}

func (s *stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var reader sync.WaitGroup
	defer reader.Wait()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // a proxy would wait for more
	out := &writer{w: w, controller: http.NewResponseController(w)}

	session := s.service.For(r, r.PathValue("workspace"))
	resp, err := session.StreamEvents(ctx, nil, after(r))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = client.Done(resp, nil)
	}
	if err != nil {
		out.refuse(ctx, s.log, err)
		return
	}
	defer resp.Body.Close()
	lines := make(chan string)
	reader.Go(func() { read(ctx, resp.Body, lines) }) // until the body is closed
	s.copy(ctx, lines, out)
}

// after lets the stream begin where the browser has come to.
func after(r *http.Request) func(context.Context, *http.Request) error {
	id := r.Header.Get("Last-Event-ID")
	if id == "" {
		id = r.URL.Query().Get("after")
	}
	return func(_ context.Context, to *http.Request) error {
		if id != "" {
			to.Header.Set("Last-Event-ID", id)
		}
		return nil
	}
}

// read sends the lines of the stream, until it ends.
func read(ctx context.Context, body io.Reader, lines chan<- string) {
	defer close(lines)
	scan := bufio.NewScanner(body)
	scan.Buffer(nil, maxLine)
	for scan.Scan() {
		select {
		case lines <- scan.Text():
		case <-ctx.Done():
			return
		}
	}
}

// copy leads events on until either side goes away or the app stops.
func (s *stream) copy(ctx context.Context, lines <-chan string, out *writer) {
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	var e event
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.ending:
			return
		case <-quiet.C:
			return
		case line, ok := <-lines:
			if !ok || !e.take(line, out) {
				return
			}
			quiet.Reset(silence)
		}
	}
}

// An event is what the lines since the last empty one say.
type event struct{ id, name, data string }

// take takes a line in, and writes the event that it ends. ok is false if the browser has
// gone.
func (e *event) take(line string, out *writer) (ok bool) {
	field, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch field {
	case "id":
		e.id = value
	case "event":
		e.name = value
	case "data":
		e.data = value
	case "":
		if line != "" { // a comment: the service is still there
			return true
		}
		defer func() { *e = event{} }()
		return e.write(out)
	}
	return true
}

// happened is what pages are told of an event.
type happened struct {
	Seq    int64  `json:"seq"`
	Kind   string `json:"kind"`
	Target string `json:"target"`
	ID     string `json:"id"`
}

func (e *event) write(out *writer) (ok bool) {
	switch {
	case e.name == "ready":
		return out.send(e.id, "ready", "{}")
	case e.data != "":
		var said struct {
			Seq    int64
			Kind   string
			Target struct{ Type, ID string }
		}
		if json.Unmarshal([]byte(e.data), &said) != nil {
			return true // of a later version
		}
		text, err := json.Marshal(happened{said.Seq, said.Kind, strings.ReplaceAll(said.Target.Type, "_", "-"), said.Target.ID})
		return err == nil && out.send(e.id, "happened", string(text))
	case e.id != "":
		return out.keep(e.id)
	}
	return true
}

// A writer writes to a browser, which has to take what is sent.
type writer struct {
	w          http.ResponseWriter
	controller *http.ResponseController
}

func (w *writer) send(id, name, data string) bool {
	return w.write(fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", id, name, data))
}

// keep says that all is well, and how far the stream has come.
func (w *writer) keep(id string) bool { return w.write(": still here\nid: " + id + "\n\n") }

func (w *writer) write(text string) bool {
	if w.controller.SetWriteDeadline(time.Now().Add(patience)) != nil {
		return false
	}
	_, err := io.WriteString(w.w, text)
	return err == nil && w.controller.Flush() == nil
}

// refuse says why there is no stream. Whoever may not read any more is told so; a
// service that does not answer is asked again by the browser.
func (w *writer) refuse(ctx context.Context, log *slog.Logger, err error) {
	r := client.As(err)
	switch {
	case r != nil && r.Status == http.StatusUnauthorized:
		w.write("event: over\ndata: signed-out\n\n")
	case r != nil && (r.Status == http.StatusNotFound || r.Status == http.StatusForbidden):
		w.write("event: over\ndata: removed\n\n")
	default:
		if !errors.Is(err, context.Canceled) {
			log.WarnContext(ctx, "live updates", "err", err)
		}
		w.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.w.WriteHeader(http.StatusBadGateway)
	}
}
