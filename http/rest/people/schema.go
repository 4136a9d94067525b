package people

import (
	"github.com/danielgtaylor/huma/v2"

	"svc/aggregates"
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
		return "", fault.Field("role", "must be one of Owner, Maintainer, Viewer, member")
	}
	return role, nil
}
