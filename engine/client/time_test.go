package client

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"svc/config"
)

// A roundTrip answers requests without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestSilentEngineIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, err := config.ParseURL("http://engine.test")
		require.NoError(t, err)
		body, lines := io.Pipe()
		c := Client{URL: u, HTTP: &http.Client{Timeout: time.Second, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, r.Body)
			go func() {
				<-r.Context().Done()
				_ = lines.CloseWithError(r.Context().Err())
			}()
			return &http.Response{StatusCode: 200, Body: body}, nil
		})}}
		go func() {
			for range 20 { // 100 s: longer than the silence that is allowed
				time.Sleep(5 * time.Second)
				_, _ = io.WriteString(lines, "{\"progress\":\"a\"}\n")
			}
		}()
		began := time.Now()
		_, err = c.Run(t.Context(), StepLook, Step{}, nil, nil)
		require.ErrorIs(t, err, ErrUnavailable)
		require.ErrorIs(t, err, errSilent)
		require.Equal(t, 130*time.Second, time.Since(began))
	})
}
