package loop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A tableTest is a table, with two processes that work on it.
type tableTest struct {
	t *testing.T
	table
}

var ours, acme, globex, web, mine, yours = id(101), id(102), id(103), id(104), id(105), id(106)

func newTable(t *testing.T) tableTest {
	t.Helper()
	t.Parallel()
	return tableTest{t, table{pgtest.New(t)}}
}

func (s tableTest) marks(workspace events.ID, list ...mark) {
	s.t.Helper()
	require.NoError(s.t, s.mark(s.t.Context(), s.db, workspace, list))
}

// claims claims a run of a workspace for a process, and requires that it is that one; nil if there is none.
func (s tableTest) claims(workspace, by, run events.ID) *due {
	s.t.Helper()
	d, err := s.claim(s.t.Context(), workspace, by)
	require.NoError(s.t, err)
	require.NotNil(s.t, d)
	require.Equal(s.t, run, d.Run)
	return d
}

func (s tableTest) claimsNothing(workspace, by events.ID) {
	s.t.Helper()
	d, err := s.claim(s.t.Context(), workspace, by)
	require.NoError(s.t, err)
	require.Nil(s.t, d)
}

func (s tableTest) releases(d *due, by events.ID, after time.Duration, code events.WaitCode) {
	s.t.Helper()
	require.NoError(s.t, s.release(s.t.Context(), d, by, after, code, 0))
}

// passes makes a time pass for all rows.
func (s tableTest) passes(by time.Duration) {
	s.t.Helper()
	_, err := s.db.Exec(s.t.Context(), `update run_steps set due_at = due_at - $1::interval, claimed_until = claimed_until - $1::interval`, by)
	require.NoError(s.t, err)
}

func TestOnlyOneProcessHoldsARun(t *testing.T) {
	s := newTable(t)
	s.marks(acme, mark{Run: id(1), Repo: web})
	d := s.claims(acme, mine, id(1))
	require.Equal(t, &due{Workspace: acme, Run: id(1), Repo: web}, d)
	s.claimsNothing(acme, yours)
	s.releases(d, mine, time.Minute, "")
	s.claimsNothing(acme, yours)
	s.passes(time.Minute)
	s.claims(acme, yours, id(1))
}

func TestRunThatMovesWhileItIsHeldIsDueAgain(t *testing.T) {
	s := newTable(t)
	s.marks(acme, mark{Run: id(1), Repo: web})
	d := s.claims(acme, mine, id(1))
	s.marks(acme, mark{Run: id(1)})
	s.claimsNothing(acme, yours)
	s.releases(d, mine, 0, "")
	require.Equal(t, web, s.claims(acme, yours, id(1)).Repo, "it is known still")
}

func TestRunIsForgottenUnlessSomethingHappenedToIt(t *testing.T) {
	s := newTable(t)
	s.marks(acme, mark{Run: id(1)}, mark{Run: id(2)})
	first, second := s.claims(acme, mine, id(1)), s.claims(acme, mine, id(2))
	s.marks(acme, mark{Run: id(2)})
	for _, d := range []*due{first, second} {
		require.NoError(t, s.remove(t.Context(), d, mine))
		s.releases(d, mine, 0, "")
	}
	s.claims(acme, mine, id(2))
	s.passes(time.Hour)
	s.claimsNothing(acme, mine)
}

func TestClaimsExpire(t *testing.T) {
	s := newTable(t)
	s.marks(acme, mark{Run: id(1), Look: true}, mark{Run: id(2)})
	lost, kept := s.claims(acme, mine, id(1)), s.claims(acme, mine, id(2))
	s.passes(claimTime - time.Second)
	held, err := s.renew(t.Context(), kept, mine)
	require.NoError(t, err)
	require.True(t, held)
	s.passes(2 * time.Second)
	n, err := s.expire(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	s.claims(acme, yours, id(1))
	held, err = s.renew(t.Context(), lost, mine)
	require.NoError(t, err)
	require.False(t, held)
	s.releases(lost, mine, time.Millisecond, "") // says nothing any more
	s.claimsNothing(acme, mine)
}

func TestLookIsAskedForOnce(t *testing.T) {
	s := newTable(t)
	s.marks(acme, mark{Run: id(1), Look: true})
	s.marks(acme, mark{Run: id(1)})
	d := s.claims(acme, mine, id(1))
	require.True(t, d.Look)
	s.releases(d, mine, time.Millisecond, "")
	s.passes(time.Second)
	d = s.claims(acme, mine, id(1))
	require.True(t, d.Look, "nobody has looked")
	d.Look = false
	s.releases(d, mine, time.Millisecond, "")
	s.passes(time.Second)
	require.False(t, s.claims(acme, mine, id(1)).Look)
}

func TestWorkspacesTakeTurns(t *testing.T) {
	s := newTable(t)
	for n := range 100 {
		s.marks(acme, mark{Run: id(200 + n)})
	}
	s.passes(time.Second)
	s.marks(globex, mark{Run: id(1)})
	list, err := s.workspaces(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, []events.ID{acme, globex}, list, "the one that has waited longest first, and both")
	s.claims(globex, mine, id(1))
	list, err = s.workspaces(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, []events.ID{acme}, list)
}

func TestRunsThatWaitAreWoken(t *testing.T) {
	s := newTable(t)
	for n, code := range []events.WaitCode{events.WaitSlot, events.WaitSlot, events.WaitSlot, events.WaitLane, events.WaitHost} {
		s.marks(acme, mark{Run: id(1 + n), Repo: web})
		s.releases(s.claims(acme, mine, id(1+n)), mine, 0, code)
	}
	s.claimsNothing(acme, mine)
	require.NoError(t, s.wake(t.Context(), s.db, acme, []string{"slot", "lane"}, 2))
	s.passes(time.Second)
	var woken []events.ID
	for range 3 {
		d, err := s.claim(t.Context(), acme, mine)
		require.NoError(t, err)
		woken = append(woken, d.Run)
		s.releases(d, mine, 0, "")
	}
	require.Equal(t, []events.ID{id(1), id(2), id(4)}, woken)
	s.claimsNothing(acme, mine)
	require.NoError(t, s.wakeRepo(t.Context(), s.db, globex, web))
	s.claimsNothing(acme, mine)
	require.NoError(t, s.wakeRepo(t.Context(), s.db, acme, web))
	for range 5 {
		d, err := s.claim(t.Context(), acme, mine)
		require.NoError(t, err)
		require.NotNil(t, d)
	}
}

func TestFreeSlots(t *testing.T) {
	s := newTable(t)
	for _, key := range []string{
		events.RunSlotKey(1), events.RunSlotKey(2), events.RunSlotKey(4), events.RunSlotKey(10), events.RepoSlotKey(web, 3),
	} {
		_, err := s.db.Exec(t.Context(), `insert into unique_keys (workspace_id, key, owner) values ($1, $2, $3)`, acme, key, ours)
		require.NoError(t, err)
	}
	for name, c := range map[string]struct {
		workspace  events.ID
		most, want int
	}{
		"the smallest":        {acme, 100, 3},
		"all are taken":       {acme, 2, 0},
		"of another":          {globex, 2, 1},
		"none is to be given": {globex, 0, 0},
	} {
		free, err := s.freeSlot(t.Context(), c.workspace, events.SlotKeys, c.most)
		require.NoError(t, err)
		require.Equal(t, c.want, free, name)
	}
}
