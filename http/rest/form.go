package rest

import (
	"github.com/danielgtaylor/huma/v2"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/input"
)

// Texts whose schema is the rule that commands check.
type (
	accountName string
	slug        string
)

// Schema describes the form of a service account's name.
func (accountName) Schema(huma.Registry) *huma.Schema { return formSchema(input.AccountName) }

// Schema describes the form of a slug.
func (slug) Schema(huma.Registry) *huma.Schema { return formSchema(input.Slug) }

func formSchema(f input.Form) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: f.Pattern.String(), PatternDescription: f.Rule}
}

// An assignableRole is the name of a role that can be assigned. It is not case-sensitive, so the
// description's enum is an extension that huma does not validate.
type assignableRole string

// Schema describes the roles.
func (assignableRole) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Extensions: map[string]any{"enum": events.AssignableRoles()}}
}

func (r assignableRole) parse() (events.Role, error) {
	role, ok := events.ParseRole(string(r))
	if !ok || !role.Assignable() {
		return "", aggregates.ErrNotAssignable
	}
	return role, nil
}

// A roleName is the name of any role. It is not case-sensitive, as an assignableRole.
type roleName string

// Schema describes the roles.
func (roleName) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Extensions: map[string]any{"enum": events.Roles()}}
}

func (r roleName) parse() (events.Role, error) {
	role, ok := events.ParseRole(string(r))
	if !ok {
		return "", invalid("role", "must be one of Owner, Maintainer, Viewer, member")
	}
	return role, nil
}

// atLeastOne is embedded in a body that needs at least one field.
type atLeastOne struct{}

// TransformSchema sets minProperties.
func (atLeastOne) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	one := 1
	s.MinProperties = &one
	return s
}

// Paging selects a page of a list.
type Paging struct {
	Limit  int `query:"limit" minimum:"1" maximum:"100" default:"25" doc:"Maximum number of items to return."`
	Offset int `query:"offset" minimum:"0" maximum:"100000" default:"0" doc:"Number of items to skip."`
}

// A List is a page of items. Total counts the items on all pages.
type List[T any] struct {
	Total  int `json:"total"`
	Limit  int `json:"limit"`
	Offset int `json:"offset"`
	Items  []T `json:"items" nullable:"false"`
}

func newList[R, T any](rows []R, total int, p Paging, show func(R) T) List[T] {
	out := List[T]{Total: total, Limit: p.Limit, Offset: p.Offset, Items: make([]T, 0, len(rows))}
	for _, r := range rows {
		out.Items = append(out.Items, show(r))
	}
	return out
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

func invalid(field, text string) error { return fault.Field(field, "%s", text) }

// Idempotency is the header that makes a request safe to retry.
type Idempotency struct {
	Key string `header:"Idempotency-Key" maxLength:"200" doc:"Makes the request safe to retry: it takes effect once per key, for at least 30 days."`
}
