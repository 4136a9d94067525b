package middleware

import (
	"context"
	"net/http"
	"time"
)

// A Request is one that was answered, for those who count them. Nothing of it
// is the caller's choice, but for which route and when.
type Request struct {
	Method, Route string        // as in Routed; both are empty where no route took it
	Status        int           // 0 if the answer broke off before it began
	Took          time.Duration // from its header to the end of its answer
}

type requestKey struct{}

// Measured lets observe see each request once it is answered. It goes around [Traced],
// so that it sees what became of a panic.
func Measured(observe func(Request), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start, answer, request := time.Now(), &recorder{ResponseWriter: w}, &Request{}
		aborted := true
		defer func() {
			request.Status, request.Took = answer.status, time.Since(start)
			if request.Status == 0 && !aborted {
				request.Status = http.StatusOK // what the server sends for a handler that said nothing
			}
			observe(*request)
		}()
		next.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), requestKey{}, request)))
		aborted = false
	})
}

// Route says by which route the request of ctx came: a method and a template
// such as /api/v1/runs/{id}, both of our own choice.
func Route(ctx context.Context, method, template string) {
	if request, ok := ctx.Value(requestKey{}).(*Request); ok {
		request.Method, request.Route = method, template
	}
}

// Routed is [Route] for all requests of a handler.
func Routed(method, template string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Route(r.Context(), method, template)
		next.ServeHTTP(w, r)
	})
}
