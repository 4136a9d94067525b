package door

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"svc/aggregates"
	"svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/limit"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/http/reply"
	"svc/http/rest/schema"
	"svc/projections/fold"
)

// A Section has the routes of one noun under a tag of the OpenAPI document. If sections share a tag, the
// first one describes it.
type Section struct {
	Tag, About string
	Routes     []Route
}

// A Route is an operation of the API, made by Query or Command.
type Route struct {
	Method, Path string // the path is under /api/v1
	Guard        Guard
	Farm         bool              // whether it belongs to the build farm, which may be off
	Views        []string          // the followed views that it reads; nil if it reads only inline views
	Limits       middleware.Limits // the zero value means the defaults
	OwnSlot      bool              // whether the handler acquires a slot of its own instead of a read slot

	ID, Summary, Text             string
	More                          string         // appended to text, after the guard's description
	Status                        int            // of success; 0 means 200
	Missing                       *fault.Fault   // the error for a malformed id in the path, or one that does not exist
	Refuses                       []*fault.Fault // errors other than the guard's
	RequestExample, AnswerExample any            // examples
	Responses                     map[string]*huma.Response
	Answer                        func(huma.Registry) *huma.Response // describes a response that is not JSON

	Intent  intent // nil if the route only reads
	Handler func(*Door) openapi.Handler
}

// Query returns r with a handler that only reads. It may read repeatedly, see [readReached].
func Query[I, O any](serve func(context.Context, *I) (*O, error), r Route) Route {
	r.Handler = func(d *Door) openapi.Handler {
		return openapi.Handle(func(ctx context.Context, in *I) (*O, error) {
			return readReached(ctx, d, func() (*O, error) { return serve(ctx, in) })
		})
	}
	return r
}

// Daily is the sentence of a route's text about a daily limit of a person.
func Daily(what string) string {
	return "A person can " + what + " a day, unless operators set another limit: 429 `rate_limited` with `Retry-After`."
}

// An intent builds the command of a request that the guard refuses, as far as the body can be decoded.
// The refusal is recorded under the command's event kind.
type intent func(c *Caller, target events.ID, body []byte) commands.Deniable

// Command returns r with a handler that receives a command. newCommand builds it from the input, for the
// guard too, so that a refusal is recorded under the command that would have run. newCommand fails if the
// input is not a valid command.
func Command[I, O any, C commands.Deniable](
	newCommand func(in *I, c *Caller, target events.ID) (C, error), serve func(context.Context, *I, C) (*O, error), r Route,
) Route {
	r.Intent = func(c *Caller, target events.ID, text []byte) commands.Deniable {
		in := new(I)
		if body := reflect.ValueOf(in).Elem().FieldByName("Body"); body.IsValid() {
			_ = json.Unmarshal(text, body.Addr().Interface()) // fields that cannot be decoded stay empty
		}
		cmd, _ := newCommand(in, c, target)
		return cmd
	}
	handler := openapi.Handle(func(ctx context.Context, in *I) (*O, error) {
		c := CallerOf(ctx)
		target, malformed := events.ParseID(c.target)
		cmd, err := newCommand(in, c, target)
		switch {
		case err != nil:
			return nil, err
		case r.Missing != nil && malformed != nil:
			return nil, r.Missing
		}
		return serve(ctx, in, cmd)
	})
	r.Handler = func(*Door) openapi.Handler { return handler }
	return r
}

// AnswerPosition answers a command with nothing but the position.
func AnswerPosition(done commands.Result, err error) (*schema.Position, error) {
	if err != nil {
		return nil, err
	}
	return &schema.Position{Position: done.Position}, nil
}

// Faults returns the errors of a route: those of its guard, those of every request of its kind, and its
// own.
func (r Route) Faults() []*fault.Fault {
	list := []*fault.Fault{
		fault.ErrUnauthenticated, aggregates.ErrTokenInvalid, fault.ErrTenantNotFound, fault.ErrValidation,
		limit.ErrLimited, fault.ErrInternal, fault.ErrUnavailable, fault.ErrBusy, ErrRightsChanged,
	}
	if r.Guard.Scope == "" {
		list = append(list, errPrincipalRefused)
	} else {
		list = append(list, aggregates.ErrScopeMissing(r.Guard.Scope))
	}
	if r.Guard.Right != 0 {
		list = append(list, aggregates.RoleRequired(r.Guard.Right))
	}
	if r.Method == http.MethodGet {
		list = append(list, fold.ErrNotCaughtUp)
	} else {
		list = append(list, reply.TooLarge(r.Limits.OrDefault().Body), openapi.ErrUnsupportedMedia)
	}
	if r.Intent != nil {
		list = append(list, fault.ErrCrossOrigin, commands.ErrOutcomeUnknown)
	}
	if r.Missing != nil {
		list = append(list, r.Missing)
	}
	if r.Farm {
		list = append(list, farm.ErrFarmOff)
	}
	return append(list, r.Refuses...)
}

// parameters describes the headers that the guard reads.
func (r Route) parameters() []*huma.Param {
	list := []*huma.Param{{
		Name: "X-Svc-Tenant", In: "header", Example: "acme",
		Description: "The workspace, by id or slug. People default to the session's active workspace. " +
			"A token has access to its own workspace only; any other one is not found.",
		Schema: &huma.Schema{Type: huma.TypeString},
	}}
	if r.Method == http.MethodGet {
		list = append(list, &huma.Param{
			Name: "X-Svc-Min-Position", In: "header", Example: 4182,
			Description: "The `X-Svc-Position` of an earlier response. The request waits up to five seconds until its data includes that position.",
			Schema:      &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: new(float64)},
		})
	}
	return list
}

func (r Route) security() []map[string][]string {
	if r.Guard.Scope == "" {
		return []map[string][]string{{"session": {}}}
	}
	return []map[string][]string{{"serviceToken": {}}, {"session": {}}}
}

// Prefix begins the paths of all routes.
const Prefix = "/api/v1"
