package forward

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/http/middleware"
	"svc/test/journal"
)

// The service's headers replace those of the app.
func TestForwardedResponseHasHeadersOfTheService(t *testing.T) {
	t.Parallel()
	app := newForwarder(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Request-Id", r.Header.Get("X-Request-Id"))
		h.Set("Content-Security-Policy", "style-src 'self'")
		h.Set("Cache-Control", "no-store")
		h.Add("Set-Cookie", "a=1")
		h.Add("Set-Cookie", "b=2")
	})
	res, err := app.Client().Get(app.URL + "/api/auth/ok")
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Len(t, res.Header["X-Request-Id"], 1)
	require.NotEmpty(t, res.Header.Get("X-Request-Id"))
	require.Equal(t, []string{"style-src 'self'"}, res.Header["Content-Security-Policy"])
	require.Equal(t, []string{"no-store"}, res.Header["Cache-Control"])
	require.Equal(t, []string{"a=1", "b=2"}, res.Header["Set-Cookie"])
	require.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"), "which the service did not set")
}

func TestForwardedBodyHasALimit(t *testing.T) {
	t.Parallel()
	app := newForwarder(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	})
	body := struct{ io.Reader }{io.LimitReader(zeros{}, 2<<20)} // of unknown length
	res, err := app.Client().Post(app.URL+"/api/auth/sign-in/email", "application/json", body)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, res.StatusCode, string(text))
	require.Contains(t, string(text), "body_too_large")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// newForwarder serves an app that forwards all requests to a service.
func newForwarder(t *testing.T, service http.HandlerFunc) *httptest.Server {
	return newLoggingForwarder(t, service, slog.New(slog.DiscardHandler), func(middleware.Request) {})
}

func newLoggingForwarder(t *testing.T, service http.HandlerFunc, log *slog.Logger, observe func(middleware.Request)) *httptest.Server {
	rest := httptest.NewServer(service)
	t.Cleanup(rest.Close)
	to, err := url.Parse(rest.URL)
	require.NoError(t, err)
	app := httptest.NewServer(middleware.Measured(observe, middleware.Traced(log, To(to, middleware.Limits{}, log))))
	t.Cleanup(app.Close)
	return app
}

func TestForwardRemovesOriginHeader(t *testing.T) {
	t.Parallel()
	headers := make(chan http.Header, 1)
	app := newForwarder(t, func(_ http.ResponseWriter, r *http.Request) { headers <- r.Header })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, app.URL+"/api/auth/ok", nil)
	require.NoError(t, err)
	r.Header.Set("X-Svc-Origin", "ui")
	res, err := app.Client().Do(r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.NotContains(t, <-headers, "X-Svc-Origin")
}

// That a client goes away, or sends a body that cannot be read, is no error of the app or the service.
func TestForwardLogsNoErrorOfClient(t *testing.T) {
	t.Parallel()
	const head = "POST /api/auth/sign-in/email HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	for name, c := range map[string]struct{ begin, answer string }{
		"it leaves within the body":           {begin: head + "Content-Length: 100\r\n\r\n{"},
		"it leaves while the service answers": {begin: head + "Content-Length: 2\r\n\r\n{}"},
		"a chunk is malformed": {
			head + "Transfer-Encoding: chunked\r\n\r\nnumber\r\n", "HTTP/1.1 422 Unprocessable Entity\r\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log journal.Log
			asked, observed := make(chan bool, 1), make(chan middleware.Request, 1)
			app := newLoggingForwarder(t, func(_ http.ResponseWriter, r *http.Request) {
				asked <- true
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			}, log.Logger(), func(r middleware.Request) { observed <- r })
			conn, err := net.Dial("tcp", app.Listener.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, c.begin)
			require.NoError(t, err)
			if c.answer == "" {
				<-asked
				require.NoError(t, conn.Close())
			} else {
				line, err := bufio.NewReader(conn).ReadString('\n')
				require.NoError(t, err)
				require.Equal(t, c.answer, line)
			}
			require.False(t, (<-observed).Failed)
			require.Len(t, log.Lines(t, "request"), 1)
			require.NotContains(t, log.String(), `"level":"ERROR"`)
			require.NotContains(t, log.String(), `"level":"WARN"`)
		})
	}
}

// That the service is gone is one.
func TestForwardLogsErrorOfService(t *testing.T) {
	t.Parallel()
	var log journal.Log
	observed := make(chan middleware.Request, 1)
	app := newLoggingForwarder(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		log.Logger(), func(r middleware.Request) { observed <- r })
	res, err := app.Client().Post(app.URL+"/api/auth/sign-in/email", "application/json", strings.NewReader("{}"))
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	require.Equal(t, "ERROR", log.Line(t, "forward a request")["level"])
	require.True(t, (<-observed).Failed)
}
