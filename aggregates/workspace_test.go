package aggregates

import (
	"strings"
	"testing"
	"time"

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

func TestDelete(t *testing.T) {
	deleted := events.WorkspaceDeleted{Name: "Acme", Slug: "acme", PurgeAt: noon.Add(events.RestorableFor)}
	restored := events.WorkspaceRestored{Name: "Acme", Slug: "acme"}
	ownerOnly := ErrRoleRequired.With("required", []events.Role{events.Owner})
	remove := func(by events.ID, name string) func(*Workspace) ([]events.Event, error) {
		return func(w *Workspace) ([]events.Event, error) { return w.Delete(by, name, noon) }
	}
	restore := func(by events.ID, at time.Time) func(*Workspace) ([]events.Event, error) {
		return func(w *Workspace) ([]events.Event, error) { return w.Undelete(by, at) }
	}
	purge := func(at time.Time) func(*Workspace) ([]events.Event, error) {
		return func(w *Workspace) ([]events.Event, error) { return w.Purge(at) }
	}
	gone, last := after(pair, deleted), deleted.PurgeAt.Add(-time.Millisecond)
	purging := after(gone, events.WorkspacePurgeBegan{Slug: "acme"})
	check(t, []spec[Workspace]{
		{name: "an Owner deletes it", given: team, when: remove(ann, "Acme"), then: []events.Event{deleted}},
		{name: "its name has to be given", given: team, when: remove(ann, "acme"), err: fault.Field("name", "must be the workspace's name")},
		{name: "a Maintainer may not", given: team, when: remove(mel, "Acme"), err: ownerOnly},
		{name: "a stranger learns nothing", given: team, when: remove(stranger, "Acme"), err: fault.ErrTenantNotFound},
		{name: "it is deleted once", given: gone, when: remove(ann, "Acme"), err: fault.ErrTenantNotFound},

		{name: "any Owner restores it", given: gone, when: restore(bob, last), then: []events.Event{restored}},
		{name: "a Maintainer does not", given: gone, when: restore(mel, noon), err: ownerOnly},
		{name: "a stranger does not", given: gone, when: restore(stranger, noon), err: fault.ErrTenantNotFound},
		{name: "nobody does when its time is over", given: gone, when: restore(ann, deleted.PurgeAt), err: fault.ErrTenantNotFound},
		{name: "nobody does once the purge began", given: purging, when: restore(ann, noon), err: fault.ErrTenantNotFound},
		{name: "what is not deleted stays", given: pair, when: restore(ann, noon)},
		{name: "it can be deleted again", given: after(gone, restored), when: remove(ann, "Acme"), then: []events.Event{deleted}},

		{
			name: "it is purged when its time is over", given: gone,
			when: purge(deleted.PurgeAt), then: []events.Event{events.WorkspacePurgeBegan{Slug: "acme"}},
		},
		{name: "and once", given: purging, when: purge(deleted.PurgeAt)},
	})
	for name, given := range map[string][]events.Event{"not deleted": team, "restored": after(gone, restored)} {
		_, err := folded[Workspace](given).Purge(deleted.PurgeAt)
		require.ErrorContains(t, err, "not say that it is due", name)
	}
	_, err := folded[Workspace](gone).Purge(last)
	require.ErrorContains(t, err, "not say that it is due")
}

// Nobody acts in a deleted workspace, whatever they ask for. Restored, it is as it was.
func TestNobodyActsInADeletedWorkspace(t *testing.T) {
	invited := events.InvitationSent{Invitation: id(21), Email: "zoe@acme.example", Role: events.Viewer, ExpiresAt: noon.Add(time.Hour)}
	before := after(pair, invited)
	gone := after(before, events.WorkspaceDeleted{Name: "Acme", Slug: "acme", PurgeAt: noon.Add(events.RestorableFor)})
	zoe := Invitee{User: stranger, Name: "Zoe", Emails: []string{"zoe@acme.example"}}
	for name, act := range map[string]func(*Workspace) ([]events.Event, error){
		"rename":  func(w *Workspace) ([]events.Event, error) { return w.Rename(ann, new("New"), nil) },
		"promote": update(ann, mel, events.Owner, nil),
		"leave":   remove(vic, vic),
		"remove":  remove(ann, vic),
		"join":    func(w *Workspace) ([]events.Event, error) { return w.Join(joined(stranger, events.Viewer)) },
		"refresh": func(w *Workspace) ([]events.Event, error) { return w.RefreshMember(vic, "Vic", "vic@new.example") },
		"invite": func(w *Workspace) ([]events.Event, error) {
			return w.Invite(ann, id(31), "cy@acme.example", events.Viewer, events.ID{}, noon)
		},
		"resend": func(w *Workspace) ([]events.Event, error) { return w.Resend(ann, id(21), noon) },
		"revoke": func(w *Workspace) ([]events.Event, error) { return w.Revoke(ann, id(21)) },
		"accept": func(w *Workspace) ([]events.Event, error) { return w.Accept(zoe, id(21), id(121), noon) },
		"reject": func(w *Workspace) ([]events.Event, error) { return w.Reject(zoe, id(21)) },
	} {
		list, err := act(folded[Workspace](before))
		require.NoError(t, err, name)
		require.NotEmpty(t, list, name)
		list, _ = act(folded[Workspace](gone))
		require.Empty(t, list, name)
	}
	require.ErrorIs(t, folded[Workspace](gone).Allow(ann, events.ReadWorkspace), fault.ErrTenantNotFound)
	restored := folded[Workspace](after(gone, events.WorkspaceRestored{Name: "Acme", Slug: "acme"}))
	require.Equal(t, folded[Workspace](before), restored)
}
