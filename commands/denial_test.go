package commands_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
)

// Refusals for lack of a right or because of a rule are recorded: what was asked for, about
// what, and the reason.
func TestDenialsAreRecorded(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	bot, _ := m.account(t, "ci-bot")
	invitation := m.invite(t, "yan@mail.example", events.Owner)
	gone := m.invite(t, "zed@mail.example", events.Viewer)
	_, err := m.RevokeInvitation(t.Context(), commands.RevokeInvitation{Meta: m.owner.in(m.id), Invitation: gone})
	require.NoError(t, err)
	update := func(by, whom person, role *events.Role, tick *bool) func(context.Context) (commands.Result, error) {
		return func(ctx context.Context) (commands.Result, error) {
			return m.UpdateMember(ctx, commands.UpdateMember{Meta: by.in(m.id), Member: whom.member, Role: role, ApproveLoops: tick})
		}
	}
	remove := func(by, whom person) func(context.Context) (commands.Result, error) {
		return func(ctx context.Context) (commands.Result, error) {
			return m.RemoveMember(ctx, commands.RemoveMember{Meta: by.in(m.id), Member: whom.member})
		}
	}
	send := func(by person, email string, role events.Role) func(context.Context) (commands.Result, error) {
		return func(ctx context.Context) (commands.Result, error) {
			return m.SendInvitation(ctx, commands.SendInvitation{Meta: by.in(m.id), Invitation: newID(), Email: email, Role: role})
		}
	}
	viewer := ptr(events.Viewer)
	for name, test := range map[string]struct {
		by   person
		ask  func(context.Context) (commands.Result, error)
		want events.CommandDenied
	}{
		"a Viewer changes a role": {m.viewer, update(m.viewer, m.old, viewer, nil),
			events.CommandDenied{Action: "member.role_changed", Target: m.old.member, Code: "role_required"}},
		"a Maintainer makes an Owner": {m.maintainer, update(m.maintainer, m.old, ptr(events.Owner), nil),
			events.CommandDenied{Action: "member.role_changed", Target: m.old.member, Code: "owner_required"}},
		"a Maintainer demotes an Owner": {m.maintainer, update(m.maintainer, m.owner, viewer, nil),
			events.CommandDenied{Action: "member.role_changed", Target: m.owner.member, Code: "member_update_forbidden"}},
		"a Maintainer ticks an Owner": {m.maintainer, update(m.maintainer, m.owner, nil, ptr(true)),
			events.CommandDenied{Action: "member.approve_loops_set", Target: m.owner.member, Code: "member_update_forbidden"}},
		"the last Owner steps down": {m.owner, update(m.owner, m.owner, viewer, nil),
			events.CommandDenied{Action: "member.role_changed", Target: m.owner.member, Code: "last_owner"}},
		"the last Owner leaves": {m.owner, remove(m.owner, m.owner),
			events.CommandDenied{Action: "member.removed", Target: m.owner.member, Code: "last_owner"}},
		"a Viewer removes somebody": {m.viewer, remove(m.viewer, m.old),
			events.CommandDenied{Action: "member.removed", Target: m.old.member, Code: "role_required"}},
		"a Viewer invites": {m.viewer, send(m.viewer, "x@mail.example", events.Viewer),
			events.CommandDenied{Action: "invitation.sent", Name: "x@mail.example", Code: "role_required"}},
		"a Maintainer invites an Owner": {m.maintainer, send(m.maintainer, "X@mail.example", events.Owner),
			events.CommandDenied{Action: "invitation.sent", Name: "x@mail.example", Code: "owner_required"}},
		"somebody is invited twice": {m.owner, send(m.owner, "Yan@Mail.example", events.Viewer),
			events.CommandDenied{Action: "invitation.sent", Name: "yan@mail.example", Code: "already_invited"}},
		"a Maintainer resends an Owner's invitation": {m.maintainer, func(ctx context.Context) (commands.Result, error) {
			return m.ResendInvitation(ctx, commands.ResendInvitation{Meta: m.maintainer.in(m.id), Invitation: invitation})
		}, events.CommandDenied{Action: "invitation.resent", Target: invitation, Code: "owner_required"}},
		"an invitation is revoked twice": {m.owner, func(ctx context.Context) (commands.Result, error) {
			return m.RevokeInvitation(ctx, commands.RevokeInvitation{Meta: m.owner.in(m.id), Invitation: gone})
		}, events.CommandDenied{Action: "invitation.revoked", Target: gone, Code: "invitation_not_pending"}},
		"an invitation to another address is accepted": {m.nobody, func(ctx context.Context) (commands.Result, error) {
			return m.AcceptInvitation(ctx, accept(m.nobody, m.id, invitation))
		}, events.CommandDenied{Action: "invitation.accepted", Target: invitation, Code: "invitation_not_yours"}},
		"an invitation to another address is rejected": {m.nobody, func(ctx context.Context) (commands.Result, error) {
			return m.RejectInvitation(ctx, reject(m.nobody, m.id, invitation))
		}, events.CommandDenied{Action: "invitation.rejected", Target: invitation, Code: "invitation_not_yours"}},
		"a Maintainer renames the workspace": {m.maintainer, func(ctx context.Context) (commands.Result, error) {
			return m.RenameWorkspace(ctx, commands.RenameWorkspace{Meta: m.maintainer.in(m.id), Name: ptr("Ours")})
		}, events.CommandDenied{Action: "workspace.renamed", Target: m.id, Code: "role_required"}},
		"a Viewer creates an account": {m.viewer, func(ctx context.Context) (commands.Result, error) {
			return m.CreateServiceAccount(ctx, create(m.viewer, m.id, "a-bot"))
		}, events.CommandDenied{Action: "service_account.created", Name: "service:a-bot", Code: "role_required"}},
		"an account's name is taken": {m.owner, func(ctx context.Context) (commands.Result, error) {
			return m.CreateServiceAccount(ctx, create(m.owner, m.id, "ci-bot"))
		}, events.CommandDenied{Action: "service_account.created", Name: "service:ci-bot", Code: "service_account_name_taken"}},
		"a Viewer rotates a token": {m.viewer, m.rotates(rotate(m.viewer, m.id, bot)),
			events.CommandDenied{Action: "service_account.rotated", Target: bot, Code: "role_required"}},
		"a Viewer revokes a token": {m.viewer, m.revokes(revoke(m.viewer, m.id, bot)),
			events.CommandDenied{Action: "service_account.revoked", Target: bot, Code: "role_required"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := m.head(t, m.id)
			_, err := test.ask(t.Context())
			require.Equal(t, test.want.Code, fault.As(err).Code)
			added := m.records(t, m.id, before+1)
			require.Len(t, added, 1)
			require.Equal(t, test.want, added[0].Event)
			require.Equal(t, test.by.in(m.id).Envelope, added[0].Envelope)
			require.Equal(t, 1, added[0].Version, "a stream of its own")
		})
	}
}

// Requests for what does not exist, malformed requests and those that change nothing are
// not recorded as denials.
func TestRefusalsThatAreNotDenials(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	before := m.head(t, m.id)
	for name, ask := range map[string]func() (commands.Result, error){
		"a stranger asks": func() (commands.Result, error) {
			return m.RemoveMember(t.Context(), commands.RemoveMember{Meta: m.nobody.in(m.id), Member: m.viewer.member})
		},
		"there is no such member": func() (commands.Result, error) {
			return m.RemoveMember(t.Context(), commands.RemoveMember{Meta: m.owner.in(m.id), Member: newID()})
		},
		"there is no such invitation": func() (commands.Result, error) {
			return m.AcceptInvitation(t.Context(), accept(m.nobody, m.id, newID()))
		},
		"there is no such account": func() (commands.Result, error) {
			return m.RotateServiceAccount(t.Context(), rotate(m.owner, m.id, newID()))
		},
		"there is no such role": func() (commands.Result, error) {
			return m.UpdateMember(t.Context(), commands.UpdateMember{Meta: m.owner.in(m.id), Member: m.viewer.member, Role: ptr(events.Legacy)})
		},
		"it is no address": func() (commands.Result, error) {
			return m.SendInvitation(t.Context(),
				commands.SendInvitation{Meta: m.owner.in(m.id), Invitation: newID(), Email: "yan", Role: events.Viewer})
		},
		"the system is refused": func() (commands.Result, error) {
			return m.AddMember(t.Context(),
				commands.AddMember{Meta: systems(m.id), Member: newID(), User: m.viewer.user, Email: "x@acme.example", Role: events.Viewer})
		},
		"it is so already": func() (commands.Result, error) {
			return m.UpdateMember(t.Context(), commands.UpdateMember{Meta: m.owner.in(m.id), Member: m.viewer.member, Role: ptr(events.Viewer)})
		},
	} {
		_, err := ask()
		require.Equal(t, name != "it is so already", err != nil, name)
		require.Empty(t, m.records(t, m.id, before+1), name)
	}
	unknown := newID()
	_, err := m.RemoveMember(t.Context(), commands.RemoveMember{Meta: m.owner.in(unknown), Member: m.viewer.member})
	require.ErrorIs(t, err, fault.ErrTenantNotFound)
	require.Zero(t, m.head(t, unknown), "a workspace that is none gets no log")
}

func TestSameDenialIsRecordedOncePerMinute(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	before := m.head(t, m.id)
	ask := func(by person, whom person) {
		_, err := m.RemoveMember(t.Context(), commands.RemoveMember{Meta: by.in(m.id), Member: whom.member})
		require.ErrorIs(t, err, aggregates.ErrRoleRequired)
	}
	for _, step := range []struct {
		after time.Duration
		by    person
		whom  person
		total int
	}{
		{0, m.viewer, m.old, 1},
		{0, m.viewer, m.old, 1},
		{0, m.viewer, m.maintainer, 2}, // about another target
		{0, m.old, m.maintainer, 3},    // by another person
		{59 * time.Second, m.viewer, m.old, 3},
		{time.Second, m.viewer, m.old, 4},
		{59 * time.Second, m.viewer, m.old, 4},
		{2 * time.Second, m.viewer, m.old, 5},
	} {
		m.clock.move(step.after)
		ask(step.by, step.whom)
		require.Len(t, m.denials(t, m.id, before), step.total)
	}
}

func TestConcurrentDenialsAreRecordedOnce(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	before := m.head(t, m.id)
	var all sync.WaitGroup
	start := make(chan struct{})
	errs := make([]error, 40)
	for i := range errs {
		all.Go(func() {
			<-start
			_, errs[i] = m.RemoveMember(t.Context(), commands.RemoveMember{Meta: m.viewer.in(m.id), Member: m.old.member})
		})
	}
	close(start)
	all.Wait()
	for _, err := range errs {
		require.ErrorIs(t, err, aggregates.ErrRoleRequired)
	}
	require.Len(t, m.denials(t, m.id, before), 1)
}

// Each denial has a stream of its own, so that the version of the membership's stream does
// not change.
func TestDenialChangesNoOtherStream(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	position := func() int {
		list, err := m.log.Load(t.Context(), m.id, m.id, 0)
		require.NoError(t, err)
		return len(list)
	}
	before := position()
	_, err := m.RemoveMember(t.Context(), commands.RemoveMember{Meta: m.viewer.in(m.id), Member: m.old.member})
	require.ErrorIs(t, err, aggregates.ErrRoleRequired)
	require.Equal(t, before, position())
}

// refuse makes somebody ask n times for something that is refused.
func (m *team) refuse(t *testing.T, by person, n int) {
	t.Helper()
	for range n {
		_, err := m.RemoveMember(t.Context(), commands.RemoveMember{Meta: by.in(m.id), Member: newID()})
		require.ErrorIs(t, err, aggregates.ErrRoleRequired)
	}
}

func TestOmittedDenialsAreCounted(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	before := m.head(t, m.id)
	m.refuse(t, m.viewer, 30)
	require.Len(t, m.denials(t, m.id, before), 30)
	require.Zero(t, m.OmittedDenials())

	m.refuse(t, m.viewer, 40)
	m.clock.move(time.Second)
	m.refuse(t, m.viewer, 17)
	m.refuse(t, m.old, 31)
	require.Len(t, m.denials(t, m.id, before), 60)
	require.EqualValues(t, 58, m.OmittedDenials())
}

// The denials of all people of a workspace together have their own limit.
func TestDenialsOfWorkspaceAreBounded(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	before := m.head(t, m.id)
	for i := range 12 {
		p := newPerson(fmt.Sprint("p", i))
		m.add(t, p, events.Viewer)
		m.refuse(t, p, 30)
	}
	require.Len(t, m.denials(t, m.id, before), 300)
	require.EqualValues(t, 60, m.OmittedDenials())
}
