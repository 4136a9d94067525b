package commands_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/aggregates/farm"
	"svc/commands"
	"svc/commands/bearer"
	"svc/events"
	"svc/farm/certificate"
)

// enrollRunner enrols a runner of the team, which can issue its own commands.
func (m *team) enrollRunner(t *testing.T) (runner events.ID, itself commands.Meta) {
	t.Helper()
	mint := m.mintCommand()
	_, err := m.MintEnrollment(t.Context(), mint)
	require.NoError(t, err)
	r, err := m.other.RegisterRunner(t.Context(), commands.RegisterRunner{
		Token: mint.Token, Authority: mint.Authority, Runner: newID(),
		Machine:     farm.Machine{Name: "builder", Hello: hello},
		Certificate: certificate.NewLeaf(mint.Authority.Authority, events.KeyHash{}, epoch),
	})
	require.NoError(t, err)
	require.Equal(t, m.id, r.Workspace)
	return r.Runner, commands.Meta{Workspace: m.id, Envelope: events.Envelope{
		Actor: events.Actor{Type: events.ByRunner, ID: r.Runner, Name: r.Name}, Origin: events.FromFarm,
	}}
}

var hello = farm.Hello{Capacity: 2, Agent: events.Agent{Version: "0.4.0", OS: "linux", Arch: "amd64"}}

func (m *team) mintCommand() commands.MintEnrollment {
	return commands.MintEnrollment{
		Meta: m.owner.in(m.id), Enrollment: newID(), Token: bearer.NewEnrollmentToken(), CapacityLimit: 4, Lasts: time.Hour,
		Authority: events.AuthorityCreated{Authority: events.ID{1, 0x9a, 6: 0x70, 8: 0x80, 15: 53}, Certificate: "PEM"},
	}
}

// Runners may be managed by people with the right, by the runner itself, and by the
// service.
func TestRightToManageRunners(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	runner, itself := m.enrollRunner(t)
	_, other := m.enrollRunner(t)
	drain := func(by commands.Meta) error {
		_, err := m.DrainRunner(t.Context(), commands.DrainRunner{Meta: by, Runner: runner})
		if err == nil {
			_, err = m.other.ResumeRunner(t.Context(), commands.ResumeRunner{Meta: by, Runner: runner})
		}
		return err
	}
	for name, c := range map[string]struct {
		by  commands.Meta
		may bool
	}{
		"Owner": {m.owner.in(m.id), true}, "Maintainer": {m.maintainer.in(m.id), true}, "Viewer": {m.viewer.in(m.id), false},
		"legacy member": {m.old.in(m.id), false}, "nobody": {m.nobody.in(m.id), false},
		"itself": {itself, true}, "another runner": {other, false}, "the service": {systems(m.id), true},
	} {
		err := drain(c.by)
		require.Equal(t, c.may, err == nil, "%s: %v", name, err)
	}
	for _, by := range []person{m.viewer, m.old, m.nobody} {
		mint := m.mintCommand()
		mint.Meta = by.in(m.id)
		_, err := m.MintEnrollment(t.Context(), mint)
		require.Error(t, err)
	}
	_, err := m.DrainRunner(t.Context(), commands.DrainRunner{Meta: m.owner.in(m.id), Runner: newID()})
	require.ErrorIs(t, err, farm.ErrNoRunner)
}

// A drain or revocation that another process has just stored wins over the cached state.
func TestConnectRunnerReadsTheLog(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	runner, itself := m.enrollRunner(t)
	connect := func(r replica) error {
		_, err := r.ConnectRunner(t.Context(), commands.ConnectRunner{Meta: itself, Runner: runner, Hello: hello})
		return err
	}
	require.NoError(t, connect(m.replica))
	require.NoError(t, connect(m.other))
	_, err := m.DisconnectRunner(t.Context(),
		commands.DisconnectRunner{Meta: systems(m.id), Runner: runner, Reason: events.OfflineDisconnected})
	require.NoError(t, err)
	_, err = m.RevokeRunner(t.Context(), commands.RevokeRunner{Meta: m.owner.in(m.id), Runner: runner})
	require.NoError(t, err)
	require.ErrorIs(t, connect(m.other), farm.ErrRunnerOver)
	_, err = m.other.RetireRunner(t.Context(), commands.RetireRunner{Meta: systems(m.id), Runner: runner})
	require.NoError(t, err)

	mint := m.mintCommand()
	_, err = m.MintEnrollment(t.Context(), mint)
	require.NoError(t, err)
	_, err = m.other.WithdrawEnrollment(t.Context(), commands.WithdrawEnrollment{Meta: m.maintainer.in(m.id), Enrollment: mint.Enrollment})
	require.NoError(t, err)
	_, err = m.RegisterRunner(t.Context(), commands.RegisterRunner{
		Token: mint.Token, Authority: mint.Authority, Runner: newID(), Machine: farm.Machine{Name: "late", Hello: hello},
		Certificate: certificate.NewLeaf(mint.Authority.Authority, events.KeyHash{}, epoch),
	})
	require.ErrorIs(t, err, farm.ErrEnrollmentInvalid)
}

// A unique key that leads a token to an enrollment of another token, changed by SQL, makes nobody a runner.
func TestTokenOfAnotherEnrollmentIsInvalid(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	mint, own := m.mintCommand(), bearer.NewEnrollmentToken()
	_, err := m.MintEnrollment(t.Context(), mint)
	require.NoError(t, err)
	_, err = m.db.Exec(t.Context(), `insert into global_keys values ($1, $2, $3)`,
		events.EnrollmentKey(own.Fingerprint()), m.id, mint.Enrollment)
	require.NoError(t, err)
	_, err = m.RegisterRunner(t.Context(), commands.RegisterRunner{
		Token: own, Authority: mint.Authority, Runner: newID(), Machine: farm.Machine{Name: "mine", Hello: hello},
		Certificate: certificate.NewLeaf(mint.Authority.Authority, events.KeyHash{}, epoch),
	})
	require.ErrorIs(t, err, farm.ErrEnrollmentInvalid)
}

// The token of a person who may no longer manage runners makes no runner. A machine that it made one before
// can still repeat its registration.
func TestTokenEndsWithRightOfItsMinter(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, m *team){
		"removed": func(t *testing.T, m *team) {
			_, err := m.other.RemoveMember(t.Context(), commands.RemoveMember{Meta: m.owner.in(m.id), Member: m.maintainer.member})
			require.NoError(t, err)
		},
		"demoted": func(t *testing.T, m *team) {
			_, err := m.other.UpdateMember(t.Context(),
				commands.UpdateMember{Meta: m.owner.in(m.id), Member: m.maintainer.member, Role: ptr(events.Viewer)})
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newTeam(t)
			register := func(mint commands.MintEnrollment, key byte) (commands.Registered, error) {
				return m.RegisterRunner(t.Context(), commands.RegisterRunner{
					Token: mint.Token, Authority: mint.Authority, Runner: newID(),
					Machine:     farm.Machine{Name: "builder", Key: events.KeyHash{key}, Hello: hello},
					Certificate: certificate.NewLeaf(mint.Authority.Authority, events.KeyHash{key}, epoch),
				})
			}
			used, open := m.mintCommand(), m.mintCommand()
			for _, mint := range []*commands.MintEnrollment{&used, &open} {
				mint.Meta = m.maintainer.in(m.id)
				_, err := m.MintEnrollment(t.Context(), *mint)
				require.NoError(t, err)
			}
			first, err := register(used, 1)
			require.NoError(t, err)
			end(t, m)
			_, err = register(open, 2)
			require.ErrorIs(t, err, farm.ErrEnrollmentInvalid)
			again, err := register(used, 1)
			require.NoError(t, err)
			require.Equal(t, first.Runner, again.Runner)
		})
	}
}

// A machine that repeats its registration while it renews its certificate does not make both wait for
// each other.
func TestRegistrationAndRenewalAtOnce(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	mint := m.mintCommand()
	_, err := m.MintEnrollment(t.Context(), mint)
	require.NoError(t, err)
	leaf := func() events.Certificate {
		return certificate.NewLeaf(mint.Authority.Authority, events.KeyHash{}, epoch)
	}
	register := func() (commands.Registered, error) {
		return m.RegisterRunner(t.Context(), commands.RegisterRunner{
			Token: mint.Token, Authority: mint.Authority, Runner: newID(), Machine: farm.Machine{Name: "builder", Hello: hello},
			Certificate: leaf(),
		})
	}
	first, err := register()
	require.NoError(t, err)
	const calls = 100
	errs := make(chan error, calls)
	for i := range calls {
		go func() {
			if i%2 == 0 {
				_, err := register()
				errs <- err
				return
			}
			_, _, err := m.RenewCertificate(t.Context(), commands.RenewCertificate{
				Meta: systems(m.id), Runner: first.Runner, Authority: mint.Authority, Shown: first.Certificate.Serial, Certificate: leaf(),
			})
			errs <- err
		}()
	}
	for range calls {
		if err := <-errs; err != nil {
			require.ErrorIs(t, err, farm.ErrRenewalEarly)
		}
	}
}

// What a process reads of a runner does not grow with the number of its connections.
func TestReadsOfRunnerAreBounded(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	runner, itself := m.enrollRunner(t)
	var list []events.Event
	for range 2000 {
		list = append(list, events.RunnerOnline{Runner: runner, Name: "builder", Capacity: 2, Labels: []string{}},
			events.RunnerOffline{Runner: runner, Name: "builder", Reason: events.OfflineDisconnected})
	}
	_, err := m.log.Append(t.Context(), &events.Commit{
		Workspace: m.id, Envelope: itself.Envelope, At: m.clock.now(), Writes: []events.Write{{Stream: runner, Version: 1, Events: list}},
	})
	require.NoError(t, err)
	read := func() int {
		h, r := m.startCountingHandler()
		for range 2 {
			_, err := h.ConnectRunner(t.Context(), commands.ConnectRunner{Meta: itself, Runner: runner, Hello: hello})
			require.NoError(t, err)
			_, err = h.DisconnectRunner(t.Context(), commands.DisconnectRunner{Meta: itself, Runner: runner, Reason: events.OfflineDrained})
			require.NoError(t, err)
		}
		return r.records
	}
	require.Greater(t, read(), 4000)
	require.Less(t, read(), 500)
}

// An overtakenLog lets another command append before its first one.
type overtakenLog struct {
	commands.Log
	other func()
}

func (l *overtakenLog) Append(ctx context.Context, c *events.Commit) (events.Committed, error) {
	if other := l.other; other != nil {
		l.other = nil
		other()
	}
	return l.Log.Append(ctx, c)
}

// The record of a machine that was refused because another one was faster does not name a runner
// that never came to be.
func TestRefusedMachineIsNotTheActor(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	mint := m.mintCommand()
	_, err := m.MintEnrollment(t.Context(), mint)
	require.NoError(t, err)
	register := func(by *commands.Handler, key byte) error {
		meta := commands.Meta{Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "farm"}, Origin: events.FromFarm}}
		_, err := by.RegisterRunner(t.Context(), commands.RegisterRunner{
			Meta: meta, Token: mint.Token, Authority: mint.Authority, Runner: newID(),
			Machine:     farm.Machine{Name: "builder", Key: events.KeyHash{key}, Hello: hello},
			Certificate: certificate.NewLeaf(mint.Authority.Authority, events.KeyHash{key}, epoch),
		})
		return err
	}
	slow := commands.New(&overtakenLog{m.log, func() { require.NoError(t, register(m.other.Handler, 1)) }}, m.clock.now)
	require.ErrorIs(t, register(slow, 2), farm.ErrEnrollmentUsed)
	var actors []string
	for _, r := range m.records(t, m.id, 1) {
		if _, refused := r.Event.(events.EnrollmentRefused); refused {
			actors = append(actors, r.Envelope.Actor.Name)
		}
	}
	require.Equal(t, []string{"farm"}, actors)
}
