package page

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"
	"github.com/stretchr/testify/require"

	"svc/http/middleware"
	"svc/ui/client"
	"svc/ui/kit"
)

// Addresses from links never lead to another site.
func TestLocal(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"/w/acme/runs?q=a#b": "/w/acme/runs?q=a#b", "/account": "/account",
		"": "/w", "w": "/w", "//evil.example": "/w", "///evil.example": "/w", "https://evil.example": "/w", "/\\evil.example": "/w",
		"\\\\evil.example": "/w", "javascript:alert(1)": "/w", "/a\r\nSet-Cookie: a=b": "/w", "/\t/evil.example": "/w",
		"/api/auth/sign-out": "/w", "/sign-in?to=/sign-in": "/w", "/%": "/w",
	} {
		require.Equal(t, want, Local(address), address)
	}
}

func TestNoticeHeaderIsASCII(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"Zoë Brandt is now Viewer.", "日本 🎉", "a\nb\"c", "<b>"} {
		h := http.Header{}
		Notice{Text: text, Bad: true}.setHeader(h)
		for _, r := range h.Get("X-Notice") {
			require.True(t, r >= ' ' && r < 0x7f, text)
		}
		var said struct {
			Text string
			Bad  bool
		}
		require.NoError(t, json.Unmarshal([]byte(h.Get("X-Notice")), &said))
		require.Equal(t, text, said.Text)
		require.True(t, said.Bad)
	}
}

func TestLongNoticeIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("界", 200) // nine bytes each when escaped
	text, err := url.QueryUnescape(escapedNotice(long))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("界", maxNotice/9), text)
	require.Equal(t, "a+b%2Fc", escapedNotice("a b/c"))
}

// Requests for parts of a page, between a form and the next page, leave the notice to that page.
func TestNoticeWaitsForNextPage(t *testing.T) {
	t.Parallel()
	a := &App{
		Service: client.NewService("http://127.0.0.1:1"), Now: time.Now, Log: slog.New(slog.DiscardHandler), Assets: noAssets{},
	}
	show := a.handler(Route{Public: true, Show: func(v *Visit) (Page, error) {
		return Page{Part: templ.Raw("<p>" + v.notice.Text + "</p>")}, nil
	}})
	ask := func(part bool) *http.Response {
		r := httptest.NewRequest(http.MethodGet, "/w", nil)
		r.AddCookie(&http.Cookie{Name: noticeCookie, Value: "7.Done."})
		if part {
			r.Header.Set("HX-Request", "true")
		}
		w := httptest.NewRecorder()
		show.ServeHTTP(w, r)
		return w.Result()
	}
	part := ask(true)
	require.Empty(t, part.Cookies())
	require.Empty(t, part.Header.Get("X-Notice"))
	page := ask(false)
	require.Len(t, page.Cookies(), 1)
	require.Negative(t, page.Cookies()[0].MaxAge)
	text, err := io.ReadAll(page.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "<p>Done.</p>")
	require.Contains(t, string(text), "<title>Workspace Service</title>", "a part that is opened by itself is in a page")
	text, err = io.ReadAll(part.Body)
	require.NoError(t, err)
	require.Equal(t, "<p></p>", string(text))
}

// Scripts take the time of the server from the page, which may have waited for what it shows.
func TestPageHasTheTimeOfItsRendering(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 23, 56, 25, 0, time.UTC)
	a := &App{
		Service: client.NewService("http://127.0.0.1:1"), Now: func() time.Time { return now },
		Log: slog.New(slog.DiscardHandler), Assets: noAssets{},
	}
	var asked time.Time
	show := a.handler(Route{Public: true, Show: func(v *Visit) (Page, error) {
		asked = v.Now
		now = now.Add(5 * time.Second)
		return Page{Main: templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
			_, err := io.WriteString(w, kit.Ago(asked.Add(4*time.Second), v.Now))
			return err
		})}, nil
	}})
	w := httptest.NewRecorder()
	show.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/sign-in", nil))
	require.Contains(t, w.Body.String(), `data-time="`+strconv.FormatInt(asked.Add(5*time.Second).UnixMilli(), 10)+`"`)
	require.Contains(t, w.Body.String(), "just now", "what happened meanwhile is not to come")
}

type noAssets struct{}

func (noAssets) URL(name string) string { return name }

// A download may be the request by which the service extends the session.
func TestDownloadSetsCookies(t *testing.T) {
	t.Parallel()
	rest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "better-auth.session_token", Value: "extended"})
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(rest.Close)
	a := &App{Service: client.NewService(rest.URL), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	download := a.handler(Route{Public: true, Send: func(v *Visit, w http.ResponseWriter) error {
		if _, err := client.Decode[client.Workspace](v.API.GetWorkspace(v.Context(), nil)); err != nil {
			return err
		}
		_, _ = io.WriteString(w, "one,")
		_, err := io.WriteString(w, "two")
		return err
	}})
	w := httptest.NewRecorder()
	download.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/w/acme/members/export.csv", nil))
	require.Equal(t, "one,two", w.Body.String())
	require.Len(t, w.Result().Cookies(), 1)
	require.Equal(t, "extended", w.Result().Cookies()[0].Value)
}

// A download that breaks off although the client is there counts as a failure, whatever its status.
func TestBrokenDownloadIsAFailure(t *testing.T) {
	t.Parallel()
	for name, leaves := range map[string]bool{"the service fails": false, "the client leaves": true} {
		a := &App{Service: client.NewService("http://127.0.0.1:1"), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
		ctx, leave := context.WithCancel(t.Context())
		t.Cleanup(leave)
		download := a.handler(Route{Public: true, Send: func(_ *Visit, w http.ResponseWriter) error {
			_, err := io.WriteString(w, "one,")
			require.NoError(t, err)
			if leaves {
				leave()
			}
			return io.ErrUnexpectedEOF
		}})
		var seen middleware.Request
		measured := middleware.Measured(func(r middleware.Request) { seen = r }, download)
		require.PanicsWithValue(t, http.ErrAbortHandler, func() {
			measured.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/w/acme/members/export.csv", nil))
		})
		require.Equal(t, !leaves, seen.Failed, name)
	}
}

// A slug that is not a valid header value is answered with 404. It is not reported as a failure of
// the service, neither to the person nor to operators.
func TestWorkspaceWithInvalidHeaderValueIsMissing(t *testing.T) {
	t.Parallel()
	for _, slug := range []string{"acme\x00", "acme\r\nX-A: b", "\u0085"} {
		v := &Visit{Request: httptest.NewRequest(http.MethodGet, "/w/acme", nil)}
		v.API = client.NewService("http://127.0.0.1:1").NewSession(v.Request, slug)
		_, err := client.Decode[client.Workspace](v.API.GetWorkspace(v.Context(), nil))
		status, _ := problem(client.AsRefused(err), err)
		require.Equal(t, http.StatusNotFound, status, "%q", slug)
	}
}

func TestTrailingSlashIsRedirected(t *testing.T) {
	t.Parallel()
	a := &App{Service: client.NewService("http://127.0.0.1:1"), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	for address, to := range map[string]string{
		"/w/acme/": "/w/acme", "/w/acme/members/?q=a%2Fb": "/w/acme/members?q=a%2Fb", "/w/a%2Fb//": "/w/a%2Fb", "//evil.example/": "/w",
		"/\\evil.example/": "/%5Cevil.example",
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		var err error
		r.URL, err = url.ParseRequestURI(address)
		require.NoError(t, err)
		a.NotFound().ServeHTTP(w, r)
		require.Equal(t, http.StatusPermanentRedirect, w.Code, address)
		require.Equal(t, to, w.Header().Get("Location"), address)
	}
}

func visit(address string) *Visit {
	r := httptest.NewRequest(http.MethodGet, address, nil)
	r.SetPathValue("workspace", "acme")
	return &Visit{Request: r, API: client.NewService("http://127.0.0.1:1").NewSession(r, "acme")}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	v := visit("/w/acme/runs?repo=1&q=a+b")
	require.Equal(t, "/w/acme/members/a%2Fb", v.Path("members", "a/b"))
	require.Equal(t, "/w/acme/members/1/role?repo=1&q=a+b", v.Action("members", "1", "role"))
	require.Equal(t, "/w/acme/runs?offset=50&q=a+b", v.WithQuery("repo", "", "offset", "50"))
	require.Equal(t, "/w/acme/runs", v.WithQuery("repo", "", "q", ""))
}

func TestErrorPagesShowNoInternalMessage(t *testing.T) {
	t.Parallel()
	for want, err := range map[int]error{
		http.StatusBadGateway:          &client.Unreachable{Err: http.ErrServerClosed},
		http.StatusInternalServerError: &client.Refused{Status: 500, Message: "secret"},
		http.StatusTooManyRequests:     &client.Refused{Status: 429, Message: "Wait."},
		http.StatusNotFound:            &client.Refused{Status: 404, Code: "tenant_not_found"},
		http.StatusForbidden:           &client.Refused{Status: 403, Message: "Only an Owner can."},
	} {
		status, p := problem(client.AsRefused(err), err)
		require.Equal(t, want, status)
		require.NotEmpty(t, p.Title)
		require.NotContains(t, p.Text, "secret")
	}
}

func TestThemes(t *testing.T) {
	t.Parallel()
	v := visit("/w/acme/runs")
	require.Empty(t, v.Theme())
	v.AddCookie(&http.Cookie{Name: themeCookie, Value: `dark"><script>`})
	require.Empty(t, v.Theme())
	v.SetTheme("nothing")
	require.Empty(t, *v.theme)
	v.SetTheme("dark")
	require.Equal(t, "dark", *v.theme)
}

// A refusal for lack of a role names the roles required and the caller's own.
func TestRoleRequired(t *testing.T) {
	t.Parallel()
	answer := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/workspace" {
			_, _ = io.WriteString(w, `{"you": {"role": "member"}}`)
			return
		}
		switch r.URL.Query().Get("role") {
		case "Owner":
			_, _ = io.WriteString(w, `{"items": [{"name": "Ada"}]}`)
			return
		case "Maintainer":
			_, _ = io.WriteString(w, `{"items": [{"name": "Ben"}, {"email": "mia@acme.example"}, {"name": "Zoe"}]}`)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"code": "role_required", "message": "Not allowed.", "details": {"required": ["Owner", "Maintainer"]}}`)
	}
	service := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(service.Close)
	a := &App{Service: client.NewService(service.URL), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	r := httptest.NewRequest(http.MethodGet, "/w/acme/audit", nil)
	r.SetPathValue("workspace", "acme")
	r.AddCookie(&http.Cookie{Name: "better-auth.session_token", Value: "x"})
	w := httptest.NewRecorder()
	r.Header.Set("HX-Request", "true")
	a.handler(Route{Show: func(v *Visit) (Page, error) {
		return Page{}, client.CheckResponse(v.API.ListAudit(v.Context(), nil))
	}}).ServeHTTP(w, r)
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Contains(t, w.Header().Get("X-Notice"),
		"Only an Owner or Maintainer can do this. You are a Viewer. Ask Ada, Ben or mia@acme.example.")
}

// A form that is too large is refused, and not read as a form with empty fields.
func TestFormsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	a := &App{Service: client.NewService("http://127.0.0.1:1"), Now: time.Now, Log: slog.New(slog.DiscardHandler), Assets: assets{}}
	mux := http.NewServeMux()
	a.Mount(func(method, path string, limits middleware.Limits, handler http.Handler) {
		mux.Handle(method+" "+path, middleware.Limited(limits, handler))
	}, []Route{{Method: http.MethodPost, Path: "/w", Public: true, Back: "/w", Do: func(*Visit) (Notice, error) {
		t.Error("done")
		return Notice{}, nil
	}}})
	for body, want := range map[string]int{
		"email=" + strings.Repeat("a", maxForm): http.StatusRequestEntityTooLarge,
		"email=%zz":                             http.StatusBadRequest,
	} {
		r := httptest.NewRequest(http.MethodPost, "/w", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		require.Equal(t, want, w.Code)
		require.Contains(t, w.Body.String(), "Nothing was changed.")
	}
}

type assets struct{}

func (assets) URL(name string) string { return "/" + name }

func TestAnswerToPostShowsTheNewRole(t *testing.T) {
	t.Parallel()
	role := "Owner"
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if role == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, `{"you": {"role": "`+role+`"}}`)
	}))
	t.Cleanup(service.Close)
	a := &App{Service: client.NewService(service.URL), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	post := func(to string) string {
		handler := a.handler(Route{
			Do:   func(*Visit) (Notice, error) { role = to; return Notice{Text: "Done."}, nil },
			Show: func(v *Visit) (Page, error) { return Page{Part: templ.Raw(string(v.Workspace.You.Role))}, nil },
		})
		r := httptest.NewRequest(http.MethodPost, "/w/acme/members/1/role", nil)
		r.SetPathValue("workspace", "acme")
		r.Header.Set("HX-Request", "true")
		r.AddCookie(&http.Cookie{Name: "better-auth.session_token", Value: "x"})
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code)
		return w.Body.String()
	}
	require.Equal(t, "Viewer", post("Viewer"))
	require.Equal(t, "Viewer", post(""), "if the service does not answer any more")
}

// A person who has to sign in again returns to the page, not to a part of it.
func TestReturnPathAfterSignIn(t *testing.T) {
	t.Parallel()
	a := &App{Service: client.NewService("http://127.0.0.1:1"), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	for _, c := range []struct{ method, address, current, want string }{
		{http.MethodGet, "/w/acme/runs?q=a", "", "/w/acme/runs?q=a"},
		{http.MethodPost, "/w/acme/members/1/role?q=a", "", "/w/acme/members/1/role?q=a"}, // which leads to members
		{http.MethodGet, "/w/acme/needs/badge", "http://app.example/w/acme/runs?q=a", "/w/acme/runs?q=a"},
		{http.MethodPost, "/w/acme/members/1/role", "http://app.example/w/acme/members", "/w/acme/members"},
		{http.MethodGet, "/workspace-menu", "\x00", "/workspace-menu"},
	} {
		r := httptest.NewRequest(c.method, c.address, nil)
		header := "Location"
		if c.current != "" {
			r.Header.Set("HX-Request", "true")
			r.Header.Set("HX-Current-URL", c.current)
			header = "HX-Redirect"
		}
		w := httptest.NewRecorder()
		a.handler(Route{Method: c.method}).ServeHTTP(w, r)
		require.Equal(t, SignInPath(c.want), w.Header().Get(header), c.address)
	}
}

// A temporary failure gets the title of its own cause.
func TestProblemsThatPass(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]*client.Refused{
		"Too many requests: Slow down. Try again in 1 min.": {Status: 429, Message: "Slow down.", RetryAfter: "60"},
		"The latest changes are still loading: Not yet.":    {Status: 503, Code: "not_caught_up", Message: "Not yet."},
		"The service is busy: Wait. Try again in 2 s.":      {Status: 503, Code: "busy", Message: "Wait.", RetryAfter: "2"},
		"Part of the service is not responding: No engine.": {Status: 503, Code: "engine_unavailable", Message: "No engine."},
	} {
		status, p := problem(r, r)
		require.Equal(t, r.Status, status)
		require.Equal(t, want, p.Title+": "+p.Text+retryHint(p.Wait))
		require.True(t, p.Retry)
	}
}

func TestDestination(t *testing.T) {
	v := &Visit{}
	for address, want := range map[string]string{
		"/w/acme/members?q=mia": "Members & roles, acme", "/w/acme/runs/7": "Runs, acme", "/w/acme": "acme", "/account": "Account",
		"/w/acme/elsewhere": "/w/acme/elsewhere",
	} {
		require.Equal(t, want, v.Destination(address), address)
	}
}

func TestQueryNumber(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]int64{
		"": 0, "n=7": 7, "n=+7": 7, "n=-7": 0, "n=seven": 0, "n=7.5": 0, "n=2147483647": 2147483647, "n=2147483648": 0,
	} {
		v := &Visit{Request: httptest.NewRequest(http.MethodGet, "/w?"+query, nil)}
		require.Equal(t, want, v.QueryNumber("n"), query)
	}
}
