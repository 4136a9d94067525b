// Package page contains what all pages of the web app share: a request with the person who
// made it, the shell around a page's content, and error pages.
//
// Each page has its own folder below ui, with its routes, template and test.
package page

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"svc/http/middleware"
	"svc/ui/client"
)

// A Visit is one request of a person.
type Visit struct {
	*http.Request
	API       *client.Session
	Workspace client.Workspace // the workspace of the path, with the person's role; zero if the path names none
	Person    client.Person    // who is signed in; zero for a public route, and without the session in a workspace
	Now       time.Time        // when the request arrived; in templates, when the page is rendered
	PublicAPI string           // public address of the REST service, such as "https://api.example"; "" if unknown
	Result    any              // what Do leaves for Show, such as a refused form

	route  Route
	notice Notice  // the outcome of this request's POST, or of the one before a redirect
	theme  *string // the theme chosen by this request; nil if it chose none
}

// Slug returns the slug of the workspace in the path, or "".
func (v *Visit) Slug() string { return v.PathValue("workspace") }

// MayManage reports whether the person is an Owner or Maintainer and so may manage the workspace.
// It only decides what a page offers; the service enforces the right.
func (v *Visit) MayManage() bool {
	return v.Workspace.You.Role == client.YouRoleOwner || v.Workspace.You.Role == client.YouRoleMaintainer
}

// MayQueue reports whether the person may queue issues, which the legacy role member may too.
func (v *Visit) MayQueue() bool { return v.MayManage() || v.Workspace.You.Role == client.YouRoleMember }

// OnlyManagers says who may do what the person may not.
func OnlyManagers(what string) string { return "Only an Owner or Maintainer can " + what + "." }

// IsOwner reports whether the person is an Owner.
func (v *Visit) IsOwner() bool { return v.Workspace.You.Role == client.YouRoleOwner }

// Load runs functions that query the service concurrently. It returns the first error, on
// which the context of the others is cancelled.
func (v *Visit) Load(list ...func(ctx context.Context) error) error {
	group, ctx := errgroup.WithContext(v.Context())
	for _, load := range list {
		group.Go(func() error { return load(ctx) })
	}
	return group.Wait()
}

// Path returns a path in the workspace: Path("members", id) is "/w/acme/members/1".
func (v *Visit) Path(parts ...string) string { return Path(v.Slug(), parts...) }

// Path returns a path in a workspace.
func Path(workspace string, parts ...string) string {
	var path strings.Builder
	path.Grow(128)
	path.WriteString("/w/")
	path.WriteString(url.PathEscape(workspace))
	for _, part := range parts {
		path.WriteByte('/')
		path.WriteString(url.PathEscape(part))
	}
	return path.String()
}

// Action returns the address that a form posts to: a path in the workspace with the page's
// query, so that the answer shows the same filters and page of a list.
func (v *Visit) Action(parts ...string) string {
	if v.URL.RawQuery == "" {
		return v.Path(parts...)
	}
	return v.Path(parts...) + "?" + v.URL.RawQuery
}

// Self returns the path of the page, without its query; for a POST, that of the page with
// the form. It is for hx-get of elements with data-here, to whose requests app.js adds the
// query in the address bar. Their hx-get must not change with the query: htmx treats an
// element whose hx-get changes as a new one, and drops a request that is about to be sent
// from inside it, such as the last letter of a search.
func (v *Visit) Self() string {
	if v.route.Back == "" {
		return v.URL.EscapedPath()
	}
	path, _, _ := strings.Cut(v.backAddress(v.route), "?")
	return path
}

// WithQuery returns the address of the page with values of its query replaced, given as pairs of
// name and value. An empty value removes the name.
func (v *Visit) WithQuery(pairs ...string) string {
	q := v.URL.Query()
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			q.Del(pairs[i])
		} else {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return v.URL.Path
	}
	return v.URL.Path + "?" + q.Encode()
}

// Query returns a value of the query without surrounding spaces.
func (v *Visit) Query(name string) string { return strings.TrimSpace(v.URL.Query().Get(name)) }

// QueryNumber returns a number of the query that is not negative, such as an offset, and 0 for anything else.
func (v *Visit) QueryNumber(name string) int64 {
	n, err := strconv.ParseInt(v.Query(name), 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// ParseNumber parses a number of a query or a form; negative and invalid ones are 0.
func ParseNumber(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// FromHTMX reports whether htmx sent the request. htmx swaps parts of the answer into the page.
func (v *Visit) FromHTMX() bool { return v.Header.Get("HX-Request") == "true" }

// RequestID returns the id under which operators find the request in logs.
func (v *Visit) RequestID() string { return middleware.RequestID(v.Context()) }

// Theme returns "light", "dark", or "" for the system's setting.
func (v *Visit) Theme() string {
	if v.theme != nil {
		return *v.theme
	}
	c, err := v.Cookie(themeCookie)
	if err != nil || c.Value != "light" && c.Value != "dark" {
		return ""
	}
	return c.Value
}

// SetTheme makes the answer store the theme in a cookie. Anything but "light" and "dark" is
// the system's setting.
func (v *Visit) SetTheme(theme string) {
	if theme != "light" && theme != "dark" {
		theme = ""
	}
	v.theme = &theme
}

// ShowTheme shows the button that changes the theme.
func ShowTheme(v *Visit) (Page, error) {
	return Page{Part: themeForm(v, Local(v.PostFormValue("to")))}, nil
}

const (
	themeCookie = "theme"
	themeMaxAge = 365 * 24 * 3600 // seconds
)
