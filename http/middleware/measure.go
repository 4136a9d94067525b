package middleware

import (
	"context"
	"net/http"
	"time"
)

// A Request describes an answered request, for metrics. Its labels do not depend on input of the
// caller, except for the choice of route.
type Request struct {
	Method, Route string        // as given to Routed; empty if no route matched
	Status        int           // 0 if the handler aborted before the answer began
	Failed        bool          // SetFailed was called, or Status is 500 or more and the client had not left
	Took          time.Duration // from the request's header to the end of the answer
}

type requestKey struct{}

// Measured calls observe with each request after it is answered. It must wrap [Traced], which turns
// panics into answers.
func Measured(observe func(Request), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start, answer, request := time.Now(), &recorder{ResponseWriter: w}, &Request{}
		aborted := true
		defer func() {
			request.Status, request.Took = answer.status, time.Since(start)
			if request.Status == 0 && !aborted {
				request.Status = http.StatusOK // what the server sends if the handler wrote nothing
			}
			request.Failed = request.Failed || request.Status >= http.StatusInternalServerError && r.Context().Err() == nil
			observe(*request)
		}()
		next.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), requestKey{}, request)))
		aborted = false
	})
}

// SetRoute records the route of the request of ctx: a method and a template such as
// /api/v1/runs/{id}.
func SetRoute(ctx context.Context, method, template string) {
	if request, ok := ctx.Value(requestKey{}).(*Request); ok {
		request.Method, request.Route = method, template
	}
}

// SetFailed records that the answer to the request of ctx breaks off because of an error of this service,
// which its status does not say.
func SetFailed(ctx context.Context) {
	if request, ok := ctx.Value(requestKey{}).(*Request); ok {
		request.Failed = true
	}
}

// Routed calls [SetRoute] for all requests of a handler.
func Routed(method, template string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		SetRoute(r.Context(), method, template)
		next.ServeHTTP(w, r)
	})
}
