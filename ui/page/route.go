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

// A Page is what is shown.
type Page struct {
	Title  string          // "Members & roles"
	Place  string          // the entry of the navigation, such as "members"; "" is none
	Main   templ.Component // what stands in the shell
	Part   templ.Component // what is shown instead of a page, to htmx
	Status int             // 200 if 0
	Bare   bool            // without navigation: sign-in
}

// A Route is a row of the app. One that is asked for by POST does something first;
// then the page is shown: at once to htmx, which takes out what it swaps, and to a
// browser without scripts after a redirect to Back.
type Route struct {
	Method, Path string
	Show         func(v *Visit) (Page, error)

	Do   func(v *Visit) (Notice, error)   // of a POST; its refusals are shown on the page
	Back string                           // the path below the workspace to redirect to, such as "members"; outside of one all of it
	Ask  func(v *Visit) (Question, error) // of a POST that takes something away; a zero Question is not asked

	Open bool // nobody has to be signed in
	Stay bool // what a POST did is shown at once to everybody: the page has what is shown only once

	Body int64 // bytes that a form may have; 0 is as many as most have

	// Send writes a file instead of a page. Once it has begun to write it can only break off.
	Send func(v *Visit, w http.ResponseWriter) error
}

// A Notice says what was done, or why it was not.
type Notice struct {
	Text string
	Bad  bool
	To   string // an address to go to; "" stays on the page
}

// Told is a refusal that the page tells where it arose, in the form: to a browser with
// scripts, which shows the form again, it is told there alone.
type Told struct{ Err error }

func (t Told) Error() string { return t.Err.Error() }

// Unwrap returns the refusal.
func (t Told) Unwrap() error { return t.Err }

// App makes handlers of routes.
type App struct {
	Service *client.Service
	Now     func() time.Time
	Log     *slog.Logger
	Secure  bool // browsers reach the app by https
	Assets  Assets
	API     string // public address of the REST service, such as "https://api.example"; "" if it is not known
}

// Assets has the addresses of the app's own files.
type Assets interface{ URL(name string) string }

// Policy is what pages may do: nothing comes from another site, nothing inline is run,
// nobody frames them.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

const (
	maxForm    = 64 << 10
	maxSending = 24 * time.Hour // of a file
)

// Handle adds a handler of one method and path to what the app serves.
type Handle func(method, path string, limits middleware.Limits, handler http.Handler)

// Mount adds routes. The address of a form, which stays in the browser where its answer is
// a page, leads to the page that the form is on.
func (a *App) Mount(handle Handle, list []Route) {
	for _, route := range list {
		shown := func(r Route) bool { return r.Method == http.MethodGet && r.Path == route.Path }
		if route.Method == http.MethodPost && route.Back != "" && !slices.ContainsFunc(list, shown) {
			handle(http.MethodGet, route.Path, middleware.Limits{Policy: Policy}, redirectBack(route))
		}
		limits := middleware.Limits{Policy: Policy, Body: cmp.Or(route.Body, maxForm)}
		if route.Send != nil {
			limits.Time, limits.Stream = maxSending, true
		}
		handle(route.Method, route.Path, limits, a.handler(route))
	}
}

// redirectBack answers a GET of a path that only takes a POST with the page of its form.
func redirectBack(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, (&Visit{Request: r}).back(route), http.StatusSeeOther)
	})
}

func (a *App) handler(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &Visit{Request: r, API: a.Service.For(r, r.PathValue("workspace")), Now: a.Now(), route: route}
		if err := a.enter(v, route); err != nil {
			a.refuse(w, v, err)
			return
		}
		if route.Send != nil {
			a.send(w, v, route)
			return
		}
		if route.Do != nil {
			if done := a.do(w, v, route); done {
				return
			}
		} else if !v.Swapped() { // a part that comes anew before the browser moves on is not the next page
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

// send lets a route write a file. What is refused before it begins is told on a page.
func (a *App) send(w http.ResponseWriter, v *Visit, route Route) {
	begun := &beginning{ResponseWriter: w}
	err := route.Send(v, begun)
	switch {
	case err == nil:
	case begun.yes:
		a.Log.InfoContext(v.Context(), "a file broke off", "path", v.URL.Path, "err", err)
		panic(http.ErrAbortHandler) // nobody takes half a file for a whole one
	default:
		a.refuse(w, v, err)
	}
}

// A beginning remembers whether an answer has begun.
type beginning struct {
	http.ResponseWriter
	yes bool
}

func (b *beginning) Write(p []byte) (int, error) {
	b.yes = true
	return b.ResponseWriter.Write(p)
}

func (b *beginning) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// positionHeader has the number of the newest event that the page was told of, where
// app.js asks for a part of it anew: the part has to show it.
const positionHeader = "X-Svc-Min-Position"

// enter finds out who the person is in the workspace. It comes before all else is asked,
// so that what is read afterwards is at least as new as the number from which the page
// follows the live updates.
func (a *App) enter(v *Visit, route Route) (err error) {
	if route.Open {
		return nil
	}
	if !v.API.SignedIn() {
		return &client.Refused{Status: http.StatusUnauthorized}
	}
	if v.Slug() == "" {
		return nil
	}
	if seq, err := strconv.ParseInt(v.Header.Get(positionHeader), 10, 64); err == nil {
		v.API.Await(seq)
	}
	v.Workspace, err = client.Read[client.Workspace](v.API.GetWorkspace(v.Context(), nil))
	return err
}

// do runs what a POST asks for. done is true if the answer was written.
func (a *App) do(w http.ResponseWriter, v *Visit, route Route) (done bool) {
	if err := v.ParseForm(); err != nil {
		a.refuse(w, v, formError(err))
		return true
	}
	if a.ask(w, v, route) {
		return true
	}
	notice, err := route.Do(v)
	if err != nil {
		r := client.As(err)
		if r == nil || r.Status == http.StatusUnauthorized || r.Status >= 500 || r.Code == "tenant_not_found" {
			a.refuse(w, v, err)
			return true
		}
		v.notice = Notice{Text: Sentence(r), Bad: true}
		if _, ok := errors.AsType[Told](err); ok && v.Swapped() {
			v.notice.Text = ""
		}
		return false
	}
	v.notice = notice
	if (v.Swapped() || route.Stay) && notice.To == "" && route.Show != nil {
		return false
	}
	to := notice.To
	if to == "" {
		to = v.back(route)
	}
	a.leaveNotice(w, v, notice)
	a.setCookies(w, v)
	a.redirect(w, v, to)
	return true
}

// redirect leads the browser on, whether it or htmx asks. to is an address of the app.
func (a *App) redirect(w http.ResponseWriter, v *Visit, to string) {
	if v.Swapped() {
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

// SignInPath is where whoever is not signed in is led, and comes back from to.
func SignInPath(to string) string { return "/sign-in?to=" + url.QueryEscape(to) }

// A Redirect is an error of what shows a page: the page is elsewhere.
type Redirect string

func (r Redirect) Error() string { return "redirect to " + string(r) }

// Local returns an address if it is a path of the app, and the chooser of workspaces if
// it is anything else: what is in a link leads nobody to another site.
func Local(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(address, "/") || strings.HasPrefix(address, "//") ||
		strings.ContainsAny(address, "\\\r\n\t") || strings.HasPrefix(u.Path, "/api/") || strings.HasPrefix(u.Path, "/sign-") {
		return "/w"
	}
	return address
}
