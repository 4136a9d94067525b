package aggregates

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"svc/events"
)

// A machine makes random people do random things to a workspace. It has a model of its own
// of the members and their roles.
type machine struct {
	stream []events.Event
	state  *Workspace
	people map[events.ID]person // by member
	next   byte                 // number for the next member

	at      time.Time
	letters []*invitationModel // in the order in which they were sent
}

type person struct {
	user  events.ID
	role  events.Role
	ticks *bool
}

func newMachine() *machine {
	m := &machine{state: new(Workspace), people: map[events.ID]person{}, at: noon}
	list, err := m.state.Create("Acme", "acme", events.MemberJoined{Member: m.member(), User: id(1), Email: "1@acme.example"})
	if err != nil {
		panic(err)
	}
	m.take(id(1), list)
	return m
}

// TestWorkspaceMachine tries to leave a workspace without an Owner, to do what one's role
// does not allow, or to join with an invitation that was used, has expired or is somebody
// else's.
func TestWorkspaceMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine()
		t.Repeat(map[string]func(*rapid.T){
			"join":   m.join,
			"update": m.update,
			"remove": m.remove,
			"wait":   m.wait,
			"invite": m.invite,
			"resend": m.resend,
			"revoke": m.revoke,
			"accept": m.accept,
			"reject": m.reject,
			"":       m.checkInvariants,
		})
	})
}

func (m *machine) member() events.ID {
	m.next++
	return id(100 + m.next%100)
}

// users are few, so that their actions concern each other.
var users = rapid.Map(rapid.ByteRange(1, 6), id)

func (m *machine) anyMember(t *rapid.T) events.ID {
	known := slices.SortedFunc(maps.Keys(m.people), func(a, b events.ID) int { return int(a[15]) - int(b[15]) })
	return rapid.SampledFrom(append(known, id(255))).Draw(t, "member")
}

func (m *machine) join(t *rapid.T) {
	if len(m.people) > 20 {
		t.Skip("enough people")
	}
	e := events.MemberJoined{
		Member: m.member(), User: users.Draw(t, "user"), Email: "x@acme.example",
		Role: rapid.SampledFrom([]events.Role{events.Owner, events.Maintainer, events.Viewer, events.Legacy}).Draw(t, "role"),
	}
	was := m.roleOf(e.User)
	list := m.ask(t, e.User, func(w *Workspace) ([]events.Event, error) { return w.Join(e) })
	require.Equal(t, was == "", len(list) == 1, "who is no member joins, who is one does not")
}

func (m *machine) update(t *rapid.T) {
	by, target := users.Draw(t, "by"), m.anyMember(t)
	role := rapid.Ptr(rapid.SampledFrom([]events.Role{events.Owner, events.Maintainer, events.Viewer, events.Legacy}), true).Draw(t, "role")
	tick := rapid.Ptr(rapid.Bool(), true).Draw(t, "tick")
	actor, was := m.roleOf(by), m.people[target]
	list := m.ask(t, by, func(w *Workspace) ([]events.Event, error) { return w.Update(by, target, role, tick, m.at) })
	if len(list) == 0 {
		return
	}
	is := m.people[target]
	require.True(t, actor.May(events.ManageMembers), "%q changed somebody", actor)
	require.False(t, actor != events.Owner && (was.role == events.Owner || is.role == events.Owner), "%q changed an Owner", actor)
	if role != nil {
		require.Equal(t, *role, is.role)
		require.False(t, is.role != was.role && is.role == events.Legacy, "the legacy role was given")
	} else {
		require.Equal(t, was.role, is.role)
	}
	if tick != nil {
		require.Equal(t, *tick, *is.ticks)
	} else {
		require.Equal(t, was.ticks, is.ticks)
	}
}

func (m *machine) remove(t *rapid.T) {
	by, target := users.Draw(t, "by"), m.anyMember(t)
	actor, was := m.roleOf(by), m.people[target]
	list := m.ask(t, by, func(w *Workspace) ([]events.Event, error) { return w.Remove(by, target, m.at) })
	if len(list) == 0 || was.user == by {
		return
	}
	require.True(t, actor.May(events.ManageMembers), "%q removed somebody", actor)
	require.False(t, actor != events.Owner && was.role == events.Owner, "%q removed an Owner", actor)
}

// ask makes the workspace decide what somebody wants, and applies the events.
func (m *machine) ask(t *rapid.T, by events.ID, decide func(*Workspace) ([]events.Event, error)) []events.Event {
	list, err := decide(m.state)
	if err != nil {
		require.Empty(t, list, "a refusal changes nothing")
	}
	require.Equal(t, folded[Workspace](m.stream), m.state, "to decide must change nothing")
	m.take(by, list)
	return list
}

// take applies events to the workspace and to the model.
func (m *machine) take(by events.ID, list []events.Event) {
	for _, e := range list {
		m.stream = append(m.stream, caused{e, by})
		m.state.Apply(e, events.Actor{ID: by})
		switch e := e.(type) {
		case events.MemberJoined:
			m.people[e.Member] = person{user: e.User, role: e.Role}
		case events.MemberRoleChanged:
			p := m.people[e.Member]
			p.role = e.To
			m.people[e.Member] = p
		case events.MemberApproveLoopsSet:
			p := m.people[e.Member]
			p.ticks = &e.To
			m.people[e.Member] = p
		case events.MemberLeft:
			delete(m.people, e.Member)
		case events.MemberRemoved:
			delete(m.people, e.Member)
		default:
			m.post(by, e)
		}
	}
}

func (m *machine) roleOf(user events.ID) events.Role {
	for _, p := range m.people {
		if p.user == user {
			return p.role
		}
	}
	return ""
}

// checkInvariants checks what is true after every action.
func (m *machine) checkInvariants(t *rapid.T) {
	owners := 0
	for _, p := range m.people {
		if p.role == events.Owner {
			owners++
		}
	}
	require.Positive(t, owners, "a workspace always has an Owner")
	require.Equal(t, owners, m.state.owners)
	require.Len(t, m.state.members, len(m.people))
	for n := range byte(7) {
		require.Equal(t, m.roleOf(id(n)), m.state.Role(id(n)))
	}
	for member, p := range m.people {
		require.Equal(t, p.ticks, m.state.members[member].approveLoops)
	}
	m.checkInvitations(t)
	require.Equal(t, folded[Workspace](m.stream), m.state, "the state is the fold of the events")
}
