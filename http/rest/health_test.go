package rest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Dependencies are checked at most four times a second, however many requests there are, and no result
// is older.
func TestReadinessProbeIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		var down atomic.Bool
		h := &health{
			log: slog.New(slog.DiscardHandler), warnings: func() map[string]string { return nil },
			checks: map[string]Check{"database": func(context.Context) (string, error) {
				asked.Add(1)
				<-time.After(10 * time.Millisecond)
				if down.Load() {
					return "", errors.New("gone")
				}
				return "", nil
			}},
		}
		answer := func(ctx context.Context) int {
			w := httptest.NewRecorder()
			h.ready(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/health/ready", http.NoBody))
			return w.Code
		}
		impatient, leave := context.WithCancel(t.Context())
		leave()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { require.Equal(t, http.StatusOK, answer(t.Context())) })
			all.Go(func() { answer(impatient) })
		}
		all.Wait()
		require.EqualValues(t, 1, asked.Load())

		down.Store(true)
		<-time.After(probeMaxAge - 11*time.Millisecond)
		require.Equal(t, http.StatusOK, answer(t.Context()), "a moment ago")
		<-time.After(time.Millisecond)
		require.Equal(t, http.StatusServiceUnavailable, answer(t.Context()))
		require.EqualValues(t, 2, asked.Load())
	})
}
