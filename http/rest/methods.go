package rest

import (
	"net/http"
	"slices"
	"strings"

	"svc/fault"
	"svc/http/reply"
)

var errMethod = fault.New(fault.MethodNotAllowed, "method_not_allowed", "This path has no such method. Allow names those it has.")

// getOnly are the paths that have a GET but no HEAD: to ask for an export is a
// deed, and to make it for nobody a waste; a stream would not end.
var getOnly = []string{prefix + "/audit/export", prefix + "/events/stream"}

// headAsGet answers HEAD like GET; the server leaves the body out.
func headAsGet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead && !slices.Contains(getOnly, r.URL.Path) {
			r = r.Clone(r.Context())
			r.Method = http.MethodGet
		}
		next.ServeHTTP(w, r)
	})
}

// refuseMethod answers what no route of the path takes. The router has set Allow
// to the methods of the routes and OPTIONS, which there is not; it does not know
// of HEAD.
func (s *Server) refuseMethod(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range strings.Split(w.Header().Get("Allow"), ", ") {
		if method != http.MethodOptions {
			allowed = append(allowed, method)
		}
		if method == http.MethodGet && !slices.Contains(getOnly, r.URL.Path) {
			allowed = append(allowed, http.MethodHead)
		}
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	reply.Error(w, r, s.Log, errMethod)
}
