package store_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/fault"
	"svc/test/pgtest"
)

// A process that vanishes while it holds the log, without its connection being closed, does not
// keep other processes from appending.
func TestVanishedProcessReleasesTheLog(t *testing.T) {
	t.Parallel()
	for name, appendTo := range map[string]func(s *store.Store, c *events.Commit, vanish func()) error{
		"between two round trips": func(s *store.Store, c *events.Commit, _ func()) error {
			_, err := s.Append(t.Context(), c)
			return err
		},
		"while it decides": func(s *store.Store, c *events.Commit, vanish func()) error {
			_, err := s.Exclusively(t.Context(), c.Workspace, func(events.Streams) (*events.Commit, error) {
				vanish()
				return c, nil
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			db := withCounts(t, connect(t, url))
			vanished, back, done := make(chan struct{}, 2), make(chan struct{}), make(chan error, 1)
			comeBack := sync.OnceFunc(func() { close(back) })
			vanish := func() {
				vanished <- struct{}{}
				<-back
			}
			s := open(t, connect(t, url), &view{changes: func([]events.Record) { vanish() }})
			t.Cleanup(comeBack) // before s is closed
			store.SetTimeLimit(s, time.Second)
			w := newID()
			append1(t, open(t, db), commit(w, newID(), 0, "before"))
			go func() { done <- appendTo(s, commit(w, newID(), 0, "vanished"), vanish) }()
			within(t, vanished)
			append1(t, open(t, connect(t, url)), commit(w, newID(), 0, "after"))
			comeBack()
			err := within(t, done)
			require.True(t, errors.Is(err, fault.ErrBusy) || errors.Is(err, events.ErrOutcomeUnknown), err)
			require.Equal(t, []string{"before/0", "after/0"}, marks(log(t, db, w)))
		})
	}
}
