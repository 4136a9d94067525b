package commands_test

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
)

func TestCreationWithIdempotencyKeyHappensOnce(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	send := func(r replica, key, name string) (commands.CreateServiceAccount, commands.Result, error) {
		c := create(m.owner, m.id, name) // each with its own id and token
		c.Key = key
		done, err := r.CreateServiceAccount(t.Context(), c)
		return c, done, err
	}
	before := m.head(t, m.id)
	first, done, err := send(m.replica, "k1", "ci-bot")
	require.NoError(t, err)
	require.False(t, done.Replayed)
	for _, r := range []replica{m.replica, m.other} {
		again, done, err := send(r, "k1", "ci-bot")
		require.NoError(t, err)
		require.True(t, done.Replayed)
		require.Equal(t, before+1, done.Position)
		var answer commands.AccountAnswer
		require.NoError(t, json.Unmarshal(done.Answer, &answer))
		require.Equal(t, first.Account, answer.Account)
		require.Equal(t, "unknown", m.status(t, again.Token), "the token of the repetition opens nothing")

		_, _, err = send(r, "k1", "another")
		require.ErrorIs(t, err, commands.ErrKeyReused)
		_, _, err = send(r, "k2", "ci-bot")
		require.ErrorIs(t, err, aggregates.ErrServiceAccountNameUsed, "another request")
		_, _, err = send(r, "", "ci-bot")
		require.ErrorIs(t, err, aggregates.ErrServiceAccountNameUsed, "no key at all")
	}
	require.Equal(t, "current", m.status(t, first.Token))
	require.Len(t, m.history(t, m.id, before+1), 1)

	_, done, err = send(m.replica, "k2", "another") // a command that was refused can be sent again under its key
	require.NoError(t, err)
	require.False(t, done.Replayed)
}

func TestRotationWithIdempotencyKeyHappensOnce(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	account, _ := m.account(t, "ci-bot")
	another, _ := m.account(t, "another")
	first := rotate(m.owner, m.id, account)
	first.Key = "k"
	done, err := m.RotateServiceAccount(t.Context(), first)
	require.NoError(t, err)
	position := done.Position
	for _, r := range []replica{m.replica, m.other} {
		again := rotate(m.owner, m.id, account)
		again.Key = "k"
		done, err := r.RotateServiceAccount(t.Context(), again)
		require.NoError(t, err)
		require.True(t, done.Replayed)
		require.Equal(t, position, done.Position)
		require.Equal(t, "current", m.status(t, first.Token), "it was not rotated again")

		other := rotate(m.owner, m.id, another)
		other.Key = "k"
		_, err = r.RotateServiceAccount(t.Context(), other)
		require.ErrorIs(t, err, commands.ErrKeyReused)
		created := create(m.owner, m.id, "third")
		created.Key = "k"
		_, err = r.CreateServiceAccount(t.Context(), created)
		require.ErrorIs(t, err, commands.ErrKeyReused, "another command")
	}
	theirs := rotate(m.maintainer, m.id, account) // the same key, but of another person
	theirs.Key = "k"
	done, err = m.RotateServiceAccount(t.Context(), theirs)
	require.NoError(t, err)
	require.False(t, done.Replayed)
	require.Equal(t, "rotated", m.status(t, first.Token))
}

// The stored answer is returned although the account has been revoked by then.
func TestRepetitionIsAnsweredAfterRevocation(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	account, _ := m.account(t, "ci-bot")
	first := rotate(m.owner, m.id, account)
	first.Key = "k"
	_, err := m.RotateServiceAccount(t.Context(), first)
	require.NoError(t, err)
	_, err = m.other.RevokeServiceAccount(t.Context(), revoke(m.owner, m.id, account))
	require.NoError(t, err)
	done, err := m.RotateServiceAccount(t.Context(), first)
	require.NoError(t, err)
	require.True(t, done.Replayed)
}

// Clients send the same request again before the first is answered, to either replica.
func TestConcurrentRepetitions(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	const times = 8
	many := func(t *testing.T, send func(r replica) (commands.Result, error)) {
		t.Helper()
		before := m.head(t, m.id)
		done, errs := make([]commands.Result, times), make([]error, times)
		var all sync.WaitGroup
		for i := range times {
			all.Go(func() { done[i], errs[i] = send([]replica{m.replica, m.other}[i%2]) })
		}
		all.Wait()
		first := 0
		for i := range times {
			require.NoError(t, errs[i])
			require.Equal(t, before+1, done[i].Position)
			if !done[i].Replayed {
				first++
			}
		}
		require.Equal(t, 1, first)
		require.Equal(t, before+1, m.head(t, m.id))
	}
	for range 5 {
		name, key := "bot-"+newID().String()[24:], newID().String()
		var account events.ID
		var mu sync.Mutex
		many(t, func(r replica) (commands.Result, error) {
			c := create(m.owner, m.id, name)
			c.Key = key
			done, err := r.CreateServiceAccount(t.Context(), c)
			if err == nil && !done.Replayed {
				mu.Lock()
				defer mu.Unlock()
				account = c.Account
			}
			return done, err
		})
		many(t, func(r replica) (commands.Result, error) {
			c := rotate(m.owner, m.id, account)
			c.Key = key + "-rotate"
			return r.RotateServiceAccount(t.Context(), c)
		})
		many(t, func(r replica) (commands.Result, error) { // the first one makes all others impossible
			c := revoke(m.owner, m.id, account)
			c.Key = key + "-revoke"
			return r.RevokeServiceAccount(t.Context(), c)
		})
	}
}
