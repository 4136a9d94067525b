package codehost

import (
	"bytes"
	"cmp"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"svc/dev/codehost/oauth"
	"svc/dev/codehost/people"
	"svc/fault"
)

//go:embed style.css
var styles []byte

//go:embed page.html repository.html
var pages embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{"short": short, "time": pageTime}).ParseFS(pages, "*.html"))

// A message is a page with only a text.
type message struct{ Title, Text string }

// An authorization is the authorization page.
type authorization struct {
	Title, Client, Home string
	Action              string // URL that receives the answer
	Asks                []string
	People              []choice
	New                 personForm
}

// A choice is a person to choose.
type choice struct {
	Login, Name, Address, Role string
	More                       int // number of further addresses
	Verified, Expected, Absent bool
}

// A personForm is the form that adds a person, with the problem of the last attempt.
type personForm struct {
	Name, Email string
	Verified    bool
	Problem     string
}

var scopeTexts = map[string]string{
	"read:user":  "Read your profile: name, login and picture",
	"user:email": "Read your e-mail addresses",
	"user":       "Read and change your profile, and read your e-mail addresses",
}

func (h *host) showRequest(w http.ResponseWriter, r *http.Request, status int, q oauth.Request, form personForm) {
	client := cmp.Or(q.Client.Name, q.Client.ID)
	page := authorization{
		Title: "Sign in to " + client, Client: client, Home: q.Redirect.Host,
		Action: r.URL.Path + "?" + r.URL.RawQuery, New: form,
	}
	for _, s := range q.Scopes {
		page.Asks = append(page.Asks, cmp.Or(scopeTexts[s], s))
	}
	if page.Asks == nil {
		page.Asks = []string{"Read your public profile"}
	}
	for _, p := range h.people.All() {
		page.People = append(page.People, newChoice(p, q.Hint))
	}
	slices.SortStableFunc(page.People, func(a, b choice) int { return rank(a) - rank(b) })
	w.Header().Set("Content-Security-Policy", policy(q.Redirect))
	w.Header().Set("Referrer-Policy", "same-origin") // the form must send its origin
	render(w, status, "question", page)
}

func newChoice(p people.Person, hint string) choice {
	email := p.Primary()
	return choice{
		Login: p.Login, Name: cmp.Or(p.Name, p.Login), Address: email.Address, Role: p.Role, More: len(p.Emails) - 1,
		Verified: email.Verified, Absent: email.Address == "",
		Expected: hint != "" && (strings.EqualFold(hint, p.Login) || p.Has(hint)),
	}
}

// rank puts the person whom the application expects first.
func rank(c choice) int {
	if c.Expected {
		return 0
	}
	return 1
}

// policy returns the page's Content-Security-Policy. It allows the host's styles and pictures, and
// forms to the host. Browsers apply form-action to redirects as well, so it also lists the
// application and the rest of this machine, to which the application may redirect.
func policy(redirect *url.URL) string {
	origin := redirect.Scheme + "://" + redirect.Host
	if strings.Contains(redirect.Host, "[") {
		origin = redirect.Scheme + ":" // CSP cannot express IPv6 addresses
	}
	return "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; " +
		"form-action 'self' " + origin + " http://127.0.0.1:* http://localhost:*"
}

func problem(err error) string {
	if f := fault.As(err); f != nil {
		for _, v := range f.Details {
			if texts, ok := v.([]string); ok && len(texts) > 0 {
				return texts[0]
			}
		}
	}
	return "That did not work."
}

// quietPolicy is the Content-Security-Policy of pages without forms.
const quietPolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func show(w http.ResponseWriter, status int, m message) {
	w.Header().Set("Content-Security-Policy", quietPolicy)
	render(w, status, "message", m)
}

func render(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // the templates are embedded
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // fails if the client has gone
}

func style(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(styles)
}
