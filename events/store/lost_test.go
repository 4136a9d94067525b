package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/test/pgtest"
)

// The server closes the connection after the events and before the commit.
func TestConnectionLostBeforeCommit(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := withCounts(t, connect(t, url))
	s := open(t, connect(t, url), &view{writes: func(b *pgx.Batch, _ []events.Record) {
		b.Queue(`select pg_terminate_backend(pg_backend_pid())`)
	}})
	w := newID()
	_, err := s.Append(t.Context(), commit(w, newID(), 0, "lost"))
	require.ErrorIs(t, err, events.ErrOutcomeUnknown)
	requireUntouched(t, db, w)
}

// While no connection can be made, a batch is not split: each commit would wait for a connection of its own.
func TestBatchWithoutConnectionFailsAtOnce(t *testing.T) {
	t.Parallel()
	var dials atomic.Int64
	unreachable, begun, release := errors.New("no route to host"), make(chan struct{}, 1), make(chan struct{})
	s := open(t, connect(t, pgtest.URL(t), func(c *pgxpool.Config) {
		c.ConnConfig.Fallbacks = nil
		c.ConnConfig.DialFunc = func(context.Context, string, string) (net.Conn, error) {
			if dials.Add(1) == 1 {
				begun <- struct{}{}
				<-release // the other commits wait meanwhile
			}
			return nil, unreachable
		}
	}))
	const commits = 60
	var appending, started sync.WaitGroup
	try := func() {
		started.Done()
		_, err := s.Append(t.Context(), commit(newID(), newID(), 0, "unreachable"))
		assert.ErrorIs(t, err, unreachable)
	}
	started.Add(commits)
	appending.Go(try)
	within(t, begun)
	for range commits - 1 {
		appending.Go(try)
	}
	started.Wait()
	close(release)
	appending.Wait()
	require.LessOrEqual(t, dials.Load(), int64(commits))
}

// The answer to the commit is lost. A caller who retries with the same idempotency key
// learns that it was stored.
func TestConnectionLostAfterCommit(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := withCounts(t, connect(t, url))
	var dropCommit atomic.Bool
	broken := connect(t, url, func(c *pgxpool.Config) {
		c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return &deafConn{conn, &dropCommit}, err
		}
	})
	s := open(t, broken, &view{changes: func([]events.Record) { dropCommit.Store(true) }})
	w := newID()
	c := commitWithKey(w, newID(), "k", "h", `"done"`)
	_, err := s.Append(t.Context(), c)
	require.ErrorIs(t, err, events.ErrOutcomeUnknown)

	dropCommit.Store(false)
	require.Len(t, log(t, db, w), 1)
	again, err := s.Append(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, events.Committed{Head: 1, Replayed: true, Answer: []byte(`"done"`)}, again)
	require.Len(t, log(t, db, w), 1)
}

// A deafConn receives everything until the server reports the commit.
type deafConn struct {
	net.Conn
	dropCommit *atomic.Bool
}

func (c *deafConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.dropCommit.Load() && bytes.Contains(b[:n], []byte("COMMIT\x00")) {
		return 0, errors.New("the line is dead")
	}
	return n, err
}

// All connections of the store are ended repeatedly while eight writers append. What was
// acknowledged must be in the log once, and what was refused must not.
func TestConnectionsLostWhileManyWrite(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := connect(t, url)
	s := open(t, connect(t, url, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["application_name"] = "victim"
		c.MaxConns = 8
	}))
	const writers, each, every = 8, 25, 9
	workspaces := []events.ID{newID(), newID(), newID()}
	answered := make(chan struct{}) // a writer that was answered waits here while connections are being ended
	var fates [writers]map[string]error
	var all sync.WaitGroup
	for i := range writers {
		fates[i] = map[string]error{}
		all.Go(func() {
			for n := range each {
				mark := fmt.Sprintf("%d.%d", i, n)
				c := commit(workspaces[n%3], newID(), 0, mark)
				c.Writes[0].Events = markedEvents(mark, 2)
				c.Writes = append(c.Writes, events.Write{Stream: newID(), Events: markedEvents(mark+"'", 1)})
				_, fates[i][mark] = s.Append(t.Context(), c)
				answered <- struct{}{}
			}
		})
	}
	ended := make(chan int)
	go func() { ended <- endConnections(t, db, answered, every) }()
	all.Wait()
	close(answered)
	require.GreaterOrEqual(t, within(t, ended), 5, "connections that were ended")

	have := map[string]int{}
	for _, w := range workspaces {
		records := log(t, db, w) // reports missing events
		require.EqualValues(t, len(records), head(t, db, w))
		for _, m := range marks(records) {
			have[m]++
		}
	}
	stored, refused := 0, 0
	for _, fate := range fates {
		for mark, err := range fate {
			a, b, c := have[mark+"/0"], have[mark+"/1"], have[mark+"'/0"]
			switch {
			case err == nil:
				stored++
				require.Equal(t, [3]int{1, 1, 1}, [3]int{a, b, c}, "acknowledged: %s", mark)
			case errors.Is(err, events.ErrOutcomeUnknown):
				require.Equal(t, [2]int{a, a}, [2]int{b, c}, "half a commit: %s", mark)
				require.LessOrEqual(t, a, 1, "twice: %s", mark)
			default:
				refused++
				require.Equal(t, [3]int{}, [3]int{a, b, c}, "refused with %v: %s", err, mark)
			}
		}
	}
	require.Positive(t, stored)
	t.Logf("%d stored, %d refused", stored, refused)
	// One of the pool's connections may still be dead, but not all of them for ever.
	var err error
	for range 20 {
		if _, err = s.Append(t.Context(), commit(workspaces[0], newID(), 0, "the store goes on")); err == nil {
			break
		}
	}
	require.NoError(t, err)
}

// endConnections ends the store's connections each time that a number of answers has come.
func endConnections(t *testing.T, db *pgxpool.Pool, answered <-chan struct{}, every int) (ended int) {
	n := 0
	for range answered {
		if n++; n%every != 0 {
			continue
		}
		var killed int
		err := db.QueryRow(t.Context(), `
			select count(pg_terminate_backend(pid)) from pg_stat_activity
			where application_name = 'victim' and datname = current_database()`).Scan(&killed)
		if !assert.NoError(t, err) {
			return ended
		}
		ended += killed
	}
	return ended
}

// A commit that could not be sent at all is refused with an error that says so.
func TestNoConnectionAtAll(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	away := connect(t, url)
	s := open(t, away)
	away.Close()
	w := newID()
	for _, o := range store.CommitTogether(s, commit(w, newID(), 0, "a"), commit(w, newID(), 0, "b")) {
		require.Error(t, o.Err)
		require.NotErrorIs(t, o.Err, events.ErrOutcomeUnknown)
	}
	requireUntouched(t, connect(t, url), w)
}
