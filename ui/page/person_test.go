package page

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"
	"github.com/stretchr/testify/require"

	"svc/ui/client"
)

// A page that was made for Ada does nothing and shows nothing once Leo is signed in, whatever it sends.
func TestRequestsOfAnotherPersonsPageAreRefused(t *testing.T) {
	t.Parallel()
	rest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/get-session"):
			_, _ = io.WriteString(w, `{"user":{"id":"leo","name":"Leo Brändt"},"session":{"id":"s"}}`)
		case r.Header.Get("X-Svc-Tenant") == "acme":
			_, _ = io.WriteString(w, `{"slug":"acme","name":"Acme","you":{"userId":"leo","name":"Leo Brändt"}}`)
		default: // Leo is not a member
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"code":"tenant_not_found","message":"There is no such workspace."}`)
		}
	}))
	t.Cleanup(rest.Close)
	a := &App{Service: client.NewService(rest.URL), Now: time.Now, Log: slog.New(slog.DiscardHandler), Assets: noAssets{}}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, workspace := range []string{"acme", "globex", ""} {
			for _, public := range []bool{false, true} {
				for _, by := range []string{"header", "field"} {
					if by == "field" && method == http.MethodGet {
						continue
					}
					acted := false
					route := Route{Method: method, Public: public, Show: func(*Visit) (Page, error) {
						acted = true
						return Page{Part: templ.Raw("")}, nil
					}}
					if method == http.MethodPost {
						route.Do = func(*Visit) (Notice, error) {
							acted = true
							return Notice{}, nil
						}
					}
					ask := func(madeFor string) *http.Response {
						acted = false
						body := ""
						if by == "field" {
							body = url.Values{madeForField: {madeFor}}.Encode()
						}
						r := httptest.NewRequest(method, "/page", strings.NewReader(body))
						r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
						r.SetPathValue("workspace", workspace)
						r.AddCookie(&http.Cookie{Name: "better-auth.session_token", Value: "x"})
						if by == "header" {
							r.Header.Set("HX-Request", "true")
							r.Header.Set(madeForHeader, madeFor)
						}
						w := httptest.NewRecorder()
						a.handler(route).ServeHTTP(w, r)
						return w.Result()
					}
					answer := ask("ada")
					what := strings.Join([]string{method, workspace, by}, " ")
					require.False(t, acted, what)
					text, err := io.ReadAll(answer.Body)
					require.NoError(t, err)
					if by == "field" && workspace == "globex" && !public {
						require.Equal(t, http.StatusNotFound, answer.StatusCode, "the form of a workspace of Ada's alone")
						require.Contains(t, string(text), "You are signed in as Leo Brändt.")
						continue
					}
					require.Equal(t, http.StatusPreconditionFailed, answer.StatusCode, what)
					if by == "header" {
						require.Equal(t, `"Leo Br\u00e4ndt"`, answer.Header.Get(signedInHeader), what)
						require.Equal(t, "none", answer.Header.Get("HX-Reswap"), what)
					} else {
						require.Contains(t, string(text), "Leo Brändt", what)
					}
					if workspace != "globex" || public {
						ask("leo")
						require.True(t, acted, what)
					}
				}
			}
		}
	}
}

// Each form that is posted tells for whom its page was made.
func TestFormsTellForWhomTheyWereMade(t *testing.T) {
	t.Parallel()
	const field = `<input type="hidden" name="made-for" value="7"/>`
	for text, want := range map[string]string{
		"":                                   "",
		`<form method="get"><input/></form>`: `<form method="get"><input/></form>`,
		`a<form method="post" action="/b">c</form><form x="1>2" method="post">d`: `a<form method="post" action="/b">` + field +
			`c</form><form x="1>2" method="post">` + field + "d",
		`<form method="post"`: `<form method="post"` + field,
	} {
		require.Equal(t, want, string(withPerson([]byte(text), "7")))
		require.Equal(t, text, string(withPerson([]byte(text), "")), "nobody is signed in")
	}
}
