package openapi

import (
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"svc/fault"
	"svc/http/middleware"
	"svc/http/reply"
)

// An Operation is a method and path of the API, with its limits, its guard and its documentation.
type Operation struct {
	Method, Path string // the path has parameters in braces, as in /runs/{id}
	Limits       middleware.Limits
	Guard        Guard

	ID, Tag, Summary, Description string
	Status                        int            // on success; 200 if 0
	Faults                        []*fault.Fault // all faults that it may return
	Security                      []map[string][]string
	Parameters                    []*huma.Param // in addition to those of the input type
	RequestExample, AnswerExample any           // examples of request and answer; required for JSON

	// Body describes a request body that is not JSON. The handler reads it.
	Body *huma.RequestBody

	// Responses are answers other than the usual one and errors, by status. Answer describes the
	// usual one if its type does not.
	Responses map[string]*huma.Response
	Answer    func(huma.Registry) *huma.Response
}

// A Guard admits a request or returns an error. The handler runs with the returned context, and
// done is called after the answer is written.
type Guard func(w http.ResponseWriter, r *http.Request) (ctx context.Context, done func(), err error)

// A Handler adds an operation with its implementation to an API.
type Handler func(*API, huma.Operation)

// A Mounted is an operation with its handler, to be added to an API.
type Mounted struct {
	Operation Operation
	Handler   Handler
}

// Handle returns a handler that decodes I, calls serve and encodes O.
func Handle[I, O any](serve func(context.Context, *I) (*O, error)) Handler {
	return func(a *API, o huma.Operation) {
		huma.Register(a.huma, o, func(ctx context.Context, in *I) (*O, error) {
			out, err := serve(ctx, in)
			if err != nil {
				return nil, a.errorAnswer(ctx, err)
			}
			return out, nil
		})
	}
}

// Stream returns an answer that write writes itself.
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
	checks := huma.Middlewares{a.guarded(o.Guard), a.checkQuery}
	if o.Method != http.MethodGet {
		checks = append(checks, a.refuseBody)
	}
	handler(a, huma.Operation{
		OperationID: o.ID, Method: o.Method, Path: o.Path, Summary: o.Summary, Description: o.Description, Tags: []string{o.Tag},
		DefaultStatus: o.Status, Errors: o.statuses(), Security: o.Security, Parameters: o.Parameters, Responses: responses,
		MaxBodyBytes: -1, BodyReadTimeout: -1, // the route limits them
		Middlewares: checks,
		Metadata:    map[string]any{limitsKey: o.Limits},
	})
	if o.Body != nil { // set afterwards, or huma would read the body
		a.documented(o).RequestBody = o.Body
	}
	a.addExamples(o)
}

// statuses returns the distinct statuses of the faults.
func (o Operation) statuses() (list []int) {
	for _, f := range o.Faults {
		list = append(list, f.Kind.Status())
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// guarded calls the guard before the request is validated.
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

// checkQuery refuses query parameters that are empty, which huma takes for absent, or repeated, of
// which huma takes the first. Unknown parameters are refused by huma.
func (a *API) checkQuery(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	query, wrong := r.URL.Query(), map[string][]string{}
	for _, p := range ctx.Operation().Parameters {
		if text := reply.SingleValueProblem(query[p.Name]); p.In == "query" && text != "" {
			wrong[p.Name] = []string{text}
		}
	}
	if len(wrong) > 0 {
		reply.Error(w, r, a.log, fault.Fields(wrong))
		return
	}
	next(ctx)
}

// refuseBody refuses a body for operations without one. An empty body and {} are accepted, since
// some clients always send a body.
func (a *API) refuseBody(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	if ctx.Operation().RequestBody == nil {
		text, err := io.ReadAll(io.LimitReader(r.Body, 64))
		if body := strings.TrimSpace(string(text)); err != nil || body != "" && body != "{}" {
			reply.Error(w, r, a.log, fault.Field("body", "is not wanted here"))
			return
		}
	}
	next(ctx)
}
