package proof

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/follow"
	"svc/events/store"
	"svc/test/pgtest"
)

// inBubble runs a test with fake time, in a world inside the synctest bubble.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	address := pgtest.URL(t)
	synctest.Test(t, func(t *testing.T) {
		db, err := pgxpool.New(t.Context(), address)
		require.NoError(t, err)
		defer db.Close()
		w := &world{db: db, log: store.New(db, nil, func(events.ID, int64) {})}
		defer w.log.Close()
		w.log.Authenticate(ringOf(t, "a"))
		test(t, w)
	})
}

// A verification waits for signatures, and then reports what is unsigned.
func TestVerifyWaitsForSignaturesWithTimeout(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		p, signed, late := w.prover(t), newID(), newID()
		w.append(t, signed, 10)
		catchUp(t, p, signed)
		from := time.Now()
		due, err := Due(t.Context(), w.db, signed)
		require.NoError(t, err)
		require.Empty(t, due)
		require.Zero(t, time.Since(from), "all is signed")

		w.append(t, late, 5)
		due, err = Due(t.Context(), w.db)
		require.NoError(t, err)
		require.Equal(t, map[events.ID]int64{late: 5}, due)
		require.GreaterOrEqual(t, time.Since(from), signingTime)
		require.Less(t, time.Since(from), signingTime+2*maxPollPause)

		time.AfterFunc(time.Second, func() { _, _ = p.takePage(t.Context(), []events.ID{late}) })
		from = time.Now()
		due, err = Due(t.Context(), w.db, signed, late)
		require.NoError(t, err)
		require.Empty(t, due)
		require.Less(t, time.Since(from), 3*time.Second, "it was signed for meanwhile")

		report, err := p.Verify(t.Context(), late, "", nil)
		require.NoError(t, err)
		require.Nil(t, report.Bad)
	})
}

// A log that grows all the time is signed once a second, and at once when somebody verifies it.
func TestLogIsSignedOncePerSecondAndOnVerify(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		p, workspace := w.prover(t), newID()
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { p.Run(ctx) })
		sizes := map[int64]bool{}
		for range 50 {
			w.append(t, workspace, 1)
			p.Moved(workspace, 0)
			time.Sleep(100 * time.Millisecond)
			var size int64
			require.NoError(t, w.db.QueryRow(ctx, `select coalesce(max(size), 0) from proof_checkpoints where workspace_id = $1`,
				workspace).Scan(&size))
			sizes[size] = true
		}
		require.GreaterOrEqual(t, len(sizes), 4)
		require.LessOrEqual(t, len(sizes), 7, "five seconds went by")

		for range 5 {
			w.append(t, workspace, 1)
			from := time.Now()
			report, err := p.Verify(ctx, workspace, "", nil)
			require.NoError(t, err)
			require.Nil(t, report.Bad)
			require.Equal(t, report.Head, report.Size, "nothing is left unsigned")
			require.Less(t, time.Since(from), minSignInterval/10, "at most for a round that is under way")
		}
		stop()
		group.Wait()
	})
}

// A verification signs again if a round that began before the last events is under way.
func TestVerifySignsAfterRoundUnderWay(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		p, workspace := w.prover(t), newID()
		w.append(t, workspace, 10)
		catchUp(t, p, workspace)
		round, err := w.db.Begin(t.Context())
		require.NoError(t, err)
		list, err := follow.LockCheckpoints(t.Context(), round, FollowerName, []events.ID{workspace})
		require.NoError(t, err)
		require.Len(t, list, 1)
		w.append(t, workspace, 1)

		time.AfterFunc(15*time.Millisecond, func() { _ = round.Rollback(t.Context()) })
		from := time.Now()
		report, err := p.Verify(t.Context(), workspace, "", nil)
		require.NoError(t, err)
		require.Nil(t, report.Bad)
		require.EqualValues(t, 11, report.Size)
		require.Less(t, time.Since(from), minSignInterval/10)
	})
}

// A log that nobody signs, because a process that does not exist holds the lease, is reported until somebody does.
func TestOverdueLogIsReported(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		said := &bytes.Buffer{}
		p := New(w.db, ringOf(t, "a"), "svc.example.com", func(string) bool { return false }, slog.New(slog.NewTextHandler(said, nil)))
		workspace := newID()
		w.append(t, workspace, 10)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var group sync.WaitGroup
		group.Go(func() { p.Run(ctx) })
		time.Sleep(signingTime)
		require.Zero(t, p.Overdue())
		require.Zero(t, w.verify(t, workspace).Size)
		time.Sleep(10 * time.Second)
		require.Equal(t, 1, p.Overdue())
		require.Equal(t, 1, strings.Count(said.String(), "level=ERROR"), said)
		require.Contains(t, said.String(), `msg="log has unsigned events" workspace=`+workspace.String()+" head=10 signed=0")
		catchUp(t, w.prover(t), workspace)
		time.Sleep(10 * time.Second)
		require.Zero(t, p.Overdue())
		require.Contains(t, said.String(), "all logs are signed again")
		stop()
		group.Wait()
	})
}

// A checkpoint beyond the head, or a position beyond the head, is overdue too.
func TestLogShorterThanItsCheckpointIsOverdue(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		p, short, ahead := w.prover(t), newID(), newID()
		for _, workspace := range []events.ID{short, ahead} {
			w.append(t, workspace, 10)
			catchUp(t, p, workspace)
		}
		w.exec(t, `update logs set head = 7 where workspace_id = $1`, short)
		w.exec(t, `update checkpoints set seq = 100 where workspace_id = $1`, ahead)
		w.append(t, ahead, 1)
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { p.Run(ctx) })
		time.Sleep(2 * signingTime)
		require.Equal(t, 2, p.Overdue())
		stop()
		group.Wait()
	})
}

// A process that ends leaves nothing unsigned, whoever leads.
func TestEndingProverSignsTheRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := New(w.db, ringOf(t, "a"), "svc.example.com", func(string) bool { return false }, slog.New(slog.DiscardHandler))
	workspace := newID()
	w.append(t, workspace, 2500)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	p.Run(ctx)
	require.EqualValues(t, 2500, w.verify(t, workspace).Size)
}

// Failed polls do not count as time without signatures.
func TestFailedPollsDoNotCountAsOverdue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	workspace := newID()
	w.append(t, workspace, 10)
	o := &overdueWatch{db: w.db, log: slog.New(slog.DiscardHandler)}
	require.NoError(t, o.poll(t.Context(), 0))
	require.NoError(t, o.poll(t.Context(), signingTime))
	require.Zero(t, o.count.Load())
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, o.poll(gone, time.Hour))
	require.Zero(t, o.count.Load())
	require.NoError(t, o.poll(t.Context(), time.Millisecond))
	require.EqualValues(t, 1, o.count.Load())
}
