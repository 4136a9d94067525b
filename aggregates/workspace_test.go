package aggregates

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/fault"
)

func TestCreateWorkspace(t *testing.T) {
	owner := events.MemberJoined{Member: id(101), User: id(1), Email: "ann@acme.example", Role: events.Owner}
	create := func(name, slug string) func(*Workspace) ([]events.Event, error) {
		return func(w *Workspace) ([]events.Event, error) {
			return w.Create(name, slug, events.MemberJoined{Member: id(101), User: id(1), Email: "ann@acme.example", Role: events.Viewer})
		}
	}
	check(t, []spec[Workspace]{
		{
			name: "whoever makes it owns it",
			when: create("Acme", "acme"),
			then: []events.Event{events.WorkspaceCreated{Name: "Acme", Slug: "acme"}, owner},
		},
		{
			name:  "to create it again changes nothing",
			given: []events.Event{events.WorkspaceCreated{Name: "Acme", Slug: "acme"}, owner},
			when:  create("Other", "other"),
		},
		{
			name: "it needs a name",
			when: create("", "acme"),
			err:  fault.Field("name", "must have 1 to 100 characters"),
		},
		{
			name: "it needs a slug",
			when: create("Acme", ""),
			err:  errSlug,
		},
	})
}

var errSlug = fault.Field("slug",
	"must have 3 to 40 lower-case letters, digits and hyphens, start with a letter, not end with a hyphen, and not look like an id")

func TestNamesOfWorkspaces(t *testing.T) {
	for name, ok := range map[string]bool{
		"A":                      true,
		strings.Repeat("ü", 100): true, // characters, not bytes
		strings.Repeat("ü", 101): false,
		"":                       false,
		" \t":                    false,
		"A\nB":                   false,
		"A\u202eB":               false, // reverses the text after it
	} {
		_, err := new(Workspace).Create(name, "acme", events.MemberJoined{})
		require.Equal(t, ok, err == nil, "%q: %v", name, err)
	}
}

func TestSlugs(t *testing.T) {
	for slug, ok := range map[string]bool{
		"abc":                   true,
		"a-1":                   true,
		"a--b":                  true,
		strings.Repeat("a", 40): true,

		"ab":                    false,
		strings.Repeat("a", 41): false,
		"1ab":                   false,
		"-ab":                   false,
		"ab-":                   false,
		"Abc":                   false,
		"a_b":                   false,
		"a.b":                   false,
		"äbc":                   false,
		"abc\n":                 false,
		// Requests that name a workspace would take it for an id.
		"a19aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9": false,
	} {
		_, err := new(Workspace).Create("Acme", slug, events.MemberJoined{})
		require.Equal(t, ok, err == nil, "%q: %v", slug, err)
	}
}

func TestRename(t *testing.T) {
	rename := func(by events.ID, name, slug *string) func(*Workspace) ([]events.Event, error) {
		return func(w *Workspace) ([]events.Event, error) { return w.Rename(by, name, slug) }
	}
	labs, labsSlug, acme, bad := "Acme Labs", "acme-labs", "acme", "A!"
	ownerOnly := ErrRoleRequired.With("required", []events.Role{events.Owner})
	check(t, []spec[Workspace]{
		{
			name:  "an Owner gives it another name",
			given: team,
			when:  rename(ann, &labs, nil),
			then:  []events.Event{events.WorkspaceRenamed{FromName: "Acme", FromSlug: "acme", Name: labs, Slug: "acme"}},
		},
		{
			name:  "an Owner gives it another name and slug",
			given: team,
			when:  rename(ann, &labs, &labsSlug),
			then:  []events.Event{events.WorkspaceRenamed{FromName: "Acme", FromSlug: "acme", Name: labs, Slug: labsSlug}},
		},
		{name: "the same again changes nothing", given: team, when: rename(ann, nil, &acme)},
		{name: "nothing changes nothing", given: team, when: rename(ann, nil, nil)},
		{
			name:  "its spaces are folded",
			given: team,
			when:  rename(ann, new("  Acme\u00a0 Labs "), nil),
			then:  []events.Event{events.WorkspaceRenamed{FromName: "Acme", FromSlug: "acme", Name: labs, Slug: "acme"}},
		},
		{
			name:  "a name of earlier rules may stay",
			given: after(team, events.WorkspaceRenamed{FromName: "Acme", FromSlug: "acme", Name: "A\u200bcme", Slug: "acme"}),
			when:  rename(ann, nil, &labsSlug),
			then:  []events.Event{events.WorkspaceRenamed{FromName: "A\u200bcme", FromSlug: "acme", Name: "A\u200bcme", Slug: labsSlug}},
		},
		{name: "a slug must be one", given: team, when: rename(ann, nil, &bad), err: errSlug},
		{name: "a Maintainer may not", given: team, when: rename(mel, &labs, nil), err: ownerOnly},
		{name: "a Viewer may not", given: team, when: rename(vic, &labs, nil), err: ownerOnly},
		{name: "a stranger learns nothing", given: team, when: rename(stranger, &labs, nil), err: fault.ErrTenantNotFound},
		{
			name:  "what it was called is the last name",
			given: after(team, events.WorkspaceRenamed{FromName: "Acme", FromSlug: "acme", Name: labs, Slug: labsSlug}),
			when:  rename(ann, nil, &acme),
			then:  []events.Event{events.WorkspaceRenamed{FromName: labs, FromSlug: labsSlug, Name: labs, Slug: "acme"}},
		},
	})
}
