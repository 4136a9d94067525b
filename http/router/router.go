// Package router leads requests to handlers by method and path, each under the limits
// of its route. A GET answers HEAD as well; nothing is redirected.
package router

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/julienschmidt/httprouter"

	"svc/fault"
	"svc/http/middleware"
	"svc/http/reply"
)

// What a path that is none, and a method that a path does not have, are refused with.
var (
	ErrNotFound = fault.New(fault.NotFound, "not_found", "There is nothing here.")
	ErrMethod   = fault.New(fault.MethodNotAllowed, "method_not_allowed", "This path has no such method. Allow names those it has.")
)

// Refuse answers every request with a refusal.
func Refuse(log *slog.Logger, f *fault.Fault) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reply.Error(w, r, log, f) })
}

// A Route is a row of what a service serves.
type Route struct {
	Method  string
	Path    string // of words and {names}, or :names, whose values [http.Request.PathValue] has
	Limits  middleware.Limits
	Handler http.Handler
}

// A Router serves routes. Paths of words alone, such as /audit/export, come before those
// with a name in their place, such as /audit/{id}: one tree has no room for both.
type Router struct{ words, names *httprouter.Router }

// New returns a router without routes. notFound answers for paths that no route has,
// and notAllowed for methods that no route of a path has; Allow names those that there
// are. If it is nil the path is not found either.
func New(notFound, notAllowed http.Handler) *Router {
	r := &Router{httprouter.New(), httprouter.New()}
	for _, tree := range []*httprouter.Router{r.words, r.names} {
		tree.RedirectTrailingSlash, tree.RedirectFixedPath, tree.HandleOPTIONS = false, false, false
		tree.HandleMethodNotAllowed = notAllowed != nil
		if notAllowed != nil {
			tree.MethodNotAllowed = middleware.Limited(middleware.Limits{}, withoutOptions(notAllowed))
		}
	}
	r.names.NotFound = middleware.Limited(middleware.Limits{}, notFound)
	r.words.NotFound = r.names
	return r
}

// withoutOptions takes OPTIONS out of Allow, where the tree puts it: no route has it.
func withoutOptions(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for method := range strings.SplitSeq(w.Header().Get("Allow"), ", ") {
			if method != http.MethodOptions {
				allowed = append(allowed, method)
			}
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		next.ServeHTTP(w, r)
	})
}

// Handle adds a route.
func (r *Router) Handle(route Route) {
	tree := r.words
	if strings.ContainsAny(route.Path, "{:") {
		tree = r.names
	}
	handler := middleware.Routed(route.Method, route.Path, middleware.Limited(route.Limits, route.Handler))
	path := strings.NewReplacer("{", ":", "}", "").Replace(route.Path)
	serve := func(w http.ResponseWriter, r *http.Request, names httprouter.Params) {
		for _, name := range names {
			r.SetPathValue(name.Key, name.Value)
		}
		handler.ServeHTTP(w, r)
	}
	tree.Handle(route.Method, path, serve)
	if route.Method == http.MethodGet && !route.Limits.Stream {
		tree.Handle(http.MethodHead, path, func(w http.ResponseWriter, r *http.Request, names httprouter.Params) {
			r = r.WithContext(r.Context()) // the server, which leaves out the body, keeps the one that says HEAD
			r.Method = http.MethodGet
			serve(w, r, names)
		})
	}
}

// ServeHTTP leads a request to its route.
func (r *Router) ServeHTTP(w http.ResponseWriter, req *http.Request) { r.words.ServeHTTP(w, req) }
