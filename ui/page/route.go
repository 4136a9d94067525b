package page

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"svc/http/middleware"
	"svc/ui/client"
)

// A Page is the answer of a route.
type Page struct {
	Title    string          // "Members & roles"
	NavEntry string          // the entry of the navigation, such as "members"; "" for none
	Main     templ.Component // the content inside the shell
	Part     templ.Component // an answer for htmx, without shell; nil for a whole page
	Status   int             // 0 for 200
	Bare     bool            // without navigation: sign-in
}

// A Route is a route of the app. A POST first runs Do, then shows the page: htmx receives it
// at once, a browser without scripts after a redirect to Back.
type Route struct {
	Method, Path string
	Show         func(v *Visit) (Page, error)

	Do   func(v *Visit) (Notice, error)   // for a POST; refusals are shown on the page
	Back string                           // where to redirect: a path below the workspace such as "members", or a whole path outside of one
	Ask  func(v *Visit) (Question, error) // for a destructive POST; a zero Question is not asked

	Public      bool // does not require sign-in
	ShowsSecret bool // shows a secret once: without scripts, too, the page answers the POST; it is never compressed

	Body int64 // maximal bytes of a form; 0 for maxForm

	// Send writes a file instead of a page. An error after the first byte aborts the connection.
	Send func(v *Visit, w http.ResponseWriter) error
}

// A Notice is the outcome of a POST as people read it.
type Notice struct {
	Text string
	Bad  bool
	To   string // the address to redirect to; "" for the page itself
	Undo *Undo  // nil if it cannot be undone; only a browser with scripts offers it

	Href, Label string // a link after the text to a page of the app; "" for none
}

// An Undo is the form that takes back what was done, by an ordinary command.
type Undo struct {
	Action string            `json:"action"`
	Values map[string]string `json:"values"`
}

// An InlineError is a refusal that the page also shows inside its form. A browser with scripts, which renders the form
// again, gets no notice of it, nor does the sign-in page.
type InlineError struct{ Err error }

func (e InlineError) Error() string { return e.Err.Error() }

// Unwrap returns the refusal.
func (e InlineError) Unwrap() error { return e.Err }

// App turns routes into handlers.
type App struct {
	Service *client.Service
	Now     func() time.Time
	Log     *slog.Logger
	Secure  bool // browsers reach the app over HTTPS
	Assets  Assets
	API     string // public address of the REST service, such as "https://api.example"; "" if unknown
}

// Assets returns the addresses of style, scripts and other static files.
type Assets interface{ URL(name string) string }

// Policy is the Content-Security-Policy of pages: nothing from other sites, no inline
// scripts, no framing.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

const (
	maxForm     = 64 << 10       // bytes
	maxDownload = 24 * time.Hour // for sending a file
)

// Handle registers a handler for one method and path.
type Handle func(method, path string, limits middleware.Limits, handler http.Handler)

// Mount adds routes. Where a POST has no GET route of the same path, a GET redirects to the
// page with the form: the browser shows the form's address after a POST that is answered
// with a page, and may reload it.
func (a *App) Mount(handle Handle, list []Route) {
	for _, route := range list {
		shown := func(r Route) bool { return r.Method == http.MethodGet && r.Path == route.Path }
		if route.Method == http.MethodPost && route.Back != "" && !slices.ContainsFunc(list, shown) {
			handle(http.MethodGet, route.Path, middleware.Limits{Policy: Policy}, redirectBack(route))
		}
		limits := middleware.Limits{Policy: Policy, Body: cmp.Or(route.Body, maxForm)}
		if route.Send != nil {
			limits.Time, limits.Stream = maxDownload, true
		}
		handle(route.Method, route.Path, limits, a.handler(route))
	}
}

// redirectBack answers a GET of a path that only takes a POST with the page of its form.
func redirectBack(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, (&Visit{Request: r}).backAddress(route), http.StatusSeeOther)
	})
}

func (a *App) handler(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &Visit{Request: r, API: a.Service.NewSession(r, r.PathValue("workspace")), Now: a.Now(), PublicAPI: a.API, route: route}
		if err := a.loadWorkspace(v, route); err != nil {
			if !a.refuseOthers(w, v) {
				a.refuse(w, v, err)
			}
			return
		}
		if a.refuseOthers(w, v) {
			return
		}
		if route.Send != nil {
			a.sendFile(w, v, route)
			return
		}
		if route.Do != nil {
			if done := a.runPost(w, v, route); done {
				return
			}
			v.rereadWorkspace()
		} else if !v.FromHTMX() { // the notice is for the next page, not for a part refreshed before it
			v.notice = a.takeNotice(w, v)
		}
		shown, err := route.Show(v)
		if to, ok := errors.AsType[Redirect](err); ok {
			a.setCookies(w, v)
			http.Redirect(w, r, string(to), http.StatusTemporaryRedirect)
			return
		}
		if err != nil {
			a.refuse(w, v, err)
			return
		}
		a.write(w, v, shown)
	})
}

// sendFile runs route.Send. An error before the first byte is answered with an error page.
func (a *App) sendFile(w http.ResponseWriter, v *Visit, route Route) {
	tracked := &startTracker{ResponseWriter: w, beforeStart: func() { a.setCookies(w, v) }}
	err := route.Send(v, tracked)
	switch {
	case err == nil:
	case tracked.started:
		if v.Context().Err() != nil || tracked.failed {
			a.Log.InfoContext(v.Context(), "client disconnected during a download", "path", v.URL.Path, "err", err)
		} else {
			middleware.SetFailed(v.Context())
			a.Log.ErrorContext(v.Context(), "download failed", "path", v.URL.Path, "err", err)
		}
		panic(http.ErrAbortHandler) // or the browser would take half a file for a whole one
	default:
		a.refuse(w, v, err)
	}
}

// A startTracker records whether the answer has started, and whether the client does not receive it. It
// calls beforeStart before the first byte, when headers can still be set.
type startTracker struct {
	http.ResponseWriter
	beforeStart     func()
	started, failed bool
}

func (t *startTracker) Write(p []byte) (int, error) {
	if !t.started {
		t.started = true
		t.beforeStart()
	}
	n, err := t.ResponseWriter.Write(p)
	t.failed = t.failed || err != nil
	return n, err
}

func (t *startTracker) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// positionHeader carries the number of the newest event that the page knows when app.js
// refreshes a part of it. The part must show that event.
const positionHeader = "X-Svc-Min-Position"

// loadWorkspace reads the workspace of the path and the person's role in it, or who is signed in. It runs before
// all other reads, so that these are at least as new as the sequence number from which the
// page follows live updates.
func (a *App) loadWorkspace(v *Visit, route Route) (err error) {
	if route.Public {
		return nil
	}
	if !v.API.HasSessionCookie() {
		return &client.Refused{Status: http.StatusUnauthorized}
	}
	if v.Slug() == "" {
		return v.loadPerson()
	}
	if seq, err := strconv.ParseInt(v.Header.Get(positionHeader), 10, 64); err == nil {
		v.API.RequirePosition(seq)
	}
	v.Workspace, err = client.Decode[client.Workspace](v.API.GetWorkspace(v.Context(), nil))
	if you := v.Workspace.You; err == nil {
		v.Person.User.ID, v.Person.User.Name, v.Person.User.Email = you.UserId, you.Name, you.Email
	}
	return err
}

// rereadWorkspace reads the workspace again for the answer to a POST, which may have changed the person's role. If
// that fails, the answer shows the earlier role: it may contain a secret that is shown only once.
func (v *Visit) rereadWorkspace() {
	if v.Slug() == "" || v.route.Public {
		return
	}
	if workspace, err := client.Decode[client.Workspace](v.API.GetWorkspace(v.Context(), nil)); err == nil {
		v.Workspace = workspace
	}
}

// runPost runs route.Do. done is true if it wrote the answer.
func (a *App) runPost(w http.ResponseWriter, v *Visit, route Route) (done bool) {
	if err := v.ParseForm(); err != nil {
		a.refuse(w, v, formError(err))
		return true
	}
	if a.refuseOthers(w, v) || a.ask(w, v, route) {
		return true
	}
	notice, err := route.Do(v)
	if err != nil {
		r := client.AsRefused(err)
		if r == nil || r.Status == http.StatusUnauthorized || r.Status >= 500 || r.Code == "tenant_not_found" {
			a.refuse(w, v, err)
			return true
		}
		v.notice = Notice{Text: Sentence(r) + v.askWhom(r), Bad: true}
		if _, ok := errors.AsType[InlineError](err); ok && (v.FromHTMX() || route.Public) {
			v.notice.Text = ""
		}
		return false
	}
	v.notice = notice
	if (v.FromHTMX() || route.ShowsSecret) && notice.To == "" && route.Show != nil {
		return false
	}
	to := notice.To
	if to == "" {
		to = v.backAddress(route)
	}
	a.storeNotice(w, v, notice)
	a.setCookies(w, v)
	a.redirect(w, v, to)
	return true
}

// redirect redirects the browser, also if htmx sent the request. to is an address of the app.
func (a *App) redirect(w http.ResponseWriter, v *Visit, to string) {
	if v.FromHTMX() {
		w.Header().Set("HX-Redirect", to)
		w.WriteHeader(http.StatusOK)
		return
	}
	http.Redirect(w, v.Request, to, http.StatusSeeOther)
}

func (a *App) setCookies(w http.ResponseWriter, v *Visit) {
	if v.theme != nil {
		http.SetCookie(w, &http.Cookie{
			Name: themeCookie, Value: *v.theme, Path: "/", MaxAge: themeMaxAge, Secure: a.Secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		})
	}
	for _, c := range v.API.Cookies() {
		http.SetCookie(w, c)
	}
}

// SignInPath returns the address of the sign-in page, which leads back to the address to.
func SignInPath(to string) string { return "/sign-in?to=" + url.QueryEscape(to) }

// A Redirect is an error of Show that redirects to another address.
type Redirect string

func (r Redirect) Error() string { return "redirect to " + string(r) }

// Local returns address if it is a page of the app, and otherwise "/w", the list of
// workspaces. It prevents open redirects.
func Local(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(address, "/") || strings.HasPrefix(address, "//") ||
		strings.ContainsAny(address, "\\\r\n\t") || strings.HasPrefix(u.Path, "/api/") || strings.HasPrefix(u.Path, "/sign-") {
		return "/w"
	}
	return address
}
