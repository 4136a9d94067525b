// Package page is what all pages of the web app share: a request with the person behind
// it, the shell around what a page shows, and what becomes of refusals.
//
// A page has a folder of its own below ui, with its routes, its template and its test.
package page

import (
	"context"
	"net/http"
	"net/url"
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
	Workspace client.Workspace // whose page it is, with what the person is in it; zero outside of one
	Now       time.Time
	Done      any // what Do leaves for Show

	route  Route
	notice Notice  // what was done or refused just now
	theme  *string // what the person has chosen just now
}

// Slug returns the workspace that the path names, "" if it names none.
func (v *Visit) Slug() string { return v.PathValue("workspace") }

// May reports whether the person is an Owner or Maintainer: who may change what the
// workspace is made of. The service decides; this is for what a page offers.
func (v *Visit) May() bool {
	return v.Workspace.You.Role == client.YouRoleOwner || v.Workspace.You.Role == client.YouRoleMaintainer
}

// MayQueue reports whether the person may queue issues, as a legacy member may too.
func (v *Visit) MayQueue() bool { return v.May() || v.Workspace.You.Role == client.YouRoleMember }

// Owner reports whether the person is an Owner.
func (v *Visit) Owner() bool { return v.Workspace.You.Role == client.YouRoleOwner }

// Load runs functions that ask the service, at the same time, and returns the first
// error. The others are then cancelled.
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

// Action returns where a form of the page sends what it changes: a path in the workspace
// that keeps the query of the page, so that the answer shows what was looked at.
func (v *Visit) Action(parts ...string) string {
	if v.URL.RawQuery == "" {
		return v.Path(parts...)
	}
	return v.Path(parts...) + "?" + v.URL.RawQuery
}

// Self returns the path of the page that is shown, without its query: what is said to a
// page shows that page. An element that asks for it with hx-get and data-here asks for
// what the address bar says. Its own address stays as it is then whatever is filtered,
// for htmx takes an element whose hx-get changes for another one, and forgets what was
// about to be sent from within, such as the last letter of a search.
func (v *Visit) Self() string {
	if v.route.Back == "" {
		return v.URL.EscapedPath()
	}
	path, _, _ := strings.Cut(v.back(v.route), "?")
	return path
}

// Here returns the address of the page with some values of its query set, in pairs of
// name and value. An empty value takes the name out.
func (v *Visit) Here(pairs ...string) string {
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

// Query returns a value of the query without spaces around it.
func (v *Visit) Query(name string) string { return strings.TrimSpace(v.URL.Query().Get(name)) }

// Swapped reports whether htmx asks: it takes parts out of the answer.
func (v *Visit) Swapped() bool { return v.Header.Get("HX-Request") == "true" }

// RequestID returns the id that operators find the request by.
func (v *Visit) RequestID() string { return middleware.RequestID(v.Context()) }

// Theme returns "light", "dark" or "" for that of the system.
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

// SetTheme keeps what the person has chosen for this browser.
func (v *Visit) SetTheme(theme string) {
	if theme != "light" && theme != "dark" {
		theme = ""
	}
	v.theme = &theme
}

// ShowTheme shows the button by which it is chosen.
func ShowTheme(v *Visit) (Page, error) {
	return Page{Part: themeForm(v, Local(v.PostFormValue("to")))}, nil
}

const (
	themeCookie = "theme"
	themeMaxAge = 365 * 24 * 3600 // seconds
)
