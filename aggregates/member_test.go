package aggregates

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/fault"
)

// The people of these tests. A user's member id is the user's id plus a hundred.
var (
	ann, bob = id(1), id(2) // Owners, if bob is one
	mel, mia = id(3), id(4) // Maintainers
	vic      = id(5)        // a Viewer
	leo      = id(6)        // a legacy member
	stranger = id(9)

	yes, no = true, false
)

// team has one Owner; pair has two.
var (
	team = []events.Event{
		events.WorkspaceCreated{Name: "Acme", Slug: "acme"},
		joined(ann, events.Owner), joined(mel, events.Maintainer), joined(mia, events.Maintainer),
		joined(vic, events.Viewer), joined(leo, events.Legacy),
	}
	pair = after(team, joined(bob, events.Owner))
)

var errNotManager = RoleRequired(events.ManageMembers)

func memberOf(user events.ID) events.ID { return id(user[15] + 100) }

func emailOf(user events.ID) string { return string('a'+rune(user[15])) + "@acme.example" }

func joined(user events.ID, role events.Role) events.MemberJoined {
	return events.MemberJoined{Member: memberOf(user), User: user, Email: emailOf(user), Role: role}
}

func changed(user events.ID, from, to events.Role) events.MemberRoleChanged {
	return events.MemberRoleChanged{Member: memberOf(user), User: user, Email: emailOf(user), From: from, To: to}
}

func ticked(user events.ID, from, to bool) events.MemberApproveLoopsSet {
	return events.MemberApproveLoopsSet{Member: memberOf(user), User: user, Email: emailOf(user), From: from, To: to}
}

func left(user events.ID, role events.Role) events.MemberLeft {
	return events.MemberLeft{Member: memberOf(user), User: user, Email: emailOf(user), Role: role}
}

func removed(user events.ID, role events.Role) events.MemberRemoved {
	return events.MemberRemoved{Member: memberOf(user), User: user, Email: emailOf(user), Role: role}
}

func update(by, user events.ID, role events.Role, approveLoops *bool) func(*Workspace) ([]events.Event, error) {
	return func(w *Workspace) ([]events.Event, error) {
		if role == "" {
			return w.Update(by, memberOf(user), nil, approveLoops, noon)
		}
		return w.Update(by, memberOf(user), &role, approveLoops, noon)
	}
}

func remove(by, user events.ID) func(*Workspace) ([]events.Event, error) {
	return func(w *Workspace) ([]events.Event, error) { return w.Remove(by, memberOf(user), noon) }
}

func TestJoin(t *testing.T) {
	join := func(e events.MemberJoined) func(*Workspace) ([]events.Event, error) {
		return func(w *Workspace) ([]events.Event, error) { return w.Join(e) }
	}
	again := joined(vic, events.Maintainer)
	again.Member = id(77)
	check(t, []spec[Workspace]{
		{name: "a person joins", given: team, when: join(joined(bob, events.Viewer)), then: []events.Event{joined(bob, events.Viewer)}},
		{name: "a member cannot join again", given: team, when: join(again), err: ErrAlreadyMember},
		{name: "who left may come back", given: after(team, left(vic, events.Viewer)), when: join(again), then: []events.Event{again}},
		{name: "who was removed may come back", given: after(team, removed(vic, events.Viewer)), when: join(again), then: []events.Event{again}},
		{name: "there must be a workspace", when: join(joined(bob, events.Viewer)), err: fault.ErrTenantNotFound},
	})
}

func TestChangeRole(t *testing.T) {
	legacyGiven := fault.Field("role", "must be one of Owner, Maintainer, Viewer")
	check(t, []spec[Workspace]{
		// Who may change roles.
		{name: "an Owner promotes a Viewer", given: team, when: update(ann, vic, events.Maintainer, nil),
			then: []events.Event{changed(vic, events.Viewer, events.Maintainer)}},
		{name: "an Owner makes an Owner", given: team, when: update(ann, vic, events.Owner, nil),
			then: []events.Event{changed(vic, events.Viewer, events.Owner)}},
		{name: "an Owner demotes another Owner", given: pair, when: update(ann, bob, events.Viewer, nil),
			then: []events.Event{changed(bob, events.Owner, events.Viewer)}},
		{name: "an Owner steps down while another stays", given: pair, when: update(ann, ann, events.Maintainer, nil),
			then: []events.Event{changed(ann, events.Owner, events.Maintainer)}},
		{name: "a Maintainer promotes a Viewer", given: team, when: update(mel, vic, events.Maintainer, nil),
			then: []events.Event{changed(vic, events.Viewer, events.Maintainer)}},
		{name: "a Maintainer demotes a Maintainer", given: team, when: update(mel, mia, events.Viewer, nil),
			then: []events.Event{changed(mia, events.Maintainer, events.Viewer)}},
		{name: "a Maintainer steps down", given: team, when: update(mel, mel, events.Viewer, nil),
			then: []events.Event{changed(mel, events.Maintainer, events.Viewer)}},

		// Who may not.
		{name: "a Viewer may not", given: team, when: update(vic, leo, events.Maintainer, nil), err: errNotManager},
		{name: "a Viewer may not promote themselves", given: team, when: update(vic, vic, events.Maintainer, nil), err: errNotManager},
		{name: "a legacy member may not", given: team, when: update(leo, vic, events.Maintainer, nil), err: errNotManager},
		{name: "a stranger learns nothing", given: team, when: update(stranger, vic, events.Maintainer, nil), err: fault.ErrTenantNotFound},
		{name: "who was removed may not", given: after(team, removed(mel, events.Maintainer)), when: update(mel, vic, events.Maintainer, nil),
			err: fault.ErrTenantNotFound},
		{name: "who was demoted may not", given: after(team, changed(mel, events.Maintainer, events.Viewer)),
			when: update(mel, vic, events.Maintainer, nil), err: errNotManager},

		// Changes of Owners.
		{name: "a Maintainer cannot make an Owner", given: team, when: update(mel, vic, events.Owner, nil), err: ErrOwnerRequired},
		{name: "a Maintainer cannot make themselves Owner", given: team, when: update(mel, mel, events.Owner, nil), err: ErrOwnerRequired},
		{name: "a Maintainer cannot change an Owner", given: pair, when: update(mel, ann, events.Viewer, nil), err: ErrMemberForbidden},
		{name: "a Maintainer cannot change the last Owner", given: team, when: update(mel, ann, events.Viewer, nil), err: ErrMemberForbidden},
		{name: "a Maintainer cannot even leave an Owner as they are", given: team, when: update(mel, ann, events.Owner, nil),
			err: ErrMemberForbidden},
		{name: "the last Owner cannot step down", given: team, when: update(ann, ann, events.Maintainer, nil), err: ErrLastOwner},
		{
			name:  "the last Owner of two cannot step down",
			given: after(pair, changed(bob, events.Owner, events.Viewer)),
			when:  update(ann, ann, events.Viewer, nil),
			err:   ErrLastOwner,
		},

		// The roles that can be given.
		{name: "the same role again changes nothing", given: team, when: update(ann, vic, events.Viewer, nil)},
		{name: "the last Owner stays Owner", given: team, when: update(ann, ann, events.Owner, nil)},
		{name: "nothing changes nothing", given: team, when: update(ann, vic, "", nil)},
		{name: "the legacy role cannot be given", given: team, when: update(ann, vic, events.Legacy, nil), err: legacyGiven},
		{name: "no other role can be given", given: team, when: update(ann, vic, "King", nil), err: legacyGiven},
		{name: "a legacy member becomes a true Viewer", given: team, when: update(mel, leo, events.Viewer, nil),
			then: []events.Event{changed(leo, events.Legacy, events.Viewer)}},

		// Whose role can be changed.
		{name: "there must be such a member", given: team, when: update(ann, stranger, events.Viewer, nil), err: ErrNoMember},
		{name: "who left is no member", given: after(team, left(vic, events.Viewer)), when: update(ann, vic, events.Maintainer, nil),
			err: ErrNoMember},
		{name: "there must be a workspace", when: update(ann, vic, events.Viewer, nil), err: fault.ErrTenantNotFound},
	})
}

func TestApproveLoops(t *testing.T) {
	check(t, []spec[Workspace]{
		{name: "a Maintainer ticks it for a Viewer", given: team, when: update(mel, vic, "", &yes),
			then: []events.Event{ticked(vic, false, true)}},
		{name: "a Maintainer unticks it for a Maintainer", given: team, when: update(mel, mia, "", &no),
			then: []events.Event{ticked(mia, true, false)}},
		{name: "a Maintainer unticks it for themselves", given: team, when: update(mel, mel, "", &no),
			then: []events.Event{ticked(mel, true, false)}},
		{name: "an Owner unticks it for an Owner", given: pair, when: update(ann, bob, "", &no), then: []events.Event{ticked(bob, true, false)}},
		{name: "the last Owner unticks it for themselves", given: team, when: update(ann, ann, "", &no),
			then: []events.Event{ticked(ann, true, false)}},
		{name: "a legacy member has none until it is ticked", given: team, when: update(ann, leo, "", &yes),
			then: []events.Event{ticked(leo, false, true)}},

		{name: "a Maintainer cannot change it for an Owner", given: team, when: update(mel, ann, "", &no), err: ErrMemberForbidden},
		{name: "a Viewer cannot tick it", given: team, when: update(vic, vic, "", &yes), err: errNotManager},
		{name: "a legacy member cannot tick it", given: team, when: update(leo, leo, "", &yes), err: errNotManager},
		{name: "a stranger learns nothing", given: team, when: update(stranger, vic, "", &yes), err: fault.ErrTenantNotFound},

		// Setting approve-loops explicitly is an event even if the role gives the same.
		{name: "what the role gives may be ticked", given: team, when: update(ann, mia, "", &yes), then: []events.Event{ticked(mia, true, true)}},
		{name: "what the role does not give may be unticked", given: team, when: update(ann, vic, "", &no),
			then: []events.Event{ticked(vic, false, false)}},
		{name: "the same tick again changes nothing", given: after(team, ticked(vic, false, true)), when: update(ann, vic, "", &yes)},
		{
			name: "a tick survives a change of the role",
			given: after(team, ticked(vic, false, true), changed(vic, events.Viewer, events.Maintainer),
				changed(vic, events.Maintainer, events.Viewer)),
			when: update(ann, vic, "", &yes),
		},
		{
			name:  "an untick survives a change of the role",
			given: after(team, ticked(mia, true, false), changed(mia, events.Maintainer, events.Owner)),
			when:  update(ann, mia, "", &no),
		},
		{
			name:  "who comes back has no tick",
			given: after(team, ticked(vic, false, true), removed(vic, events.Viewer), joined(vic, events.Viewer)),
			when:  update(ann, vic, "", &yes),
			then:  []events.Event{ticked(vic, false, true)},
		},
		{
			name:  "role and tick change together, the tick seen from the new role",
			given: team,
			when:  update(ann, mia, events.Viewer, &yes),
			then:  []events.Event{changed(mia, events.Maintainer, events.Viewer), ticked(mia, false, true)},
		},
		{
			name:  "if the role is refused the tick is too",
			given: team,
			when:  update(mel, vic, events.Owner, &yes),
			err:   ErrOwnerRequired,
		},
	})
}

func TestRemove(t *testing.T) {
	check(t, []spec[Workspace]{
		{name: "an Owner removes a Maintainer", given: team, when: remove(ann, mel), then: []events.Event{removed(mel, events.Maintainer)}},
		{name: "an Owner removes another Owner", given: pair, when: remove(ann, bob), then: []events.Event{removed(bob, events.Owner)}},
		{name: "a Maintainer removes a Viewer", given: team, when: remove(mel, vic), then: []events.Event{removed(vic, events.Viewer)}},
		{name: "a Maintainer removes a Maintainer", given: team, when: remove(mel, mia), then: []events.Event{removed(mia, events.Maintainer)}},

		{name: "a Maintainer cannot remove an Owner", given: pair, when: remove(mel, ann), err: ErrMemberForbidden},
		{name: "a Maintainer cannot remove the last Owner", given: team, when: remove(mel, ann), err: ErrMemberForbidden},
		{name: "a Viewer may not", given: team, when: remove(vic, leo), err: errNotManager},
		{name: "a legacy member may not", given: team, when: remove(leo, vic), err: errNotManager},
		{name: "a Viewer does not learn who is no member", given: team, when: remove(vic, stranger), err: errNotManager},
		{name: "a stranger learns nothing", given: team, when: remove(stranger, vic), err: fault.ErrTenantNotFound},
		{name: "there must be such a member", given: team, when: remove(ann, stranger), err: ErrNoMember},
		{name: "nobody is removed twice", given: after(team, removed(vic, events.Viewer)), when: remove(ann, vic), err: ErrNoMember},

		{name: "everybody may leave: a Viewer", given: team, when: remove(vic, vic), then: []events.Event{left(vic, events.Viewer)}},
		{name: "everybody may leave: a legacy member", given: team, when: remove(leo, leo), then: []events.Event{left(leo, events.Legacy)}},
		{name: "everybody may leave: a Maintainer", given: team, when: remove(mel, mel), then: []events.Event{left(mel, events.Maintainer)}},
		{name: "everybody may leave: one Owner of two", given: pair, when: remove(ann, ann), then: []events.Event{left(ann, events.Owner)}},
		{name: "the last Owner cannot leave", given: team, when: remove(ann, ann), err: ErrLastOwner},
		{name: "the last Owner of two cannot leave", given: after(pair, left(bob, events.Owner)), when: remove(ann, ann), err: ErrLastOwner},
		{name: "nobody leaves twice", given: after(team, left(vic, events.Viewer)), when: remove(vic, vic), err: fault.ErrTenantNotFound},
	})
}

func TestRoleIsTheOneTheyHaveNow(t *testing.T) {
	w := folded[Workspace](after(pair, changed(vic, events.Viewer, events.Owner), left(mel, events.Maintainer)))
	for user, want := range map[events.ID]events.Role{
		ann: events.Owner, bob: events.Owner, mia: events.Maintainer, vic: events.Owner, leo: events.Legacy,
		mel: "", stranger: "", {}: "",
	} {
		require.Equal(t, want, w.Role(user), "user %d", user[15])
	}
}

func TestAllow(t *testing.T) {
	w := folded[Workspace](team)
	for user, want := range map[events.ID]error{
		ann: nil, mel: nil, vic: errNotManager, leo: errNotManager, stranger: fault.ErrTenantNotFound, {}: fault.ErrTenantNotFound,
	} {
		require.Equal(t, want, w.Allow(user, events.ManageMembers), "user %d", user[15])
	}
}

// The specification prescribes these codes and messages.
func TestRefusalsOfAWorkspace(t *testing.T) {
	for _, c := range []struct {
		fault   *fault.Fault
		status  int
		code    string
		message string
	}{
		{ErrOwnerRequired, 403, "owner_required", "Only an owner can make someone an owner."},
		{ErrLastOwner, 409, "last_owner", "This is the workspace's last owner. Make someone else an owner before changing this role."},
		{ErrMemberForbidden, 403, "member_update_forbidden", "You are not allowed to update this member."},
		{ErrAlreadyMember, 409, "already_member", "User is already a member of this organization."},
		{ErrNoMember, 404, "member_not_found", "There is no such member."},
		{ErrRoleRequired, 403, "role_required", "Your role does not allow this."},
	} {
		require.Equal(t, c.status, c.fault.Kind.Status(), c.code)
		require.Equal(t, c.code, c.fault.Code)
		require.Equal(t, c.message, c.fault.Message)
	}
	require.Equal(t, []events.Role{events.Owner, events.Maintainer}, RoleRequired(events.ManageMembers).Details["required"])
}
