package rest

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"svc/aggregates"
	"svc/commands"
	"svc/fault"
	"svc/http/limit"
	"svc/http/reply"
	"svc/projections/fold"
)

// faults lists everything that a route may refuse: what its guard asks, what
// may happen to any request of its kind, and what is its own.
func (r route) faults() []*fault.Fault {
	list := []*fault.Fault{
		fault.ErrUnauthenticated, errTokenInvalid, fault.ErrTenantNotFound, fault.ErrValidation,
		limit.ErrLimited, fault.ErrInternal, fault.ErrUnavailable, fault.ErrBusy,
	}
	if r.guard.scope == "" {
		list = append(list, errPrincipalRefused)
	} else {
		list = append(list, errScopeMissing(r.guard.scope))
	}
	if r.guard.roles != nil {
		list = append(list, aggregates.ErrRoleRequired.With("required", r.guard.roles))
	}
	if r.method == http.MethodGet {
		list = append(list, fold.ErrNotCaughtUp)
		if r.intent != nil {
			list = append(list, errCrossOrigin)
		}
	} else {
		list = append(list, errCrossOrigin, reply.ErrTooLarge, errUnsupportedMedia, commands.ErrOutcomeUnknown)
	}
	return append(list, descriptions[r.id].refuses...)
}

// statuses lists those of all that a route may refuse.
func (r route) statuses() (list []int) {
	for _, f := range r.faults() {
		list = append(list, f.Kind.Status())
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// illustrate adds to every operation an example of what is sent and answered,
// and each refusal that there is.
func illustrate(o *huma.OpenAPI, routes []route) {
	told := examples()
	for _, r := range routes {
		op := operationOf(o, r)
		for _, p := range op.Parameters {
			if p.In == "path" {
				p.Example = exampleID
			}
		}
		if op.RequestBody != nil {
			example(op.RequestBody.Content, told[r.id].sent)
		}
		for status, response := range op.Responses {
			if status[0] == '2' {
				example(response.Content, told[r.id].answered)
			}
			illustrateHeaders(status, response)
		}
		for _, f := range r.faults() {
			for _, media := range op.Responses[strconv.Itoa(f.Kind.Status())].Content {
				if media.Examples == nil {
					media.Examples = map[string]*huma.Example{}
				}
				media.Examples[f.Code] = &huma.Example{Summary: f.Message, Value: reply.BodyOf(f)}
			}
		}
	}
}

func operationOf(o *huma.OpenAPI, r route) *huma.Operation {
	item := o.Paths[prefix+r.path]
	return map[string]*huma.Operation{
		http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
	}[r.method]
}

// illustrateHeaders describes the headers that answers have whatever the route.
func illustrateHeaders(status string, response *huma.Response) {
	if response.Headers == nil {
		response.Headers = map[string]*huma.Param{}
	}
	add := func(name, text string, example any, kind string) {
		response.Headers[name] = &huma.Header{Description: text, Schema: &huma.Schema{Type: kind, Examples: []any{example}}}
	}
	add("X-Request-Id", "Names the request in the service's log: the one that was sent, or a new one.", exampleID, huma.TypeString)
	if status != "401" {
		add("RateLimit-Limit", "How many requests the caller may make at once.", 600, huma.TypeInteger)
		add("RateLimit-Remaining", "How many of them are left.", 599, huma.TypeInteger)
		add("RateLimit-Reset", "Seconds until all of them are back.", 1, huma.TypeInteger)
	}
	switch status {
	case "401":
		add("WWW-Authenticate", "How to say who asks.", "Bearer", huma.TypeString)
	case "429", "503":
		add("Retry-After", "Seconds to wait.", 1, huma.TypeInteger)
	}
}

// example shows what is sent or answered as JSON.
func example(content map[string]*huma.MediaType, value any) {
	if media := content["application/json"]; media != nil {
		if value == nil {
			panic("an operation has no example")
		}
		media.Example = value
	}
}
