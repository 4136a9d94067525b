package store_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/test/pgtest"
)

// claiming returns a commit to a new stream that claims keys for owner.
func claiming(workspace, owner events.ID, global bool, keys ...string) *events.Commit {
	c := commit(workspace, owner, 0, "claims")
	for _, key := range keys {
		c.Claims = append(c.Claims, events.Claim{Key: key, Owner: owner, Global: global})
	}
	return c
}

func releasing(workspace, owner events.ID, global bool, key string) *events.Commit {
	c := commit(workspace, newID(), 0, "releases")
	c.Releases = []events.Claim{{Key: key, Owner: owner, Global: global}}
	return c
}

func TestClaims(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	ann, bob, cid := newID(), newID(), newID()
	type steps []struct {
		what   string
		commit *events.Commit
		want   error
	}
	for name, story := range map[string]func(here, there events.ID) steps{
		"a key is held once in a workspace": func(here, there events.ID) steps {
			return steps{
				{"Ann takes it", claiming(here, ann, false, "k"), nil},
				{"Bob may not", claiming(here, bob, false, "k"), events.ErrTaken},
				{"Bob takes another", claiming(here, bob, false, "k2"), nil},
				{"Cid takes it elsewhere", claiming(there, cid, false, "k"), nil},
			}
		},
		"a global key is held once at all": func(here, there events.ID) steps {
			return steps{
				{"Ann takes it", claiming(here, ann, true, "a"), nil},
				{"Bob may not", claiming(here, bob, true, "a"), events.ErrTaken},
				{"nor Cid elsewhere", claiming(there, cid, true, "a"), events.ErrTaken},
				{"a workspace's key is another one", claiming(there, cid, false, "a"), nil},
			}
		},
		"a key that was given back is free": func(here, there events.ID) steps {
			return steps{
				{"Ann takes it", claiming(here, ann, false, "k"), nil},
				{"and gives it back", releasing(here, ann, false, "k"), nil},
				{"Bob takes it", claiming(here, bob, false, "k"), nil},
				{"Cid may not", claiming(here, cid, false, "k"), events.ErrTaken},
			}
		},
		"a global key that was given back is free": func(here, there events.ID) steps {
			return steps{
				{"Ann takes it", claiming(here, ann, true, "b"), nil},
				{"and gives it back", releasing(here, ann, true, "b"), nil},
				{"Cid takes it elsewhere", claiming(there, cid, true, "b"), nil},
			}
		},
		"only the owner gives a key back": func(here, there events.ID) steps {
			return steps{
				{"Ann takes one", claiming(here, ann, false, "k"), nil},
				{"Bob gives it back", releasing(here, bob, false, "k"), nil},
				{"which frees nothing", claiming(here, cid, false, "k"), events.ErrTaken},
				{"nor from elsewhere", releasing(there, ann, false, "k"), nil},
				{"where it is another key", claiming(here, cid, false, "k"), events.ErrTaken},
			}
		},
		"only the owner gives a global key back": func(here, there events.ID) steps {
			return steps{
				{"Ann takes one", claiming(here, ann, true, "c"), nil},
				{"Bob gives it back", releasing(here, bob, true, "c"), nil},
				{"which frees nothing", claiming(there, cid, true, "c"), events.ErrTaken},
			}
		},
		"one commit hands a key on": func(here, there events.ID) steps {
			hand := claiming(here, bob, false, "k")
			hand.Releases = []events.Claim{{Key: "k", Owner: ann}}
			return steps{
				{"Ann takes it", claiming(here, ann, false, "k"), nil},
				{"and hands it to Bob", hand, nil},
				{"who holds it", claiming(here, cid, false, "k"), events.ErrTaken},
			}
		},
		"all keys of a commit or none": func(here, there events.ID) steps {
			return steps{
				{"Ann takes one", claiming(here, ann, false, "k2"), nil},
				{"Bob wants three", claiming(here, bob, false, "k1", "k2", "k3"), events.ErrTaken},
				{"Cid takes what he did not get", claiming(here, cid, false, "k1", "k3"), nil},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			here, there := newID(), newID()
			for _, step := range story(here, there) {
				before := head(t, db, step.commit.Workspace)
				_, err := s.Append(t.Context(), step.commit)
				require.ErrorIs(t, err, step.want, step.what)
				if err != nil {
					require.Equal(t, before, head(t, db, step.commit.Workspace), step.what)
				}
			}
		})
	}
}

func TestHolderOfGlobalKey(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	w, ann := newID(), newID()
	append1(t, s, claiming(w, ann, true, "email/ann@acme.example"))
	append1(t, s, claiming(w, newID(), false, "email/bob@acme.example"))

	workspace, owner, err := s.Holder(t.Context(), "email/ann@acme.example")
	require.NoError(t, err)
	require.Equal(t, [2]events.ID{w, ann}, [2]events.ID{workspace, owner})
	workspace, owner, err = s.Holder(t.Context(), "email/bob@acme.example")
	require.NoError(t, err)
	require.Equal(t, [2]events.ID{}, [2]events.ID{workspace, owner}, "the keys of workspaces are not global")
}

func TestOnlyTheCommitAtFaultGetsErrTaken(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	here, there := newID(), newID()
	append1(t, s, claiming(here, newID(), false, "old"))
	outcomes := store.CommitTogether(s,
		claiming(here, newID(), false, "a"),
		claiming(here, newID(), false, "b"),
		claiming(here, newID(), false, "a"), // a second claim in the batch
		claiming(there, newID(), false, "a"),
		claiming(here, newID(), false, "old"), // held before the batch
		claiming(here, newID(), true, "g"),
		claiming(there, newID(), true, "g"), // a second claim in the batch
		commit(here, newID(), 3, "conflict"),
		claiming(here, newID(), false, "c"),
	)
	var got []error
	for _, o := range outcomes {
		got = append(got, o.Err)
	}
	want := []error{nil, nil, events.ErrTaken, nil, events.ErrTaken, nil, events.ErrTaken, events.ErrConflict, nil}
	for i := range want {
		require.ErrorIs(t, got[i], want[i], "commit %d", i)
	}
	require.EqualValues(t, 1+4, head(t, db, here))
	require.EqualValues(t, 1, head(t, db, there))
}

// Sixteen workspaces in two processes claim the same global key.
func TestOneOfManyGetsAGlobalKey(t *testing.T) {
	t.Parallel()
	_, stores := replicas(t)
	for round := range 10 {
		key := fmt.Sprintf("slug/%d", round)
		errs := make([]error, 16)
		owners := make([]events.ID, len(errs))
		var all sync.WaitGroup
		for i := range errs {
			owners[i] = newID()
			all.Go(func() { _, errs[i] = stores[i%2].Append(t.Context(), claiming(newID(), owners[i], true, key)) })
		}
		all.Wait()
		_, holder, err := stores[0].Holder(t.Context(), key)
		require.NoError(t, err)
		for i, err := range errs {
			if owners[i] == holder {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, events.ErrTaken)
			}
		}
	}
}

// Claims and releases of the same keys, named in different orders, must not wait for each
// other in a circle.
func TestGlobalKeysDoNotDeadlock(t *testing.T) {
	t.Parallel()
	_, stores := replicas(t)
	places := [2]events.ID{newID(), newID()}
	for round := range 40 {
		x, y := fmt.Sprintf("x%d", round), fmt.Sprintf("y%d", round)
		owners := [2]events.ID{newID(), newID()}
		errs := race(func(i int) error {
			keys := [2][]string{{x, y}, {y, x}}[i]
			_, err := stores[i].Append(t.Context(), claiming(places[i], owners[i], true, keys...))
			return err
		})
		requireOneTaken(t, errs)
	}
	for round := range 40 { // each holds one key and tries to exchange it for the other's
		mine := [2]string{fmt.Sprintf("v%d", round), fmt.Sprintf("w%d", round)}
		owners := [2]events.ID{newID(), newID()}
		for i := range owners {
			append1(t, stores[i], claiming(places[i], owners[i], true, mine[i]))
		}
		errs := race(func(i int) error {
			c := commit(places[i], owners[i], 1, "swaps")
			c.Releases = []events.Claim{{Key: mine[i], Owner: owners[i], Global: true}}
			c.Claims = []events.Claim{{Key: mine[1-i], Owner: owners[i], Global: true}}
			_, err := stores[i].Append(t.Context(), c)
			return err
		})
		for _, err := range errs {
			require.ErrorIs(t, err, events.ErrTaken)
		}
	}
}

// race calls do twice at the same time.
func race(do func(i int) error) (errs [2]error) {
	var both sync.WaitGroup
	for i := range errs {
		both.Go(func() { errs[i] = do(i) })
	}
	both.Wait()
	return errs
}

func requireOneTaken(t *testing.T, errs [2]error) {
	t.Helper()
	if errs[0] == nil {
		require.ErrorIs(t, errs[1], events.ErrTaken)
		return
	}
	require.ErrorIs(t, errs[0], events.ErrTaken)
	require.NoError(t, errs[1])
}
