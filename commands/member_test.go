package commands_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
)

func TestAddMember(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	bob := newPerson("bob")
	add := func(p person, workspace events.ID) (commands.Result, error) {
		return m.AddMember(t.Context(),
			commands.AddMember{Meta: systems(workspace), Member: p.member, User: p.user, Email: p.email, Name: "Bob", Role: events.Viewer})
	}
	before := m.head(t, m.id)
	done, err := add(bob, m.id)
	require.NoError(t, err)
	require.Equal(t, commands.Result{Position: before + 1}, done)
	m.requireAdded(t, m.id, before,
		events.MemberJoined{Member: bob.member, User: bob.user, Email: bob.email, Name: "Bob", Role: events.Viewer})

	_, err = add(person{bob.user, newID(), "another@acme.example"}, m.id)
	require.ErrorIs(t, err, aggregates.ErrAlreadyMember)
	nowhere := newID()
	_, err = add(bob, nowhere)
	require.ErrorIs(t, err, fault.ErrTenantNotFound)
	require.Zero(t, m.head(t, nowhere))
}

// The aggregate decides who may give which role to whom, and has its own tests. A row for
// each outcome shows that it reaches the log and the caller.
func TestUpdateMember(t *testing.T) {
	t.Parallel()
	sys := newSystem(t)
	changed := func(p person, from, to events.Role) events.Event {
		return events.MemberRoleChanged{Member: p.member, User: p.user, Email: p.email, From: from, To: to}
	}
	ticked := func(p person, from, to bool) events.Event {
		return events.MemberApproveLoopsSet{Member: p.member, User: p.user, Email: p.email, From: from, To: to}
	}
	type asked struct {
		by, whom person
		role     *events.Role
		tick     *bool
	}
	for name, test := range map[string]func(m *team) (asked, []events.Event, error){
		"an Owner makes an Owner": func(m *team) (asked, []events.Event, error) {
			return asked{by: m.owner, whom: m.viewer, role: ptr(events.Owner)}, []events.Event{changed(m.viewer, events.Viewer, events.Owner)}, nil
		},
		"a Maintainer makes a Maintainer": func(m *team) (asked, []events.Event, error) {
			return asked{by: m.maintainer, whom: m.old, role: ptr(events.Maintainer)},
				[]events.Event{changed(m.old, events.Legacy, events.Maintainer)}, nil
		},
		"both at once": func(m *team) (asked, []events.Event, error) {
			return asked{by: m.owner, whom: m.maintainer, role: ptr(events.Viewer), tick: ptr(true)},
				[]events.Event{changed(m.maintainer, events.Maintainer, events.Viewer), ticked(m.maintainer, false, true)}, nil
		},
		"a tick that only makes the default explicit": func(m *team) (asked, []events.Event, error) {
			return asked{by: m.maintainer, whom: m.viewer, tick: ptr(false)}, []events.Event{ticked(m.viewer, false, false)}, nil
		},
		"the role that they have": func(m *team) (asked, []events.Event, error) {
			return asked{by: m.owner, whom: m.viewer, role: ptr(events.Viewer)}, nil, nil
		},
		"nothing at all": func(m *team) (asked, []events.Event, error) { return asked{by: m.owner, whom: m.viewer}, nil, nil },
		"a Maintainer makes an Owner": func(m *team) (asked, []events.Event, error) {
			return asked{by: m.maintainer, whom: m.viewer, role: ptr(events.Owner)}, nil, aggregates.ErrOwnerRequired
		},
		"a Maintainer touches an Owner": func(m *team) (asked, []events.Event, error) {
			return asked{by: m.maintainer, whom: m.owner, tick: ptr(false)}, nil, aggregates.ErrMemberForbidden
		},
		"the last Owner steps down": func(m *team) (asked, []events.Event, error) {
			return asked{by: m.owner, whom: m.owner, role: ptr(events.Viewer)}, nil, aggregates.ErrLastOwner
		},
		"a Viewer asks": func(m *team) (asked, []events.Event, error) {
			return asked{by: m.viewer, whom: m.viewer, role: ptr(events.Owner)}, nil, aggregates.ErrRoleRequired
		},
		"the legacy role asks": func(m *team) (asked, []events.Event, error) {
			return asked{by: m.old, whom: m.viewer, tick: ptr(true)}, nil, aggregates.ErrRoleRequired
		},
		"a stranger asks": func(m *team) (asked, []events.Event, error) {
			return asked{by: m.nobody, whom: m.viewer, tick: ptr(true)}, nil, fault.ErrTenantNotFound
		},
		"of nobody": func(m *team) (asked, []events.Event, error) {
			return asked{by: m.owner, whom: m.nobody, tick: ptr(true)}, nil, aggregates.ErrNoMember
		},
		"the role that can no longer be given": func(m *team) (asked, []events.Event, error) {
			return asked{by: m.owner, whom: m.viewer, role: ptr(events.Legacy)}, nil, fault.ErrValidation
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := sys.team(t)
			ask, want, refusal := test(m)
			before := m.head(t, m.id)
			done, err := m.UpdateMember(t.Context(),
				commands.UpdateMember{Meta: ask.by.in(m.id), Member: ask.whom.member, Role: ask.role, ApproveLoops: ask.tick})
			require.ErrorIs(t, err, refusal)
			m.requireAdded(t, m.id, before, want...)
			if err == nil {
				require.Equal(t, before+int64(len(want)), done.Position)
			}
		})
	}
}

// The member's current name is in later events, as far as these have it.
func TestRefreshMember(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	before := m.head(t, m.id)
	refresh := func(p person) error {
		_, err := m.RefreshMember(t.Context(), commands.RefreshMember{Meta: p.in(m.id), Name: "Vera Moll", Email: "vera@new.example"})
		return err
	}
	require.NoError(t, refresh(m.viewer))
	require.NoError(t, refresh(m.nobody), "who has left is told nothing")
	_, err := m.UpdateMember(t.Context(), commands.UpdateMember{Meta: m.owner.in(m.id), Member: m.viewer.member, ApproveLoops: ptr(true)})
	require.NoError(t, err)
	m.requireAdded(t, m.id, before,
		events.MemberProfileChanged{Member: m.viewer.member, User: m.viewer.user, Email: "vera@new.example", Name: "Vera Moll"},
		events.MemberApproveLoopsSet{Member: m.viewer.member, User: m.viewer.user, Email: "vera@new.example", From: false, To: true})
}

func TestRemoveMember(t *testing.T) {
	t.Parallel()
	sys := newSystem(t)
	removed := func(p person, r events.Role) []events.Event {
		return []events.Event{events.MemberRemoved{Member: p.member, User: p.user, Email: p.email, Role: r}}
	}
	for name, test := range map[string]func(m *team) (by, whom person, want []events.Event, refusal error){
		"a Maintainer removes a Viewer": func(m *team) (person, person, []events.Event, error) {
			return m.maintainer, m.viewer, removed(m.viewer, events.Viewer), nil
		},
		"an Owner removes a Maintainer": func(m *team) (person, person, []events.Event, error) {
			return m.owner, m.maintainer, removed(m.maintainer, events.Maintainer), nil
		},
		"a Viewer leaves": func(m *team) (person, person, []events.Event, error) {
			return m.viewer, m.viewer,
				[]events.Event{events.MemberLeft{Member: m.viewer.member, User: m.viewer.user, Email: m.viewer.email, Role: events.Viewer}}, nil
		},
		"the last Owner leaves": func(m *team) (person, person, []events.Event, error) {
			return m.owner, m.owner, nil, aggregates.ErrLastOwner
		},
		"a Maintainer removes an Owner": func(m *team) (person, person, []events.Event, error) {
			return m.maintainer, m.owner, nil, aggregates.ErrMemberForbidden
		},
		"a Viewer removes somebody": func(m *team) (person, person, []events.Event, error) {
			return m.viewer, m.old, nil, aggregates.ErrRoleRequired
		},
		"a stranger removes somebody": func(m *team) (person, person, []events.Event, error) {
			return m.nobody, m.old, nil, fault.ErrTenantNotFound
		},
		"nobody is removed": func(m *team) (person, person, []events.Event, error) {
			return m.owner, m.nobody, nil, aggregates.ErrNoMember
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := sys.team(t)
			by, whom, want, refusal := test(m)
			before := m.head(t, m.id)
			_, err := m.RemoveMember(t.Context(), commands.RemoveMember{Meta: by.in(m.id), Member: whom.member})
			require.ErrorIs(t, err, refusal)
			m.requireAdded(t, m.id, before, want...)
			_, in := m.roles(t, m.id)[whom.user]
			require.Equal(t, err != nil && whom != m.nobody, in, "the view says the same")
		})
	}
}

// After a command returns, the view shows its result.
func TestMembersViewIsCurrentAfterCommand(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	for i, role := range []events.Role{events.Maintainer, events.Viewer, events.Owner, events.Viewer} {
		handler := []replica{m.replica, m.other}[i%2]
		_, err := handler.UpdateMember(t.Context(), commands.UpdateMember{Meta: m.owner.in(m.id), Member: m.viewer.member, Role: &role})
		require.NoError(t, err)
		require.Equal(t, role, m.roles(t, m.id)[m.viewer.user])
	}
}

// The envelope records the actor and the origin of a command.
func TestEventsCarryTheCommandsEnvelope(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	meta := m.owner.in(m.id)
	meta.IP, meta.UserAgent, meta.TokenTail = "192.0.2.7", "curl/8", "x9Qa"
	m.clock.move(90 * 1000)
	_, err := m.RemoveMember(t.Context(), commands.RemoveMember{Meta: meta, Member: m.viewer.member})
	require.NoError(t, err)
	records, err := m.log.Load(t.Context(), m.id, m.id, 5)
	require.NoError(t, err)
	require.Len(t, records, 1)
	require.Equal(t, meta.Envelope, records[0].Envelope)
	require.Equal(t, epoch.Add(90*1000), records[0].At)
}
