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

// sections returns the whole API in the order of the OpenAPI document. The routes of a noun are in the
// noun's file, each with its guard, description and examples.
func (s *Server) sections() []section {
	return []section{
		s.runRoutes(), s.runEventRoutes(), s.repoRoutes(), s.backlogRoutes(), s.inboxRoutes(), s.insightRoutes(), s.dashboardRoutes(),
		s.streamRoutes(),
		s.workspaceRoutes(), s.memberRoutes(), s.invitationRoutes(), s.serviceAccountRoutes(), s.searchRoutes(),
		s.jobRoutes(), s.farmRoutes(), s.jobLogRoutes(), s.enrollmentRoutes(), s.runnerRoutes(), s.artifactRoutes(), s.farmSecretRoutes(),
		s.auditRoutes(), s.exportRoutes(), s.historyRoutes(), s.activityRoutes(), s.proofRoutes(),
	}
}

// A section has the routes of one noun under a tag of the OpenAPI document. If sections share a tag, the
// first one describes it.
type section struct {
	tag, about string
	routes     []route
}

// A route is an operation of the API, made by query or command.
type route struct {
	method, path string // the path is under /api/v1
	guard        guard
	farm         bool              // whether it belongs to the build farm, which may be off
	views        []string          // the followed views that it reads; nil if it reads only inline views
	limits       middleware.Limits // the zero value means the defaults
	ownSlot      bool              // whether the handler acquires a slot of its own instead of a read slot

	id, summary, text             string
	more                          string         // appended to text, after the guard's description
	status                        int            // of success; 0 means 200
	missing                       *fault.Fault   // the error for a malformed id in the path, or one that does not exist
	refuses                       []*fault.Fault // errors other than the guard's
	requestExample, answerExample any            // examples
	responses                     map[string]*huma.Response
	answer                        func(huma.Registry) *huma.Response // describes a response that is not JSON

	intent  intent // nil if the route only reads
	handler func(*Server) openapi.Handler
}

// query returns r with a handler that only reads. It may read repeatedly, see [readReached].
func query[I, O any](serve func(context.Context, *I) (*O, error), r route) route {
	r.handler = func(s *Server) openapi.Handler {
		return openapi.Handle(func(ctx context.Context, in *I) (*O, error) {
			return readReached(ctx, s, func() (*O, error) { return serve(ctx, in) })
		})
	}
	return r
}

// daily is the sentence of a route's text about a daily limit of a person.
func daily(what string) string {
	return "A person can " + what + " a day, unless operators set another limit: 429 `rate_limited` with `Retry-After`."
}

// An intent builds the command of a request that the guard refuses, as far as the body can be decoded.
// The refusal is recorded under the command's event kind.
type intent func(c *caller, target events.ID, body []byte) commands.Deniable

// command returns r with a handler that receives a command. newCommand builds it from the input, for the
// guard too, so that a refusal is recorded under the command that would have run. newCommand fails if the
// input is not a valid command.
func command[I, O any, C commands.Deniable](
	newCommand func(in *I, c *caller, target events.ID) (C, error), serve func(context.Context, *I, C) (*O, error), r route,
) route {
	r.intent = func(c *caller, target events.ID, text []byte) commands.Deniable {
		in := new(I)
		if body := reflect.ValueOf(in).Elem().FieldByName("Body"); body.IsValid() {
			_ = json.Unmarshal(text, body.Addr().Interface()) // fields that cannot be decoded stay empty
		}
		cmd, _ := newCommand(in, c, target)
		return cmd
	}
	handler := openapi.Handle(func(ctx context.Context, in *I) (*O, error) {
		c := callerOf(ctx)
		target, malformed := events.ParseID(c.target)
		cmd, err := newCommand(in, c, target)
		switch {
		case err != nil:
			return nil, err
		case r.missing != nil && malformed != nil:
			return nil, r.missing
		}
		return serve(ctx, in, cmd)
	})
	r.handler = func(*Server) openapi.Handler { return handler }
	return r
}

// Idempotency is the header that makes a request safe to retry.
type Idempotency struct {
	Key string `header:"Idempotency-Key" maxLength:"200" doc:"Makes the request safe to retry: it takes effect once per key, for at least 30 days."`
}

// A Position is the sequence number that the workspace's log reached by a command.
type Position struct {
	Position int64 `header:"X-Svc-Position" doc:"The sequence number that the workspace's log reached by this request."`
}

// positionAnswer answers a command with nothing but the position.
func positionAnswer(done commands.Result, err error) (*Position, error) {
	if err != nil {
		return nil, err
	}
	return &Position{done.Position}, nil
}

// mount adds every route to the API.
func (s *Server) mount(api *openapi.API) {
	for _, section := range s.sections() {
		for _, r := range section.routes {
			api.Add(s.operation(section.tag, r), r.handler(s))
		}
	}
	for _, m := range s.Machines {
		api.Add(m.Operation, m.Handler)
	}
}

func (s *Server) operation(tag string, r route) openapi.Operation {
	o := openapi.Operation{
		Method: r.method, Path: prefix + r.path, Limits: r.limits, Guard: s.guardRoute(r),
		ID: r.id, Tag: tag, Summary: r.summary, Description: r.text + "\n\nFor: " + r.guard.String() + ".", Status: r.status,
		Faults: r.faults(), Security: r.security(), Parameters: r.parameters(),
		RequestExample: r.requestExample, AnswerExample: r.answerExample, Responses: r.responses, Answer: r.answer,
	}
	if r.more != "" {
		o.Description += "\n\n" + r.more
	}
	return o
}

// faults returns the errors of a route: those of its guard, those of every request of its kind, and its
// own.
func (r route) faults() []*fault.Fault {
	list := []*fault.Fault{
		fault.ErrUnauthenticated, aggregates.ErrTokenInvalid, fault.ErrTenantNotFound, fault.ErrValidation,
		limit.ErrLimited, fault.ErrInternal, fault.ErrUnavailable, fault.ErrBusy, errRightsChanged,
	}
	if r.guard.scope == "" {
		list = append(list, errPrincipalRefused)
	} else {
		list = append(list, aggregates.ErrScopeMissing(r.guard.scope))
	}
	if r.guard.right != 0 {
		list = append(list, aggregates.RoleRequired(r.guard.right))
	}
	if r.method == http.MethodGet {
		list = append(list, fold.ErrNotCaughtUp)
	} else {
		list = append(list, reply.TooLarge(r.limits.OrDefault().Body), openapi.ErrUnsupportedMedia)
	}
	if r.intent != nil {
		list = append(list, fault.ErrCrossOrigin, commands.ErrOutcomeUnknown)
	}
	if r.missing != nil {
		list = append(list, r.missing)
	}
	if r.farm {
		list = append(list, aggregates.ErrFarmOff)
	}
	return append(list, r.refuses...)
}

// parameters describes the headers that the guard reads.
func (r route) parameters() []*huma.Param {
	list := []*huma.Param{{
		Name: "X-Svc-Tenant", In: "header", Example: "acme",
		Description: "The workspace, by id or slug. People default to the session's active workspace. " +
			"A token has access to its own workspace only; any other one is not found.",
		Schema: &huma.Schema{Type: huma.TypeString},
	}}
	if r.method == http.MethodGet {
		list = append(list, &huma.Param{
			Name: "X-Svc-Min-Position", In: "header", Example: 4182,
			Description: "The `X-Svc-Position` of an earlier response. The request waits up to five seconds until its data includes that position.",
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
