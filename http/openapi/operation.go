package openapi

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"svc/fault"
	"svc/http/middleware"
	"svc/http/reply"
)

// An Operation is a method of a path: its limits, who lets requests in, and what the
// document says of it.
type Operation struct {
	Method, Path string // the path has parameters in braces, such as /runs/{id}
	Limits       middleware.Limits
	Guard        Guard

	ID, Tag, Summary, Text string
	Status                 int            // of success; 200 if 0
	Faults                 []*fault.Fault // all that may be refused
	Security               []map[string][]string
	Parameters             []*huma.Param // beside those of its input
	Sent, Answered         any           // examples; needed where there is JSON

	// Body describes what is sent where that is no JSON; the handler reads it.
	Body *huma.RequestBody

	// Responses are those that are neither the usual one nor an error, by status, and
	// Answer describes the usual one where that is no JSON.
	Responses map[string]*huma.Response
	Answer    func(huma.Registry) *huma.Response
}

// A Guard lets a request in, or returns why not. The context is that of the handler,
// and done is called when the answer has been written.
type Guard func(w http.ResponseWriter, r *http.Request) (ctx context.Context, done func(), err error)

// A Handler adds an operation that a function answers to an API.
type Handler func(*API, huma.Operation)

// A Mounted operation has what answers it, to be added to an API.
type Mounted struct {
	Operation Operation
	Handler   Handler
}

// Handle makes a handler of a function from a request to an answer.
func Handle[I, O any](serve func(context.Context, *I) (*O, error)) Handler {
	return func(a *API, o huma.Operation) {
		huma.Register(a.huma, o, func(ctx context.Context, in *I) (*O, error) {
			out, err := serve(ctx, in)
			if err != nil {
				return nil, a.refusal(ctx, err)
			}
			return out, nil
		})
	}
}

// Stream returns an answer that is written bit by bit.
func Stream(write func(w http.ResponseWriter, r *http.Request)) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		r, w := humago.Unwrap(ctx)
		write(w, r)
	}}
}

// Add adds an operation to the API and its document.
func (a *API) Add(o Operation, handler Handler) {
	responses := o.Responses
	if o.Answer != nil {
		responses = maps.Clone(o.Responses)
		if responses == nil {
			responses = map[string]*huma.Response{}
		}
		responses["200"] = o.Answer(a.huma.OpenAPI().Components.Schemas)
	}
	handler(a, huma.Operation{
		OperationID: o.ID, Method: o.Method, Path: o.Path, Summary: o.Summary, Description: o.Text, Tags: []string{o.Tag},
		DefaultStatus: o.Status, Errors: o.statuses(), Security: o.Security, Parameters: o.Parameters, Responses: responses,
		MaxBodyBytes: -1, BodyReadTimeout: -1, // the route has limits
		Middlewares: huma.Middlewares{a.guarded(o.Guard), a.checkQuery, a.refuseBody},
		Metadata:    map[string]any{limitsKey: o.Limits},
	})
	if o.Body != nil { // huma would read it, had it known before
		a.described(o).RequestBody = o.Body
	}
	a.illustrate(o)
}

// statuses lists those of all that may be refused.
func (o Operation) statuses() (list []int) {
	for _, f := range o.Faults {
		list = append(list, f.Kind.Status())
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// guarded asks the guard before anything of the request is validated.
func (a *API) guarded(guard Guard) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(ctx)
		inner, done, err := guard(w, r)
		if err != nil {
			reply.Error(w, r, a.log, err)
			return
		}
		defer done()
		next(huma.WithContext(ctx, inner))
	}
}

// checkQuery refuses parameters of the operation that are empty, which huma takes
// for absent, or repeated, of which it takes the first. Parameters that the operation
// does not have are huma's to refuse.
func (a *API) checkQuery(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	if wrong := wrongQuery(ctx.Operation().Parameters, r.URL.Query()); len(wrong) > 0 {
		reply.Error(w, r, a.log, fault.Fields(wrong))
		return
	}
	next(ctx)
}

func wrongQuery(parameters []*huma.Param, query url.Values) map[string][]string {
	wrong := map[string][]string{}
	for _, p := range parameters {
		if text := reply.Once(query[p.Name]); p.In == "query" && text != "" {
			wrong[p.Name] = []string{text}
		}
	}
	return wrong
}

// refuseBody answers 422 to a body where none is wanted, as to any field that is
// not known; none, or {}, is what clients send that always send something.
func (a *API) refuseBody(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	if ctx.Operation().RequestBody == nil && r.Method != http.MethodGet {
		text, err := io.ReadAll(io.LimitReader(r.Body, 64))
		if body := strings.TrimSpace(string(text)); err != nil || body != "" && body != "{}" {
			reply.Error(w, r, a.log, fault.Field("body", "is not wanted here"))
			return
		}
	}
	next(ctx)
}
