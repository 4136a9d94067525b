package rest

import (
	"time"

	"github.com/danielgtaylor/huma/v2"

	"svc/events"
	"svc/fault"
	"svc/input"
)

// A timestamp is written in UTC with exactly three digits of a second: clients
// are known to misread other precisions.
type timestamp string

func at(t time.Time) timestamp { return timestamp(t.UTC().Format("2006-01-02T15:04:05.000Z")) }

// Schema describes the form in the OpenAPI document.
func (timestamp) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Examples: []any{"2026-11-20T23:56:25.123Z"}}
}

func optional(t *time.Time) *timestamp {
	if t == nil {
		return nil
	}
	text := at(*t)
	return &text
}

// Texts that are described by the rule that commands hold them against.
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

// A givenRole names a role that can be given, in any case. The list that the
// description has is how to write it; nothing is held against that.
type givenRole string

// Schema describes the roles.
func (givenRole) Schema(huma.Registry) *huma.Schema {
	roles := []events.Role{events.Owner, events.Maintainer, events.Viewer}
	return &huma.Schema{Type: huma.TypeString, Extensions: map[string]any{"enum": roles}}
}

func (r givenRole) parse() (events.Role, error) {
	role, ok := events.ParseRole(string(r))
	if !ok || role == events.Legacy {
		return "", invalid("role", "must be one of Owner, Maintainer, Viewer")
	}
	return role, nil
}

// atLeastOne is embedded in a body that has to have one of its fields.
type atLeastOne struct{}

// TransformSchema describes that.
func (atLeastOne) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	one := 1
	s.MinProperties = &one
	return s
}

// Paging is how a list is asked for a page.
type Paging struct {
	Limit  int `query:"limit" minimum:"1" maximum:"100" default:"25" doc:"How many items the page has at most."`
	Offset int `query:"offset" minimum:"0" maximum:"100000" default:"0" doc:"How many items come before the page."`
}

// A List is a page of items, and how many there are on all pages.
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

// A Position tells how far a command took the workspace's log.
type Position struct {
	Position int64 `header:"X-Svc-Position" doc:"The number that the workspace's log reached by this."`
}

func invalid(field, text string) error { return fault.Field(field, "%s", text) }

// Once makes a request that creates something happen once.
type Once struct {
	Key string `header:"Idempotency-Key" maxLength:"200" doc:"Makes the request happen once however often it is sent, for 30 days at least."`
}
