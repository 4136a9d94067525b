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

// openStream serves the live updates of a service, requests address with that Last-Event-ID
// ("" sends none), and returns the answer line by line.
func openStream(t *testing.T, service http.HandlerFunc, stopping <-chan struct{}, address, lastID string) (int, *bufio.Scanner) {
	t.Helper()
	rest := httptest.NewServer(service)
	t.Cleanup(rest.Close)
	mux := http.NewServeMux()
	Mount(func(method, path string, limits middleware.Limits, handler http.Handler) {
		mux.Handle(method+" "+path, middleware.Limited(limits, handler))
	}, client.NewService(rest.URL), stopping, slog.New(slog.DiscardHandler))
	app := httptest.NewServer(mux)
	t.Cleanup(app.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, app.URL+address, nil)
	require.NoError(t, err)
	if lastID != "" {
		r.Header.Set(lastEventID, lastID)
	}
	res, err := app.Client().Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	return res.StatusCode, bufio.NewScanner(res.Body)
}

// streamingService returns a service whose stream sends text and stays open. It sets after to
// the Last-Event-ID that it was sent.
func streamingService(after *string, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		*after = r.Header.Get(lastEventID)
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// readNonEmpty returns the next n lines that are not empty, or fewer if the stream ends.
func readNonEmpty(lines *bufio.Scanner, n int) (text []string) {
	for len(text) < n && lines.Scan() {
		if lines.Text() != "" {
			text = append(text, lines.Text())
		}
	}
	return text
}

func TestEventsAreForwardedInTheFormOfPages(t *testing.T) {
	t.Parallel()
	var after string
	_, lines := openStream(t, streamingService(&after, "id: 6\nevent: ready\ndata: {}\n\n"+
		": keep-alive\n\n"+
		"id: 7\ndata: {\"seq\":7,\"kind\":\"service_account.created\","+
		"\"target\":{\"type\":\"service_account\",\"id\":\"a\"},\"actor\":\"x\"}\n\n"+
		"id: 8\ndata: of a later version\n\n"+
		"id: 9\n\n"), nil, "/w/acme/live?after=6", "")
	require.Equal(t, []string{
		"retry: 1000", "id: 6", "event: ready", "data: {}",
		"id: 7", "event: happened", `data: {"seq":7,"kind":"service_account.created","target":"service-account","id":"a"}`,
		": still here", "id: 9",
	}, readNonEmpty(lines, 9))
	require.Equal(t, "6", after)
}

// After a backup was restored the service's stream starts again, or elsewhere than it was asked to.
func TestPagesAreResetWhenLogWasSetBack(t *testing.T) {
	t.Parallel()
	var after string
	_, lines := openStream(t, streamingService(&after, "id: 6\nevent: ready\ndata: {}\n\nid: 6\nevent: ready\ndata: {}\n\n"), nil,
		"/w/acme/live?after=6", "")
	ready := []string{"retry: 1000", "id: 6", "event: ready", "data: {}"}
	require.Equal(t, append(ready, append(ready, "id: 6", "event: reset", "data: {}")...), readNonEmpty(lines, 11))
	_, lines = openStream(t, streamingService(&after, "id: 6\nevent: ready\ndata: {}\n\n"), nil, "/w/acme/live?after=6", "7")
	require.Equal(t, append(ready, "id: 6", "event: reset", "data: {}"), readNonEmpty(lines, 7))
	_, lines = openStream(t, streamingService(&after, "id: 6\nevent: ready\ndata: {}\n\nid: 7\n\n"), nil, "/w/acme/live", "")
	require.Equal(t, append(ready, ": still here", "id: 7"), readNonEmpty(lines, 6), "it may start anywhere")
}

// The Last-Event-ID of a reconnecting browser takes precedence over ?after.
func TestReconnectResumesAfterLastEventID(t *testing.T) {
	t.Parallel()
	var after string
	_, lines := openStream(t, streamingService(&after, "id: 12\nevent: ready\ndata: {}\n\n"), nil, "/w/acme/live?after=5", "11")
	require.Len(t, readNonEmpty(lines, 4), 4)
	require.Equal(t, "11", after)
}

func TestRefusedStreamSaysWhy(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		http.StatusUnauthorized: "data: signed-out",
		http.StatusForbidden:    "data: removed",
		http.StatusNotFound:     "data: removed",
	} {
		_, lines := openStream(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }, nil, "/w/acme/live", "")
		require.Equal(t, []string{"event: over", want}, readNonEmpty(lines, 3))
	}
	unavailable := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	status, _ := openStream(t, unavailable, nil, "/w/acme/live", "")
	require.Equal(t, http.StatusBadGateway, status, "the browser reconnects")
}

func TestStreamsEndWhenTheAppStops(t *testing.T) {
	t.Parallel()
	var after string
	stopping := make(chan struct{})
	_, lines := openStream(t, streamingService(&after, "id: 6\nevent: ready\ndata: {}\n\n"), stopping, "/w/acme/live", "")
	require.Len(t, readNonEmpty(lines, 4), 4)
	close(stopping)
	require.Empty(t, readNonEmpty(lines, 1))
	require.NoError(t, lines.Err())
}

// Keep-alives prevent the idle timeout.
func TestSilentServiceEndsTheStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, lines := &handler{}, make(chan string)
		began := time.Now()
		go func() {
			for range 5 {
				<-time.After(idleTimeout - time.Second)
				lines <- ": keep-alive"
			}
		}()
		h.forward(t.Context(), lines, nil)
		require.Equal(t, 5*(idleTimeout-time.Second)+idleTimeout, time.Since(began))
	})
}

// A line beyond the limit ends the stream instead of filling memory.
func TestTooLongLineEndsTheStream(t *testing.T) {
	t.Parallel()
	lines := make(chan string)
	go readLines(context.Background(), strings.NewReader(fmt.Sprintf("id: 1\ndata: %s\n\n", strings.Repeat("a", maxLine))), lines)
	require.Equal(t, "id: 1", <-lines)
	_, ok := <-lines
	require.False(t, ok)
}

// The service extends a session at most once a day, often by the stream of a page that stays open.
func TestExtendedSessionReachesBrowser(t *testing.T) {
	t.Parallel()
	extended := &http.Cookie{Name: "better-auth.session_token", Value: "token", MaxAge: 604800}
	for name, status := range map[string]int{"stream": http.StatusOK, "refusal": http.StatusForbidden} {
		rest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.SetCookie(w, extended)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "id: 6\nevent: ready\ndata: {}\n\n")
		}))
		t.Cleanup(rest.Close)
		w := httptest.NewRecorder()
		h := &handler{client.NewService(rest.URL), nil, slog.New(slog.DiscardHandler)}
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/w/acme/live", nil))
		require.Len(t, w.Result().Cookies(), 1, name)
		require.Equal(t, extended.MaxAge, w.Result().Cookies()[0].MaxAge, name)
	}
}
