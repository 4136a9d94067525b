package live

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"svc/http/middleware"
	"svc/ui/client"
)

// follow serves live updates of a service, and returns what a browser is told that
// comes again after the event lastID, line by line.
func follow(t *testing.T, service http.HandlerFunc, ending <-chan struct{}, address, lastID string) (status int, lines *bufio.Scanner) {
	t.Helper()
	rest := httptest.NewServer(service)
	t.Cleanup(rest.Close)
	mux := http.NewServeMux()
	Mount(func(method, path string, limits middleware.Limits, handler http.Handler) {
		mux.Handle(method+" "+path, middleware.Limited(limits, handler))
	}, client.NewService(rest.URL), ending, slog.New(slog.DiscardHandler))
	app := httptest.NewServer(mux)
	t.Cleanup(app.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, app.URL+address, nil)
	require.NoError(t, err)
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	res, err := app.Client().Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	return res.StatusCode, bufio.NewScanner(res.Body)
}

// saying is a service whose stream has these lines and goes on.
func saying(after *string, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		*after = r.Header.Get("Last-Event-ID")
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// next returns n lines that are not empty, or those until the end.
func next(lines *bufio.Scanner, n int) (text []string) {
	for len(text) < n && lines.Scan() {
		if lines.Text() != "" {
			text = append(text, lines.Text())
		}
	}
	return text
}

func TestEventsAreLedOnAsPagesTakeThem(t *testing.T) {
	t.Parallel()
	var after string
	_, lines := follow(t, saying(&after, "id: 6\nevent: ready\ndata: {}\n\n"+
		": keep-alive\n\n"+
		"id: 7\ndata: {\"seq\":7,\"kind\":\"service_account.created\","+
		"\"target\":{\"type\":\"service_account\",\"id\":\"a\"},\"actor\":\"x\"}\n\n"+
		"id: 8\ndata: of a later version\n\n"+
		"id: 9\n\n"), nil, "/w/acme/live?after=5", "")
	require.Equal(t, []string{
		"id: 6", "event: ready", "data: {}",
		"id: 7", "event: happened", `data: {"seq":7,"kind":"service_account.created","target":"service-account","id":"a"}`,
		": still here", "id: 9",
	}, next(lines, 8))
	require.Equal(t, "5", after)
}

// A browser that comes again says itself how far it has come.
func TestABrowserThatComesAgainMissesNothing(t *testing.T) {
	t.Parallel()
	var after string
	_, lines := follow(t, saying(&after, "id: 12\nevent: ready\ndata: {}\n\n"), nil, "/w/acme/live?after=5", "11")
	require.Len(t, next(lines, 3), 3)
	require.Equal(t, "11", after)
}

func TestWhyThereIsNoStream(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		http.StatusUnauthorized: "data: signed-out",
		http.StatusForbidden:    "data: removed",
		http.StatusNotFound:     "data: removed",
	} {
		_, lines := follow(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }, nil, "/w/acme/live", "")
		require.Equal(t, []string{"event: over", want}, next(lines, 3))
	}
	status, _ := follow(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, nil, "/w/acme/live",
		"")
	require.Equal(t, http.StatusBadGateway, status, "the browser asks again")
}

func TestStreamsEndWithTheApp(t *testing.T) {
	t.Parallel()
	var after string
	ending := make(chan struct{})
	_, lines := follow(t, saying(&after, "id: 6\nevent: ready\ndata: {}\n\n"), ending, "/w/acme/live", "")
	require.Len(t, next(lines, 3), 3)
	close(ending)
	require.Empty(t, next(lines, 1))
	require.NoError(t, lines.Err())
}

// A service that says nothing for longer than it ever does is gone; one that says that
// it is there is not.
func TestASilentServiceIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, lines := &stream{}, make(chan string)
		began := time.Now()
		go func() {
			for range 5 {
				<-time.After(silence - time.Second)
				lines <- ": keep-alive"
			}
		}()
		s.copy(t.Context(), lines, nil)
		require.Equal(t, 5*(silence-time.Second)+silence, time.Since(began))
	})
}

// A line beyond all bounds ends the stream rather than filling the memory.
func TestALineHasALimit(t *testing.T) {
	t.Parallel()
	lines := make(chan string)
	go read(context.Background(), strings.NewReader(fmt.Sprintf("id: 1\ndata: %s\n\n", strings.Repeat("a", maxLine))), lines)
	require.Equal(t, "id: 1", <-lines)
	_, ok := <-lines
	require.False(t, ok)
}
