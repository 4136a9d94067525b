// Package router routes requests to handlers by method and path, each with the limits of its route.
// A GET route also answers HEAD, and nothing is redirected.
package router

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/julienschmidt/httprouter"

	"svc/fault"
	"svc/http/middleware"
	"svc/http/reply"
)

// Errors for unknown paths, and for methods that a path does not have.
var (
	ErrNotFound = fault.New(fault.NotFound, "not_found", "There is nothing here.")
	ErrMethod   = fault.New(fault.MethodNotAllowed, "method_not_allowed", "This path has no such method. Allow names those it has.")
)

// Refuse returns a handler that answers every request with f.
func Refuse(log *slog.Logger, f *fault.Fault) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reply.Error(w, r, log, f) })
}

// A Route is a method and path with its handler.
type Route struct {
	Method  string
	Path    string // with parameters as {name} or :name, whose values [http.Request.PathValue] returns
	Limits  middleware.Limits
	Handler http.Handler
}

// A Router serves routes. Static paths, such as /audit/export, take precedence over paths with a
// parameter in the same position, such as /audit/{id}. They are in separate trees, since httprouter
// does not allow both in one.
type Router struct{ static, params *httprouter.Router }

// New returns a router without routes. notFound handles unknown paths, and notAllowed known paths
// with another method, for which Allow is set. If notAllowed is nil such requests go to notFound.
func New(notFound, notAllowed http.Handler) *Router {
	r := &Router{httprouter.New(), httprouter.New()}
	for _, tree := range []*httprouter.Router{r.static, r.params} {
		tree.RedirectTrailingSlash, tree.RedirectFixedPath, tree.HandleOPTIONS = false, false, false
		tree.HandleMethodNotAllowed = notAllowed != nil
		if notAllowed != nil {
			tree.MethodNotAllowed = middleware.Limited(middleware.Limits{}, withoutOptions(notAllowed))
		}
	}
	r.params.NotFound = middleware.Limited(middleware.Limits{}, notFound)
	r.static.NotFound = r.params
	return r
}

// withoutOptions removes OPTIONS from Allow. httprouter adds it, but no route has it.
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
	tree := r.static
	if strings.ContainsAny(route.Path, "{:") {
		tree = r.params
	}
	handler := middleware.Limited(route.Limits, route.Handler)
	path := strings.NewReplacer("{", ":", "}", "").Replace(route.Path)
	serve := func(w http.ResponseWriter, r *http.Request, names httprouter.Params) {
		middleware.SetRoute(r.Context(), route.Method, route.Path)
		for _, name := range names {
			r.SetPathValue(name.Key, name.Value)
		}
		handler.ServeHTTP(w, r)
	}
	tree.Handle(route.Method, path, serve)
	if route.Method != http.MethodGet || route.Limits.Hijack {
		return
	}
	tree.Handle(http.MethodHead, path, func(w http.ResponseWriter, r *http.Request, names httprouter.Params) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		r = r.WithContext(ctx) // a copy: the server omits the body because its own request still says HEAD
		r.Method = http.MethodGet
		if !route.Limits.Stream {
			serve(w, r, names)
			return
		}
		defer func() {
			if p := recover(); p != nil && (p != http.ErrAbortHandler || ctx.Err() == nil) { //nolint:errorlint // as net/http compares it
				panic(p)
			}
		}()
		serve(&headWriter{w, cancel}, r, names)
	})
}

// A headWriter ends a stream after its header, as if the client had gone.
type headWriter struct {
	http.ResponseWriter
	end func()
}

func (w *headWriter) Write([]byte) (int, error) { return 0, w.FlushError() }

// FlushError is what [http.ResponseController] calls.
func (w *headWriter) FlushError() error {
	w.end()
	return context.Canceled
}

// Unwrap lets [http.ResponseController] set deadlines.
func (w *headWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ServeHTTP routes a request. A path with an escape that it does not need, such as %61 or %2f, is unknown: proxies in front
// disagree on whether it is another spelling of a path that they let through.
func (r *Router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if strings.Contains(req.URL.RawPath, "%") { // it is "" if Path says how the path was sent
		r.params.NotFound.ServeHTTP(w, req)
		return
	}
	r.static.ServeHTTP(w, req)
}
