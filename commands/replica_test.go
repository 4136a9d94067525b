package commands_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/commands/bearer"
	"svc/events"
	"svc/fault"
)

// race calls do twice at the same time.
func race(do func(i int) error) (errs [2]error) {
	var both sync.WaitGroup
	start := make(chan struct{})
	for i := range errs {
		both.Go(func() {
			<-start
			errs[i] = do(i)
		})
	}
	close(start)
	both.Wait()
	return errs
}

// requireOne requires that one of two succeeded and the other was refused.
func requireOne(t *testing.T, errs [2]error, refusal error) {
	t.Helper()
	if errs[0] != nil {
		errs[0], errs[1] = errs[1], errs[0]
	}
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], refusal)
}

// A role that is taken away through one replica is gone in the other, which has the old one
// in its cache.
func TestRevokedRoleIsGoneInOtherReplica(t *testing.T) {
	t.Parallel()
	sys := newSystem(t)
	for name, test := range map[string]struct {
		take func(m *team) error
		want error
	}{
		"demoted": {func(m *team) error {
			_, err := m.UpdateMember(t.Context(),
				commands.UpdateMember{Meta: m.owner.in(m.id), Member: m.maintainer.member, Role: ptr(events.Viewer)})
			return err
		}, aggregates.ErrRoleRequired},
		"removed": {func(m *team) error {
			_, err := m.RemoveMember(t.Context(), commands.RemoveMember{Meta: m.owner.in(m.id), Member: m.maintainer.member})
			return err
		}, fault.ErrTenantNotFound},
		"gone": {func(m *team) error {
			_, err := m.RemoveMember(t.Context(), commands.RemoveMember{Meta: m.maintainer.in(m.id), Member: m.maintainer.member})
			return err
		}, fault.ErrTenantNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			m := sys.team(t)
			account, token := m.account(t, "ci-bot")
			_, err := m.other.RotateServiceAccount(t.Context(), rotate(m.maintainer, m.id, account)) // the other caches both streams now
			require.NoError(t, err)
			require.Equal(t, "rotated", m.status(t, token))

			require.NoError(t, test.take(m))
			before := m.head(t, m.id)
			_, err = m.other.CreateServiceAccount(t.Context(), create(m.maintainer, m.id, "another"))
			require.ErrorIs(t, err, test.want)
			_, err = m.other.RotateServiceAccount(t.Context(), rotate(m.maintainer, m.id, account))
			require.ErrorIs(t, err, test.want)
			_, err = m.other.RevokeServiceAccount(t.Context(), revoke(m.maintainer, m.id, account))
			require.ErrorIs(t, err, test.want)
			_, err = m.other.UpdateMember(t.Context(),
				commands.UpdateMember{Meta: m.maintainer.in(m.id), Member: m.viewer.member, Role: ptr(events.Maintainer)})
			require.ErrorIs(t, err, test.want)
			m.requireAdded(t, m.id, before)
		})
	}
}

// A role that is given counts at once: a refusal that rests on a stale fold is decided
// again.
func TestGrantedRoleCountsInOtherReplica(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	_, err := m.other.CreateServiceAccount(t.Context(), create(m.viewer, m.id, "one"))
	require.ErrorIs(t, err, aggregates.ErrRoleRequired)
	_, err = m.UpdateMember(t.Context(), commands.UpdateMember{Meta: m.owner.in(m.id), Member: m.viewer.member, Role: ptr(events.Maintainer)})
	require.NoError(t, err)
	_, err = m.other.CreateServiceAccount(t.Context(), create(m.viewer, m.id, "one"))
	require.NoError(t, err)
}

// An administrator is demoted in one replica while they create an account in the other. The
// account exists only if it was created before the demotion.
func TestConcurrentDemotionAndCreation(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	for range 25 {
		name := "bot-" + newID().String()[24:]
		errs := race(func(i int) error {
			if i == 0 {
				_, err := m.UpdateMember(t.Context(),
					commands.UpdateMember{Meta: m.owner.in(m.id), Member: m.maintainer.member, Role: ptr(events.Viewer)})
				return err
			}
			_, err := m.other.CreateServiceAccount(t.Context(), create(m.maintainer, m.id, name))
			return err
		})
		require.NoError(t, errs[0])
		history := m.history(t, m.id, 1)
		last := history[len(history)-1]
		if errs[1] == nil {
			require.Equal(t, "member.role_changed", last.Kind(), "created after the demotion")
		} else {
			require.ErrorIs(t, errs[1], aggregates.ErrRoleRequired)
		}
		_, err := m.other.UpdateMember(t.Context(),
			commands.UpdateMember{Meta: m.owner.in(m.id), Member: m.maintainer.member, Role: ptr(events.Maintainer)})
		require.NoError(t, err)
	}
}

// Two Owners demote or remove each other, step down or leave, at the same moment and
// through different replicas. One Owner must remain.
func TestThereIsAlwaysAnOwner(t *testing.T) {
	t.Parallel()
	sys := newSystem(t)
	type ask = func(m *team, r replica, by, other person) error
	demote := func(m *team, r replica, by, whom person) error {
		_, err := r.UpdateMember(t.Context(), commands.UpdateMember{Meta: by.in(m.id), Member: whom.member, Role: ptr(events.Viewer)})
		return err
	}
	remove := func(m *team, r replica, by, whom person) error {
		_, err := r.RemoveMember(t.Context(), commands.RemoveMember{Meta: by.in(m.id), Member: whom.member})
		return err
	}
	stepDown := func(m *team, r replica, by, _ person) error { return demote(m, r, by, by) }
	leave := func(m *team, r replica, by, _ person) error { return remove(m, r, by, by) }
	for name, test := range map[string]struct {
		ask     [2]ask
		rounds  int
		refused []error // possible errors of the slower one
	}{
		"they demote each other":             {[2]ask{demote, demote}, 200, []error{aggregates.ErrRoleRequired}},
		"they remove each other":             {[2]ask{remove, remove}, 200, []error{fault.ErrTenantNotFound}},
		"they step down":                     {[2]ask{stepDown, stepDown}, 50, []error{aggregates.ErrLastOwner}},
		"they leave":                         {[2]ask{leave, leave}, 200, []error{aggregates.ErrLastOwner}},
		"one leaves and one steps down":      {[2]ask{leave, stepDown}, 50, []error{aggregates.ErrLastOwner}},
		"one leaves, whom the other demotes": {[2]ask{leave, demote}, 50, []error{nil, aggregates.ErrNoMember}}, // nil: leaves as a Viewer
		"one removes the other, who leaves":  {[2]ask{remove, leave}, 50, []error{aggregates.ErrNoMember, fault.ErrTenantNotFound}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := sys.team(t)
			for round := range test.rounds {
				pair := [2]person{newPerson("ann"), newPerson("bob")}
				m.makeOnlyOwners(t, pair)
				errs := race(func(i int) error {
					return test.ask[i](m, []replica{m.replica, m.other}[(i+round)%2], pair[i], pair[1-i])
				})
				m.requireOwners(t, 1)
				if m.owner = pair[0]; m.roles(t, m.id)[m.owner.user] != events.Owner {
					m.owner = pair[1]
				}
				if errs[0] != nil {
					errs[0], errs[1] = errs[1], errs[0]
				}
				require.NoError(t, errs[0], "round %d", round)
				requireAnyOf(t, errs[1], test.refused)
			}
		})
	}
}

// makeOnlyOwners makes two people the only Owners.
func (m *team) makeOnlyOwners(t *testing.T, two [2]person) {
	t.Helper()
	for _, p := range two {
		m.add(t, p, events.Owner)
	}
	_, err := m.RemoveMember(t.Context(), commands.RemoveMember{Meta: m.owner.in(m.id), Member: m.owner.member})
	require.NoError(t, err)
	m.requireOwners(t, 2)
}

// requireOwners requires that there are n Owners.
func (m *team) requireOwners(t *testing.T, n int) {
	t.Helper()
	owners := 0
	for _, role := range m.roles(t, m.id) {
		if role == events.Owner {
			owners++
		}
	}
	require.Equal(t, n, owners)
}

func requireAnyOf(t *testing.T, err error, want []error) {
	t.Helper()
	for _, w := range want {
		if errors.Is(err, w) {
			return
		}
	}
	require.Fail(t, "another outcome", "%v is none of %v", err, want)
}

// Thirty rotations of one account in two replicas: each replaces the token of the previous
// one, and only the last token is valid.
func TestConcurrentRotations(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	account, token := m.account(t, "ci-bot")
	tokens := []bearer.ServiceToken{token}
	var mu sync.Mutex
	for range 15 {
		errs := race(func(i int) error {
			r := rotate(m.owner, m.id, account)
			_, err := []replica{m.replica, m.other}[i].RotateServiceAccount(t.Context(), r)
			mu.Lock()
			defer mu.Unlock()
			tokens = append(tokens, r.Token)
			return err
		})
		require.Equal(t, [2]error{}, errs)
	}
	from := token.Fingerprint()
	for _, e := range m.history(t, m.id, 1) {
		if r, ok := e.(events.ServiceAccountRotated); ok {
			require.Equal(t, from, r.From)
			from = r.Fingerprint
		}
	}
	for _, token := range tokens {
		want := "rotated"
		if token.Fingerprint() == from {
			want = "current"
		}
		require.Equal(t, want, m.status(t, token))
	}
}

// Commands in two replicas use the same streams, some only reading what others write. All
// succeed without reading again what others have written.
func TestReplicasWorkOnTheSameStreams(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	account, _ := m.account(t, "ci-bot")
	var group sync.WaitGroup
	for i, h := range []*commands.Handler{m.Handler, m.other.Handler} {
		for range 4 {
			group.Go(func() {
				for range 10 {
					_, err := h.RotateServiceAccount(t.Context(), rotate(m.owner, m.id, account))
					assert.NoError(t, err)
				}
			})
		}
		group.Go(func() {
			for n := range 20 {
				role := []events.Role{events.Viewer, events.Maintainer}[(n+i)%2]
				_, err := h.UpdateMember(t.Context(), commands.UpdateMember{Meta: m.owner.in(m.id), Member: m.viewer.member, Role: ptr(role)})
				assert.NoError(t, err)
			}
		})
	}
	group.Wait()
}
