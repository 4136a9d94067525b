// Package home is the page at the root of the REST service: people sign in
// there, see their workspaces and answer invitations. It is what a browser has
// as long as no web app stands in front of the service.
package home

import (
	"embed"
	"html/template"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"svc/http/middleware"
	"svc/http/router"
)

//go:embed home.html home.js home.css
var files embed.FS

var page = template.Must(template.ParseFS(files, "home.html"))

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves the page at "/" with "/home.js" and "/home.css". provider is the name of
// the code host that people sign in by, "" if there is none.
func Handler(provider string, log *slog.Logger) http.Handler {
	routes := router.New(router.Refuse(log, router.ErrNotFound), router.Refuse(log, router.ErrMethod))
	routes.Handle(router.Route{
		Method: http.MethodGet, Path: "/", Limits: middleware.Limits{Policy: policy},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_ = page.Execute(w, map[string]string{"Provider": provider, "Label": labels[provider]}) // if it fails the browser has gone
		}),
	})
	for _, name := range []string{"/home.js", "/home.css"} {
		text, err := files.ReadFile(name[1:])
		if err != nil {
			panic(err) // it is embedded
		}
		routes.Handle(router.Route{Method: http.MethodGet, Path: name,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
				w.Header().Set("Cache-Control", "no-cache")
				_, _ = w.Write(text)
			})})
	}
	return routes
}

var labels = map[string]string{"github": "GitHub", "gitea": "Gitea", "forgejo": "Forgejo"}
