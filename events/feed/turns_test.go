package feed

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/test/pgtest"
)

// However many callers there are, one runs at a time, and for half of the time at most.
func TestTurnsUseHalfOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many, turns, took = 12, 10, 5 * time.Millisecond
		p, begun := newTurns(), time.Now()
		var under, most, done int // changed by one goroutine at a time: the race detector would notice otherwise
		var last time.Time
		var group sync.WaitGroup
		for range many {
			group.Go(func() {
				for range turns {
					err := p.run(t.Context(), func() error {
						if done > 0 {
							assert.GreaterOrEqual(t, time.Since(last), took)
						}
						under++
						most = max(most, under)
						<-time.After(took)
						under--
						done++
						last = time.Now()
						return nil
					})
					assert.NoError(t, err)
				}
			})
		}
		group.Wait()
		require.Equal(t, many*turns, done)
		require.Equal(t, 1, most)
		require.Equal(t, (2*many*turns-1)*took, time.Since(begun))
	})
}

func TestCancelledWaiterReleasesTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTurns()
		broken := errors.New("broken")
		require.ErrorIs(t, p.run(t.Context(), func() error { <-time.After(time.Second); return broken }), broken)
		never := func() error { assert.Fail(t, "it had left"); return nil }
		for range 3 { // one of them waits for the time, the others for it
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			go func() { assert.ErrorIs(t, p.run(ctx, never), context.DeadlineExceeded) }()
		}
		synctest.Wait()
		begun := time.Now()
		require.NoError(t, p.run(t.Context(), func() error { return nil }))
		require.Equal(t, time.Second, time.Since(begun), "the pause is no shorter")
	})
}

// While the turn is taken, watchers that are far behind wait, and those near the head read
// on.
func TestOnlyWatchersFarBehindTakeTurns(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	workspace, head := events.NewID(time.Now()), int64(2*tailSize)
	lengthen(t, db, workspace, workspace, head)
	feed := New(db, slog.New(slog.DiscardHandler))
	watch := feed.Watch(workspace, nil)
	defer watch.Close()
	_, err := watch.Head(t.Context())
	require.NoError(t, err)

	turn := <-feed.turns // somebody else has the turn
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, seq := range []int64{0, head - tailSize - 1} {
		_, err = watch.After(gone, seq)
		require.Equal(t, context.Canceled, err, "it did not begin to read")
	}
	for _, seq := range []int64{head - 1, head - tailSize} { // within the tail, and just before it
		list, err := watch.After(t.Context(), seq)
		require.NoError(t, err)
		require.Equal(t, seq+1, list[0].Seq)
	}
	feed.turns <- turn
	list, err := watch.After(t.Context(), 0)
	require.NoError(t, err)
	require.Len(t, list, pageSize)
	require.EqualValues(t, 1, list[0].Seq)
}

// Events whose target the caller does not need are not decoded.
func TestFarBehindWatcherDecodesOnlyNounsOfInterest(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	workspace, member := events.NewID(time.Now()), events.NewID(time.Now())
	lengthen(t, db, workspace, member, 2*tailSize)
	feed := New(db, slog.New(slog.DiscardHandler))
	for _, c := range []struct {
		nouns []string
		of    events.Target
	}{
		{[]string{"run", "decision"}, events.Target{Type: "member", ID: workspace}},
		{[]string{"member", "run"}, events.Target{Type: "member", ID: member}},
	} {
		watch := feed.Watch(workspace, c.nouns)
		_, err := watch.Head(t.Context())
		require.NoError(t, err)
		list, err := watch.After(t.Context(), 0)
		require.NoError(t, err)
		require.Equal(t, events.Target{Type: "run", ID: workspace}, list[0].Target)
		require.Equal(t, c.of, list[1].Target)
		watch.Close()
	}
}

// lengthen makes a log in which every second event is about the member.
func lengthen(t *testing.T, db *pgxpool.Pool, workspace, member events.ID, head int64) {
	t.Helper()
	for _, sql := range []string{`insert into logs values ($1::uuid, $2::bigint, now())`, `
		insert into events (workspace_id, seq, id, stream, version, kind, schema, at, meta, data)
		select $1::uuid, n, md5($1::uuid::text || n)::uuid, $1::uuid, n, case n % 2
			when 0 then 'member.left' else 'decision.raised' end, 1, now(), '{}',
			'{"memberId":"` + member.String() + `","role":"Viewer"}'
		from generate_series(1, $2::bigint) n`} {
		_, err := db.Exec(t.Context(), sql, workspace, head)
		require.NoError(t, err)
	}
}
