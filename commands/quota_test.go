package commands_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/commands/bearer"
	"svc/events"
	"svc/fault"
	"svc/sessions"
)

// limitedTeam returns a team in a system whose processes apply daily limits from now on.
func limitedTeam(t *testing.T, workspaces, invitations int) *team {
	t.Helper()
	m := newTeam(t)
	for _, r := range []replica{m.replica, m.other} {
		r.Limit(m.daily(workspaces, invitations))
	}
	return m
}

func (s *system) daily(workspaces, invitations int) commands.Daily {
	return commands.Daily{Workspaces: workspaces, Invitations: invitations, Counts: sessions.Daily{DB: s.db}}
}

// requireWait requires that a person has to wait for that time.
func requireWait(t *testing.T, err error, wait time.Duration) {
	t.Helper()
	f := fault.As(err)
	require.NotNil(t, f, "%v", err)
	require.Equal(t, "rate_limited", f.Code)
	require.Equal(t, fault.RateLimited, f.Kind)
	require.Equal(t, wait, f.Wait)
}

func TestDailyLimitOfWorkspaces(t *testing.T) {
	t.Parallel()
	m := limitedTeam(t, 3, 0)
	create := func(r replica, by person, slug string) error {
		w := newID()
		_, err := r.CreateWorkspace(t.Context(),
			commands.CreateWorkspace{Meta: by.in(w), Member: newID(), Email: by.email, Name: "One", Slug: slug})
		return err
	}
	require.NoError(t, create(m.replica, m.nobody, "one-1"))
	require.ErrorIs(t, create(m.replica, m.nobody, "one-1"), aggregates.ErrSlugTaken, "which counts for nothing")
	require.ErrorIs(t, create(m.replica, m.nobody, "?"), fault.ErrValidation, "nor does that")
	require.NoError(t, create(m.other, m.nobody, "one-2"))
	require.NoError(t, create(m.replica, m.nobody, "one-3"))
	for _, r := range []replica{m.replica, m.other, m.startReplica(t, 3, 0)} {
		requireWait(t, create(r, m.nobody, "one-4"), 12*time.Hour)
	}
	require.ErrorIs(t, create(m.other, m.nobody, "?"), fault.ErrValidation, "what is wrong comes first")
	require.NoError(t, create(m.other, m.viewer, "one-4"), "another person")

	m.clock.move(12*time.Hour - time.Microsecond)
	requireWait(t, create(m.other, m.nobody, "one-5"), time.Microsecond)
	m.clock.move(time.Microsecond)
	for _, slug := range []string{"one-5", "one-6", "one-7"} {
		require.NoError(t, create(m.other, m.nobody, slug), "a new day")
	}
	requireWait(t, create(m.replica, m.nobody, "one-8"), 24*time.Hour)
}

// The personal workspace that a new person gets does not count as one that they made.
func TestRegistrationNeedsNoQuota(t *testing.T) {
	t.Parallel()
	m := limitedTeam(t, 1, 0)
	ann := m.registered(t, "ann", "ann@home.example")
	c := commands.CreateWorkspace{Meta: ann.Meta, Member: newID(), Email: "ann@home.example", Name: "One", Slug: "one-1"}
	c.Workspace = newID()
	_, err := m.replica.CreateWorkspace(t.Context(), c)
	require.NoError(t, err)
	c.Workspace, c.Slug = newID(), "one-2"
	_, err = m.replica.CreateWorkspace(t.Context(), c)
	requireWait(t, err, 12*time.Hour)
}

// startReplica starts another process.
func (m *team) startReplica(t *testing.T, workspaces, invitations int) replica {
	t.Helper()
	h := commands.New(m.log, m.clock.now)
	h.Limit(m.daily(workspaces, invitations))
	return replica{h, m.log}
}

func TestDailyLimitOfInvitations(t *testing.T) {
	t.Parallel()
	m := limitedTeam(t, 0, 4)
	send := func(o commands.Meta, email string) (events.ID, error) {
		c := commands.SendInvitation{Meta: o, Invitation: newID(), Email: email, Role: events.Viewer}
		_, err := m.SendInvitation(t.Context(), c)
		return c.Invitation, err
	}
	resend := func(o commands.Meta, id events.ID) error {
		_, err := m.other.ResendInvitation(t.Context(), commands.ResendInvitation{Meta: o, Invitation: id})
		return err
	}
	owner := m.owner.in(m.id)
	first, err := send(keyed(owner, "k"), "a@home.example")
	require.NoError(t, err)
	again := commands.SendInvitation{Meta: keyed(owner, "k"), Invitation: newID(), Email: "a@home.example", Role: events.Viewer}
	done, err := m.other.SendInvitation(t.Context(), again)
	require.NoError(t, err)
	require.True(t, done.Replayed, "which counts for nothing")
	_, err = send(owner, "a@home.example")
	require.ErrorIs(t, err, aggregates.ErrAlreadyInvited, "nor does that")
	require.NoError(t, resend(owner, first))
	require.NoError(t, resend(owner, first))
	_, err = send(owner, "b@home.example")
	require.NoError(t, err)

	requireWait(t, resend(owner, first), 12*time.Hour)
	_, err = send(owner, "c@home.example")
	requireWait(t, err, 12*time.Hour)
	_, err = send(m.viewer.in(m.id), "c@home.example")
	require.ErrorIs(t, err, aggregates.ErrRoleRequired)
	_, err = send(m.maintainer.in(m.id), "c@home.example")
	require.NoError(t, err, "another person")
	require.NoError(t, resend(m.maintainer.in(m.id), first))
	for _, e := range m.denials(t, m.id, 0) {
		require.NotEqual(t, "rate_limited", e.Code, "a bound that is reached is no denial")
	}

	elsewhere := newID()
	_, err = m.CreateWorkspace(t.Context(),
		commands.CreateWorkspace{Meta: m.owner.in(elsewhere), Member: newID(), Email: m.owner.email, Name: "Else", Slug: "elsewhere"})
	require.NoError(t, err)
	_, err = send(m.owner.in(elsewhere), "d@home.example")
	requireWait(t, err, 12*time.Hour)
	_, err = m.RevokeInvitation(t.Context(), commands.RevokeInvitation{Meta: owner, Invitation: first})
	require.NoError(t, err, "whoever may send no more may still take back")
}

// A person and a workspace may send one address only so many invitations a day. That is their own
// limit: whatever others send, an address can still be invited.
func TestInvitationsToAnAddressAreLimitedPerSender(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	daily := commands.Daily{InvitationsPerAddress: 3, Counts: sessions.Daily{DB: m.db}}
	m.Limit(daily)
	m.other.Limit(daily)
	create := func(slug string) commands.Meta {
		in := m.nobody.in(newID())
		_, err := m.CreateWorkspace(t.Context(),
			commands.CreateWorkspace{Meta: in, Member: newID(), Email: m.nobody.email, Name: "Else", Slug: slug})
		require.NoError(t, err)
		return in
	}
	send := func(r replica, o commands.Meta, email string) (events.ID, error) {
		c := commands.SendInvitation{Meta: o, Invitation: newID(), Email: email, Role: events.Viewer}
		_, err := r.SendInvitation(t.Context(), c)
		return c.Invitation, err
	}
	resend := func(o commands.Meta, id events.ID) error {
		_, err := m.other.ResendInvitation(t.Context(), commands.ResendInvitation{Meta: o, Invitation: id})
		return err
	}
	elsewhere := create("elsewhere")
	theirs, err := send(m.other, elsewhere, "vic@HOME.example")
	require.NoError(t, err)
	require.NoError(t, resend(elsewhere, theirs))
	require.NoError(t, resend(elsewhere, theirs))
	requireWait(t, resend(elsewhere, theirs), 12*time.Hour)
	_, err = send(m.replica, create("elsewhere-2"), "Vic@home.example")
	requireWait(t, err, 12*time.Hour)
	_, err = send(m.replica, elsewhere, "vic@home.example")
	require.ErrorIs(t, err, aggregates.ErrAlreadyInvited, "what is wrong comes first")

	first, err := send(m.replica, m.owner.in(m.id), "Vic@home.example")
	require.NoError(t, err, "whatever a stranger did")
	require.NoError(t, resend(m.maintainer.in(m.id), first))
	require.NoError(t, resend(m.owner.in(m.id), first))
	require.ErrorContains(t, resend(m.maintainer.in(m.id), first), "This workspace has sent 3 invitations to this address today")
	for _, email := range []string{"a@home.example", "b@home.example", "c@home.example"} {
		_, err = send(m.replica, m.owner.in(m.id), email)
		require.NoError(t, err, "another address")
	}
	m.clock.move(12 * time.Hour)
	require.NoError(t, resend(m.owner.in(m.id), first), "a new day")
}

func TestDailyLimitOfServiceAccounts(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	for _, r := range []replica{m.replica, m.other} {
		r.Limit(commands.Daily{ServiceAccounts: 2, Counts: sessions.Daily{DB: m.db}})
	}
	create := func(r replica, by person, name string) (events.ID, error) {
		c := commands.CreateServiceAccount{Meta: by.in(m.id), Account: newID(), Token: bearer.NewServiceToken(), Name: name,
			Scopes: []events.Scope{events.ReadAPI}}
		_, err := r.CreateServiceAccount(t.Context(), c)
		return c.Account, err
	}
	one, err := create(m.replica, m.owner, "one")
	require.NoError(t, err)
	_, err = create(m.other, m.owner, "one")
	require.ErrorIs(t, err, aggregates.ErrServiceAccountNameUsed, "which counts for nothing")
	_, err = create(m.other, m.owner, "two")
	require.NoError(t, err)
	_, err = m.RevokeServiceAccount(t.Context(), commands.RevokeServiceAccount{Meta: m.owner.in(m.id), Account: one})
	require.NoError(t, err)
	_, err = create(m.replica, m.owner, "three")
	requireWait(t, err, 12*time.Hour)
	_, err = create(m.replica, m.maintainer, "three")
	require.NoError(t, err, "another person")
}

// If a caller goes away while their command is counted, the count is given back.
func TestQuotaIsGivenBackIfCallerGoesAway(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	ctx, leave := context.WithCancel(t.Context())
	m.Limit(commands.Daily{Invitations: 1, InvitationsPerAddress: 1, Counts: cancellingCounts{sessions.Daily{DB: m.db}, leave}})
	before := m.head(t, m.id)
	send := commands.SendInvitation{Meta: m.owner.in(m.id), Invitation: newID(), Email: "a@home.example", Role: events.Viewer}
	_, err := m.SendInvitation(ctx, send)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, before, m.head(t, m.id))
	_, err = m.SendInvitation(t.Context(), send)
	require.NoError(t, err)
}

// cancellingCounts counts while its caller goes away: the database has counted, but a call that
// depends on the caller's context does not learn of it.
type cancellingCounts struct {
	sessions.Daily
	leave func()
}

func (d cancellingCounts) Take(ctx context.Context, subject events.ID, what string, day time.Time, most int) (bool, error) {
	ok, err := d.Daily.Take(context.WithoutCancel(ctx), subject, what, day, most)
	d.leave()
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	return ok, err
}

// Concurrent commands cannot exceed a limit.
func TestDailyLimitUnderConcurrency(t *testing.T) {
	t.Parallel()
	const most, asked = 5, 40
	m := limitedTeam(t, most, 0)
	var made, refused atomic.Int64
	var all sync.WaitGroup
	for i := range asked {
		all.Go(func() {
			w := newID()
			create := commands.CreateWorkspace{Meta: m.nobody.in(w), Member: newID(), Email: m.nobody.email, Name: "One",
				Slug: "one-" + w.String()[24:]}
			_, err := []replica{m.replica, m.other}[i%2].CreateWorkspace(t.Context(), create)
			switch f := fault.As(err); {
			case err == nil:
				made.Add(1)
			case f != nil && f.Kind == fault.RateLimited:
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, most, made.Load())
	require.EqualValues(t, asked-most, refused.Load())
}

// If counting fails, the command is refused.
func TestCommandIsRefusedIfCountingFails(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.Limit(commands.Daily{Invitations: 4, Counts: failingCounts{}})
	before := m.head(t, m.id)
	_, err := m.SendInvitation(t.Context(),
		commands.SendInvitation{Meta: m.owner.in(m.id), Invitation: newID(), Email: "a@home.example", Role: events.Viewer})
	require.ErrorIs(t, err, errCounts)
	require.Equal(t, before, m.head(t, m.id))
	_, err = m.RemoveMember(t.Context(), commands.RemoveMember{Meta: m.owner.in(m.id), Member: m.viewer.member})
	require.NoError(t, err, "the workspace is not held up")
}

var errCounts = errors.New("no count")

type failingCounts struct{ sessions.Daily }

func (failingCounts) Take(context.Context, events.ID, string, time.Time, int) (bool, error) {
	return false, errCounts
}

// Rotations and enrollments store permanent data outside of the workspace's log.
func TestDailyLimitsOfRotationsAndEnrollments(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	account := commands.CreateServiceAccount{
		Meta: m.owner.in(m.id), Account: newID(), Token: bearer.NewServiceToken(), Name: "one", Scopes: []events.Scope{events.ReadAPI},
	}
	_, err := m.CreateServiceAccount(t.Context(), account)
	require.NoError(t, err)
	for _, r := range []replica{m.replica, m.other} {
		r.Limit(commands.Daily{Rotations: 2, Enrollments: 2, Counts: sessions.Daily{DB: m.db}})
	}
	rotate := func(r replica, by person) error {
		_, err := r.RotateServiceAccount(t.Context(), commands.RotateServiceAccount{
			Meta: by.in(m.id), Account: account.Account, Token: bearer.NewServiceToken(),
		})
		return err
	}
	enroll := func(r replica, by person) error {
		mint := m.mintCommand()
		mint.Meta = by.in(m.id)
		_, err := r.MintEnrollment(t.Context(), mint)
		return err
	}
	for name, do := range map[string]func(replica, person) error{"rotations": rotate, "enrollments": enroll} {
		require.NoError(t, do(m.replica, m.owner), name)
		require.NoError(t, do(m.other, m.owner), name)
		requireWait(t, do(m.replica, m.owner), 12*time.Hour)
		require.NoError(t, do(m.other, m.maintainer), name, "another person")
	}
	m.clock.move(12 * time.Hour)
	require.NoError(t, rotate(m.replica, m.owner), "a new day")
	require.NoError(t, enroll(m.replica, m.owner), "a new day")
}
