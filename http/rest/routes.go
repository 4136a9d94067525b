package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/limit"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/http/reply"
	"svc/projections/fold"
)

// sections is the whole API, in the order of its document. The routes of a noun are in
// the noun's file, each with its guard, its description and its examples.
func (s *Server) sections() []section {
	return []section{
		s.runRoutes(), s.runEventRoutes(), s.repoRoutes(), s.backlogRoutes(), s.inboxRoutes(), s.insightRoutes(), s.dashboardRoutes(), s.streamRoutes(),
		s.workspaceRoutes(), s.memberRoutes(), s.invitationRoutes(), s.serviceAccountRoutes(), s.searchRoutes(),
		s.jobRoutes(), s.farmRoutes(), s.jobLogRoutes(), s.enrollmentRoutes(), s.runnerRoutes(), s.artifactRoutes(), s.farmSecretRoutes(),
		s.auditRoutes(), s.exportRoutes(), s.historyRoutes(), s.activityRoutes(), s.proofRoutes(),
	}
}

// A section is a tag of the document with the routes of one noun. Sections may share a
// tag, which the first of them describes.
type section struct {
	tag, about string
	routes     []route
}

// A route is a row of the API. Made by query or by command.
type route struct {
	method, path string // the path is under /api/v1
	guard        guard
	farm         bool              // it is one of the build farm, which may be off
	views        []string          // followed views that are read; nil if only inline ones are
	limits       middleware.Limits // where they are not the usual ones
	ownSlot      bool              // its handler takes a slot of another bound than that of reads

	id, summary, text string
	more              string         // follows what text says of the guard
	status            int            // of success; 200 if 0
	missing           *fault.Fault   // answers an id in the path that is none, and what is not there
	refuses           []*fault.Fault // beyond what its guard does
	sent, answered    any            // examples
	responses         map[string]*huma.Response
	answer            func(huma.Registry) *huma.Response // of what is no JSON

	intent  intent // nil if it only reads
	handler openapi.Handler
}

// query makes a route of a handler that only reads.
func query[I, O any](serve func(context.Context, *I) (*O, error), r route) route {
	r.handler = openapi.Handle(serve)
	return r
}

// An intent makes the command of a request that the guard refuses, as far as it can
// be made out: only the command knows what its refusal is recorded under.
type intent func(c *caller, target events.ID, body []byte) commands.Deniable

// command makes a route of a handler that is given a command. What makes the command of
// the input makes it for the guard too, if that refuses: so what is recorded is what
// would have been done. Its error is that of an input that no command comes of.
func command[I, O any, C commands.Deniable](
	form func(in *I, c *caller, target events.ID) (C, error), serve func(context.Context, *I, C) (*O, error), r route,
) route {
	r.intent = func(c *caller, target events.ID, text []byte) commands.Deniable {
		in := new(I)
		if body := reflect.ValueOf(in).Elem().FieldByName("Body"); body.IsValid() {
			_ = json.Unmarshal(text, body.Addr().Interface()) // what cannot be read says nothing
		}
		denied, _ := form(in, c, target)
		return denied
	}
	r.handler = openapi.Handle(func(ctx context.Context, in *I) (*O, error) {
		c := callerOf(ctx)
		target, malformed := events.ParseID(c.target)
		asked, err := form(in, c, target)
		switch {
		case err != nil:
			return nil, err
		case r.missing != nil && malformed != nil:
			return nil, r.missing
		}
		return serve(ctx, in, asked)
	})
	return r
}

// mount adds every route to the API.
func (s *Server) mount(api *openapi.API) {
	for _, section := range s.sections() {
		for _, r := range section.routes {
			api.Add(s.operation(section.tag, r), r.handler)
		}
	}
	for _, m := range s.machines {
		api.Add(m.Operation, m.Handler)
	}
}

func (s *Server) operation(tag string, r route) openapi.Operation {
	o := openapi.Operation{
		Method: r.method, Path: prefix + r.path, Limits: r.limits, Guard: s.admit(r),
		ID: r.id, Tag: tag, Summary: r.summary, Description: r.text + "\n\nFor: " + r.guard.String() + ".", Status: r.status,
		Faults: r.faults(), Security: r.security(), Parameters: r.parameters(),
		RequestExample: r.sent, AnswerExample: r.answered, Responses: r.responses, Answer: r.answer,
	}
	if r.more != "" {
		o.Description += "\n\n" + r.more
	}
	return o
}

// faults lists everything that a route may refuse: what its guard asks, what
// may happen to any request of its kind, and what is its own.
func (r route) faults() []*fault.Fault {
	list := []*fault.Fault{
		fault.ErrUnauthenticated, aggregates.ErrTokenInvalid, fault.ErrTenantNotFound, fault.ErrValidation,
		limit.ErrLimited, fault.ErrInternal, fault.ErrUnavailable, fault.ErrBusy,
	}
	if r.guard.scope == "" {
		list = append(list, errPrincipalRefused)
	} else {
		list = append(list, aggregates.ErrScopeMissing(r.guard.scope))
	}
	if r.guard.right != 0 {
		list = append(list, aggregates.ErrRoleRequired.With("required", r.guard.right.Roles()))
	}
	if r.method == http.MethodGet {
		list = append(list, fold.ErrNotCaughtUp)
		if r.intent != nil {
			list = append(list, errCrossOrigin)
		}
	} else {
		tooLarge := reply.TooLarge(r.limits.OrDefault().Body)
		list = append(list, errCrossOrigin, tooLarge, openapi.ErrUnsupportedMedia, commands.ErrOutcomeUnknown)
	}
	if r.missing != nil {
		list = append(list, r.missing)
	}
	if r.farm {
		list = append(list, errFarmOff)
	}
	return append(list, r.refuses...)
}

// parameters describes what the guard reads of every request.
func (r route) parameters() []*huma.Param {
	list := []*huma.Param{{
		Name: "X-Svc-Tenant", In: "header", Example: "acme",
		Description: "The workspace, by id or slug. For a person: by default the session's active one. " +
			"A token has only its own, and naming another is answered like naming none.",
		Schema: &huma.Schema{Type: huma.TypeString},
	}}
	if r.method == http.MethodGet {
		list = append(list, &huma.Param{
			Name: "X-Svc-Min-Position", In: "header", Example: 4182,
			Description: "The `X-Svc-Position` of an earlier answer: this one waits, five seconds at most, until it shows what that did.",
			Schema:      &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: new(float64)},
		})
	}
	return list
}

func (r route) security() []map[string][]string {
	if r.guard.scope == "" {
		return []map[string][]string{{"session": {}}}
	}
	return []map[string][]string{{"serviceToken": {}}, {"session": {}}}
}
