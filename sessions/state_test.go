package sessions

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"svc/test/pgtest"
)

var underway = State{
	Provider: "github", Verifier: "a verifier", CallbackURL: "/inbox", ErrorCallbackURL: "/sorry", NewUserURL: "/welcome",
}

// begun is a sign-in under way, with the text that identifies it.
func begun(t *testing.T) (States, *clock) {
	c := &clock{noon}
	s := States{DB: pgtest.New(t), Now: c.now}
	require.NoError(t, s.Begin(testContext(t), "random", underway))
	return s, c
}

func (s States) requireTaken(t *testing.T, random string, want bool) {
	t.Helper()
	got, ok, err := s.Take(testContext(t), random)
	require.NoError(t, err)
	require.Equal(t, want, ok)
	if want {
		require.Equal(t, underway, got)
	}
}

func TestSignInStateIsUsedOnce(t *testing.T) {
	t.Parallel()
	s, _ := begun(t)
	s.requireTaken(t, "another", false)
	s.requireTaken(t, "", false)
	s.requireTaken(t, "random", true)
	s.requireTaken(t, "random", false)
}

func TestConcurrentUseOfSignInState(t *testing.T) {
	t.Parallel()
	s, _ := begun(t)
	var taken atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			_, ok, err := s.Take(testContext(t), "random")
			assert.NoError(t, err)
			if ok {
				taken.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, taken.Load())
}

func TestSignInStateExpiresAfterTenMinutes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after time.Duration
		ok    bool
	}{
		"a second before": {10*time.Minute - time.Second, true},
		"at the end":      {10 * time.Minute, false},
		"a second after":  {10*time.Minute + time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, clock := begun(t)
			clock.at = noon.Add(c.after)
			s.requireTaken(t, "random", c.ok)
			clock.at = noon
			s.requireTaken(t, "random", false) // an expired one is consumed too
		})
	}
}

func TestSignInStateIsCreatedOnce(t *testing.T) {
	t.Parallel()
	s, _ := begun(t)
	other := underway
	other.CallbackURL = "/elsewhere"
	require.Error(t, s.Begin(testContext(t), "random", other), "the same text again")
	s.requireTaken(t, "random", true)
}

func TestUnusedStatesAreDeleted(t *testing.T) {
	t.Parallel()
	s, clock := begun(t)
	rows := func() (n int) {
		require.NoError(t, s.DB.QueryRow(testContext(t), `select count(*) from oauth_states`).Scan(&n))
		return n
	}
	clock.at = noon.Add(70*time.Minute - time.Second)
	require.NoError(t, s.Begin(testContext(t), "second", underway))
	require.Equal(t, 2, rows())
	clock.at = noon.Add(70 * time.Minute)
	require.NoError(t, s.Begin(testContext(t), "third", underway))
	require.Equal(t, 2, rows())
	s.requireTaken(t, "second", true)
}

// After a sign-in is over, its error URL is known for an hour, and nothing that could be
// used to sign in.
func TestErrorURLOfSignIn(t *testing.T) {
	t.Parallel()
	s, clock := begun(t)
	where := func(random string) string {
		t.Helper()
		address, known, err := s.ErrorURL(testContext(t), random)
		require.NoError(t, err)
		require.Equal(t, random == "random", known)
		return address
	}
	require.Equal(t, "/sorry", where("random"))
	require.Empty(t, where("another"))
	s.requireTaken(t, "random", true) // looking does not consume it

	again, ok, err := s.Take(testContext(t), "random")
	require.NoError(t, err)
	require.False(t, ok)
	require.Equal(t, State{ErrorCallbackURL: "/sorry"}, again)
	unknown, ok, err := s.Take(testContext(t), "another")
	require.NoError(t, err)
	require.False(t, ok)
	require.Zero(t, unknown)

	clock.at = noon.Add(10 * time.Minute)
	require.Equal(t, "/sorry", where("random"))
	var row string
	require.NoError(t, s.DB.QueryRow(testContext(t), `select oauth_states::text from oauth_states`).Scan(&row))
	require.NotContains(t, row, underway.Verifier)
}

// Reading the table is not enough to continue a sign-in.
func TestTableHasHashOfState(t *testing.T) {
	t.Parallel()
	s, _ := begun(t)
	var row string
	require.NoError(t, s.DB.QueryRow(testContext(t), `select oauth_states::text from oauth_states`).Scan(&row))
	require.NotContains(t, row, "random")
}
