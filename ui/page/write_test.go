package page

import (
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"
	"github.com/stretchr/testify/require"

	"svc/ui/client"
)

// Large pages are compressed if the browser accepts gzip, except pages with a secret.
func TestPagesAreCompressed(t *testing.T) {
	t.Parallel()
	a := &App{Service: client.NewService("http://127.0.0.1:1"), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	large := strings.Repeat("<p>Zoë</p>", 1000)
	for _, test := range []struct {
		name, text, accepts string
		secret, compressed  bool
	}{
		{name: "large", text: large, accepts: "gzip, deflate, br", compressed: true},
		{name: "not taken", text: large},
		{name: "small", text: "<p>Zoë</p>", accepts: "gzip"},
		{name: "with a secret", text: large, accepts: "gzip", secret: true},
	} {
		show := a.handler(Route{Public: true, ShowsSecret: test.secret, Show: func(*Visit) (Page, error) {
			return Page{Part: templ.Raw(test.text), Status: http.StatusAccepted}, nil
		}})
		r := httptest.NewRequest(http.MethodGet, "/w", nil)
		r.Header.Set("Accept-Encoding", test.accepts)
		r.Header.Set("HX-Request", "true")
		w := httptest.NewRecorder()
		show.ServeHTTP(w, r)
		require.Equal(t, http.StatusAccepted, w.Code, test.name)
		require.Equal(t, "Accept-Encoding", w.Header().Get("Vary"), test.name)
		require.Equal(t, test.compressed, w.Header().Get("Content-Encoding") == "gzip", test.name)
		body := io.Reader(w.Body)
		if test.compressed {
			require.Less(t, w.Body.Len(), len(test.text)/10)
			unpacked, err := gzip.NewReader(w.Body)
			require.NoError(t, err)
			body = unpacked
		}
		text, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, test.text, string(text), test.name)
	}
}
