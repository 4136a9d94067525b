package commands_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
)

// race does two things at the same moment.
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

// A role that is taken away through one replica is gone in the other, which
// has the old one in memory.
func TestARoleTakenAwayInOneReplicaIsGoneInTheOther(t *testing.T) {
	t.Parallel()
	sys := newSystem(t)
	for name, test := range map[string]struct {
		take func(m *team) error
		want error
	}{
		"demoted": {func(m *team) error {
			_, err := m.UpdateMember(t.Context(), commands.UpdateMember{Order: m.owner.in(m.id), Member: m.maintainer.member, Role: ptr(events.Viewer)})
			return err
		}, aggregates.ErrRoleRequired},
		"removed": {func(m *team) error {
			_, err := m.RemoveMember(t.Context(), commands.RemoveMember{Order: m.owner.in(m.id), Member: m.maintainer.member})
			return err
		}, fault.ErrTenantNotFound},
		"gone": {func(m *team) error {
			_, err := m.RemoveMember(t.Context(), commands.RemoveMember{Order: m.maintainer.in(m.id), Member: m.maintainer.member})
			return err
		}, fault.ErrTenantNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			m := sys.team(t)
			account, token := m.account(t, "ci-bot")
			_, err := m.other.RotateServiceAccount(t.Context(), rotate(m.maintainer, m.id, account)) // the other remembers both streams now
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
			_, err = m.other.UpdateMember(t.Context(), commands.UpdateMember{Order: m.maintainer.in(m.id), Member: m.viewer.member, Role: ptr(events.Maintainer)})
			require.ErrorIs(t, err, test.want)
			require.Equal(t, before, m.head(t, m.id))
		})
	}
}

// And a role that was given is there: a refusal out of an old memory is not
// the last word.
func TestARoleGivenInOneReplicaCountsInTheOther(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	_, err := m.other.CreateServiceAccount(t.Context(), create(m.viewer, m.id, "one"))
	require.ErrorIs(t, err, aggregates.ErrRoleRequired)
	_, err = m.UpdateMember(t.Context(), commands.UpdateMember{Order: m.owner.in(m.id), Member: m.viewer.member, Role: ptr(events.Maintainer)})
	require.NoError(t, err)
	_, err = m.other.CreateServiceAccount(t.Context(), create(m.viewer, m.id, "one"))
	require.NoError(t, err)
}

// An administrator is demoted in one replica while they create an account in
// the other: the account is there only if it was before the demotion.
func TestADemotionAndACreationAtTheSameMoment(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	for range 25 {
		name := "bot-" + newID().String()[24:]
		errs := race(func(i int) error {
			if i == 0 {
				_, err := m.UpdateMember(t.Context(), commands.UpdateMember{Order: m.owner.in(m.id), Member: m.maintainer.member, Role: ptr(events.Viewer)})
				return err
			}
			_, err := m.other.CreateServiceAccount(t.Context(), create(m.maintainer, m.id, name))
			return err
		})
		require.NoError(t, errs[0])
		last := m.history(t, m.id, m.head(t, m.id))[0]
		if errs[1] == nil {
			require.Equal(t, "member.role_changed", last.Kind(), "created after the demotion")
		} else {
			require.ErrorIs(t, errs[1], aggregates.ErrRoleRequired)
		}
		_, err := m.other.UpdateMember(t.Context(), commands.UpdateMember{Order: m.owner.in(m.id), Member: m.maintainer.member, Role: ptr(events.Maintainer)})
		require.NoError(t, err)
	}
}

// Two Owners demote each other, or leave, through different replicas.
func TestThereIsAlwaysAnOwner(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	ann, bob := m.owner, m.maintainer
	m.promote(t, ann, bob)
	for round := range 200 {
		errs := race(func(i int) error {
			replica := []replica{m.replica, m.other}[i]
			by, whom := []person{ann, bob}[i], []person{bob, ann}[i]
			if round%4 == 3 { // both step down of their own accord
				whom = by
			}
			_, err := replica.UpdateMember(t.Context(), commands.UpdateMember{Order: by.in(m.id), Member: whom.member, Role: ptr(events.Viewer)})
			return err
		})
		owners := 0
		for _, role := range m.roles(t, m.id) {
			if role == events.Owner {
				owners++
			}
		}
		require.Equal(t, 1, owners, "round %d", round)
		if round%4 == 3 {
			requireOne(t, errs, aggregates.ErrLastOwner)
		} else {
			requireOne(t, errs, aggregates.ErrRoleRequired)
		}
		if m.roles(t, m.id)[ann.user] == events.Owner {
			m.promote(t, ann, bob)
		} else {
			m.promote(t, bob, ann)
		}
	}
}

func (m *team) promote(t *testing.T, by, whom person) {
	t.Helper()
	_, err := m.UpdateMember(t.Context(), commands.UpdateMember{Order: by.in(m.id), Member: whom.member, Role: ptr(events.Owner)})
	require.NoError(t, err)
}

// Thirty rotations of one account in two replicas: each replaces the token of
// the one before, and the last one's is the only current one.
func TestRotationsInTwoReplicasFollowEachOther(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	account, token := m.account(t, "ci-bot")
	tokens := []commands.ServiceToken{token}
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
