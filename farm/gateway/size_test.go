//go:build !race

package gateway

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A stream is a body of a given size that is generated while it is read.
type stream struct {
	left int64
	sent *atomic.Int64
}

func (s *stream) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), s.left))
	s.left -= int64(n)
	s.sent.Add(int64(n))
	return n, nil
}

// peak samples memory use, and returns the maximum when it is asked.
func peak() func() uint64 {
	stop, most := make(chan struct{}), make(chan uint64)
	go func() {
		var highest uint64
		for {
			select {
			case <-stop:
				most <- highest
				return
			case <-time.After(5 * time.Millisecond):
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				highest = max(highest, m.HeapAlloc)
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-most
	}
}

// The test measures the memory of the process, so it is not parallel.
func TestUploadsUseLittleMemory(t *testing.T) {
	s := start(t, Rules(64<<20))                      // the limit is 84 MiB
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // garbage counts, so it is collected as by default
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, c := range []struct {
		mebibytes int64
		length    bool // whether the length is announced
		h2        bool
		status    int
	}{
		{83, true, false, 200}, {83, false, false, 200}, {83, true, true, 200},
		{90, true, false, 413}, {90, false, false, 413}, {90, true, true, 413}, {90, false, true, 413},
	} {
		t.Run(fmt.Sprintf("%d MiB, length %v, HTTP/2 %v", c.mebibytes, c.length, c.h2), func(t *testing.T) {
			size, sent := c.mebibytes<<20, new(atomic.Int64)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.address+job+"?upload=1", &stream{size, sent})
			require.NoError(t, err)
			if c.length {
				req.ContentLength = size
			}
			most := peak()
			res, err := s.client(t, s.tlsWith(nil), c.h2).Do(req)
			used := most()
			require.NoError(t, err)
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, c.status, res.StatusCode, string(body))
			require.Less(t, used, before.HeapAlloc+64<<20, "client, gateway and service together")
			switch {
			case c.status == 200:
				require.Equal(t, size, receive(t, s.service.body))
			case c.length:
				require.Empty(t, s.service.seen, "nothing of it reaches the service")
				require.Less(t, sent.Load(), int64(16<<20), "and little the gateway")
				return
			default:
				require.Less(t, receive(t, s.service.body), int64(0), "the service sees it break off")
				require.Contains(t, string(body), "payload_too_large")
			}
			s.next(t)
		})
	}
}
