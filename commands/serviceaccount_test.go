package commands_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/commands/bearer"
	"svc/events"
	"svc/fault"
	"svc/projections"
)

// create returns somebody's command for a service account.
func create(by person, workspace events.ID, name string, scopes ...events.Scope) commands.CreateServiceAccount {
	if scopes == nil {
		scopes = []events.Scope{events.ReadAPI}
	}
	return commands.CreateServiceAccount{
		Meta: by.in(workspace), Account: newID(), Token: bearer.NewServiceToken(), Name: name, Scopes: scopes,
	}
}

func rotate(by person, workspace, account events.ID) commands.RotateServiceAccount {
	return commands.RotateServiceAccount{Meta: by.in(workspace), Account: account, Token: bearer.NewServiceToken()}
}

func revoke(by person, workspace, account events.ID) commands.RevokeServiceAccount {
	return commands.RevokeServiceAccount{Meta: by.in(workspace), Account: account}
}

// status returns what a token gives access to now.
func (s *system) status(t *testing.T, token bearer.ServiceToken) string {
	t.Helper()
	found, err := projections.ServiceAccounts{DB: s.db}.Tokens(t.Context(), []events.Fingerprint{token.Fingerprint()})
	require.NoError(t, err)
	known, ok := found[token.Fingerprint()]
	if !ok {
		return "unknown"
	}
	return known.Status
}

func TestServiceAccountLifecycle(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	before := m.head(t, m.id)
	c := create(m.maintainer, m.id, "ci-bot", events.SubmitJobs, events.ReadAPI, events.SubmitJobs)
	scopes := []events.Scope{events.ReadAPI, events.SubmitJobs}
	done, err := m.CreateServiceAccount(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, commands.Result{Position: before + 1}, done)
	first := c.Token
	require.Equal(t, "current", m.status(t, first))

	r := rotate(m.owner, m.id, c.Account)
	done, err = m.RotateServiceAccount(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, before+2, done.Position)
	require.Equal(t, "rotated", m.status(t, first))
	require.Equal(t, "current", m.status(t, r.Token))

	_, err = m.other.RevokeServiceAccount(t.Context(), revoke(m.maintainer, m.id, c.Account))
	require.NoError(t, err)
	require.Equal(t, "rotated", m.status(t, first))
	require.Equal(t, "revoked", m.status(t, r.Token))
	require.Equal(t, "unknown", m.status(t, bearer.NewServiceToken()))

	m.requireAdded(t, m.id, before,
		events.ServiceAccountCreated{Account: c.Account, Name: "ci-bot", Scopes: scopes, Fingerprint: first.Fingerprint(), Tail: first.Tail()},
		events.ServiceAccountRotated{
			Account: c.Account, Name: "ci-bot", Scopes: scopes, From: first.Fingerprint(), FromTail: first.Tail(),
			Fingerprint: r.Token.Fingerprint(), Tail: r.Token.Tail(),
		},
		events.ServiceAccountRevoked{
			Account: c.Account, Name: "ci-bot", Fingerprint: r.Token.Fingerprint(), Tail: r.Token.Tail(), KeepsName: true,
		})
}

func TestServiceAccountRefusals(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	active, _ := m.account(t, "active")
	revoked, _ := m.account(t, "revoked")
	_, err := m.RevokeServiceAccount(t.Context(), revoke(m.owner, m.id, revoked))
	require.NoError(t, err)
	elsewhere := m.team(t)
	foreign, _ := elsewhere.account(t, "foreign")
	run := m.queue(t, 1)

	for name, test := range map[string]struct {
		ask  func(context.Context) (commands.Result, error)
		want error
	}{
		"create: a Viewer":         {m.creates(create(m.viewer, m.id, "new")), aggregates.ErrRoleRequired},
		"create: the legacy role":  {m.creates(create(m.old, m.id, "new")), aggregates.ErrRoleRequired},
		"create: a stranger":       {m.creates(create(m.nobody, m.id, "new")), fault.ErrTenantNotFound},
		"create: no workspace":     {m.creates(create(m.owner, newID(), "new")), fault.ErrTenantNotFound},
		"create: a name in use":    {m.creates(create(m.owner, m.id, "active")), aggregates.ErrServiceAccountNameUsed},
		"create: no name":          {m.creates(create(m.owner, m.id, "")), fault.ErrValidation},
		"create: no scope":         {m.creates(create(m.owner, m.id, "new", []events.Scope{}...)), fault.ErrValidation},
		"create: an unknown scope": {m.creates(create(m.owner, m.id, "new2", "root")), fault.ErrValidation},
		"rotate: a Viewer":         {m.rotates(rotate(m.viewer, m.id, active)), aggregates.ErrRoleRequired},
		"rotate: a stranger":       {m.rotates(rotate(m.nobody, m.id, active)), fault.ErrTenantNotFound},
		"rotate: none":             {m.rotates(rotate(m.owner, m.id, newID())), aggregates.ErrNoServiceAccount},
		"rotate: another team's":   {m.rotates(rotate(m.owner, m.id, foreign)), aggregates.ErrNoServiceAccount},
		"rotate: a revoked one":    {m.rotates(rotate(m.owner, m.id, revoked)), aggregates.ErrServiceAccountRevoked},
		"rotate: the workspace":    {m.rotates(rotate(m.owner, m.id, m.id)), aggregates.ErrNoServiceAccount},
		"rotate: a run":            {m.rotates(rotate(m.owner, m.id, run)), aggregates.ErrNoServiceAccount},
		"rotate: a member":         {m.rotates(rotate(m.owner, m.id, m.viewer.member)), aggregates.ErrNoServiceAccount},
		"revoke: a Viewer":         {m.revokes(revoke(m.viewer, m.id, active)), aggregates.ErrRoleRequired},
		"revoke: none":             {m.revokes(revoke(m.owner, m.id, newID())), aggregates.ErrNoServiceAccount},
		"revoke: a revoked one":    {m.revokes(revoke(m.owner, m.id, revoked)), aggregates.ErrServiceAccountRevoked},
		"revoke: the workspace":    {m.revokes(revoke(m.owner, m.id, m.id)), aggregates.ErrNoServiceAccount},
		"revoke: a run":            {m.revokes(revoke(m.owner, m.id, run)), aggregates.ErrNoServiceAccount},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			before := m.head(t, m.id)
			_, err := test.ask(ctx)
			require.ErrorIs(t, err, test.want)
			if test.want != nil {
				m.requireAdded(t, m.id, before)
			}
		})
	}
	_, err = m.CreateServiceAccount(t.Context(), create(m.owner, m.id, "after-all")) // no lock is left
	require.NoError(t, err)
}

func (r replica) creates(c commands.CreateServiceAccount) func(context.Context) (commands.Result, error) {
	return func(ctx context.Context) (commands.Result, error) { return r.CreateServiceAccount(ctx, c) }
}

func (r replica) rotates(c commands.RotateServiceAccount) func(context.Context) (commands.Result, error) {
	return func(ctx context.Context) (commands.Result, error) { return r.RotateServiceAccount(ctx, c) }
}

func (r replica) revokes(c commands.RevokeServiceAccount) func(context.Context) (commands.Result, error) {
	return func(ctx context.Context) (commands.Result, error) { return r.RevokeServiceAccount(ctx, c) }
}

// A name means one account for ever, since records name who acted.
func TestServiceAccountNameIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	elsewhere := m.team(t)
	account, _ := m.account(t, "ci-bot")
	elsewhere.account(t, "ci-bot") // each workspace has its own names
	isTaken := func() {
		t.Helper()
		for _, handler := range []replica{m.replica, m.other} {
			_, err := handler.CreateServiceAccount(t.Context(), create(m.owner, m.id, "ci-bot"))
			require.ErrorIs(t, err, aggregates.ErrServiceAccountNameUsed)
		}
	}
	isTaken()
	_, err := m.other.RotateServiceAccount(t.Context(), rotate(m.owner, m.id, account))
	require.NoError(t, err)
	isTaken()
	_, err = m.other.RevokeServiceAccount(t.Context(), revoke(m.owner, m.id, account))
	require.NoError(t, err)
	isTaken()
}

// Both replicas claim the same name at the same moment.
func TestConcurrentServiceAccountNames(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	for range 20 {
		name := "bot-" + newID().String()[24:]
		errs := race(func(i int) error {
			_, err := []replica{m.replica, m.other}[i].CreateServiceAccount(t.Context(), create(m.owner, m.id, name))
			return err
		})
		requireOne(t, errs, aggregates.ErrServiceAccountNameUsed)
	}
}

func TestStaleTokenUseIsRecordedHourly(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	account, token := m.account(t, "ci-bot")
	_, err := m.RotateServiceAccount(t.Context(), rotate(m.owner, m.id, account))
	require.NoError(t, err)
	note := func(r replica) error {
		_, err := r.NoteStaleToken(t.Context(), commands.NoteStaleToken{Meta: systems(m.id), Account: account, Tail: token.Tail()})
		return err
	}
	before := m.head(t, m.id)
	var want []events.Event
	for _, step := range []struct {
		after    time.Duration // since the previous use
		recorded bool
	}{
		{time.Minute, true}, {0, false}, {time.Minute, false}, {59*time.Minute - 1, false}, {1, true}, {time.Hour - 1, false},
		{10 * time.Hour, true},
	} {
		m.clock.move(step.after)
		errs := race(func(i int) error { return note([]replica{m.replica, m.other}[i]) })
		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
		if step.recorded {
			want = append(want, events.ServiceAccountStaleTokenUsed{
				Account: account, Name: "ci-bot", Tail: token.Tail(), UsedAt: m.clock.now().Truncate(time.Millisecond),
			})
		}
		m.requireAdded(t, m.id, before, want...)
	}
	done, err := m.NoteStaleToken(t.Context(), commands.NoteStaleToken{Meta: systems(m.id), Account: newID(), Tail: "none"})
	require.NoError(t, err)
	require.Zero(t, done.Position, "of no account there is nothing to say")
}
