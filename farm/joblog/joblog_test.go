package joblog_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/joblog"
	"svc/test/pgtest"
	"svc/test/world"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func newID() events.ID { return events.NewID(noon) }

func put(t *testing.T, db *pgxpool.Pool, workspace, job events.ID, epoch int, chunks ...string) {
	t.Helper()
	from := 0
	for i, p := range chunks {
		_, err := db.Exec(t.Context(), `insert into job_logs values ($1, $2, $3, $4, $5, $6)`,
			workspace, job, epoch, from, noon.Add(time.Duration(i)*time.Second), []byte(p))
		require.NoError(t, err)
		from += len(p)
	}
}

func text(list []joblog.Chunk) string {
	var b bytes.Buffer
	for _, c := range list {
		b.Write(c.Data)
	}
	return b.String()
}

func TestReadFromAnyByte(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	logs := joblog.New(db, slog.New(slog.DiscardHandler))
	workspace, job := newID(), newID()
	put(t, db, workspace, job, 1, "of another epoch")
	put(t, db, workspace, newID(), 2, "of another job")
	put(t, db, newID(), job, 2, "of another workspace")
	put(t, db, workspace, job, 2, "abc", "defg", "h")
	const whole = "abcdefgh"
	for from := range len(whole) + 2 {
		for most := range len(whole) + 2 {
			list, err := logs.Read(t.Context(), workspace, job, 2, int64(from), most)
			require.NoError(t, err)
			want := whole[min(from, len(whole)):min(from+most, len(whole))]
			require.Equal(t, want, text(list), "%d from %d", most, from)
			at := int64(from)
			for _, c := range list {
				require.Equal(t, at, c.Offset)
				at = c.End()
			}
		}
	}
	list, err := logs.Read(t.Context(), workspace, job, 2, 4, 100)
	require.NoError(t, err)
	require.Equal(t, []joblog.Chunk{{Offset: 4, At: noon.Add(time.Second), Data: []byte("efg")},
		{Offset: 7, At: noon.Add(2 * time.Second), Data: []byte("h")}}, list)

	for n := range len(whole) + 2 {
		tail, err := logs.Tail(t.Context(), workspace, job, 2, n)
		require.NoError(t, err)
		require.Equal(t, whole[max(0, len(whole)-n):], string(tail))
	}
	tail, err := logs.Tail(t.Context(), workspace, job, 3, 10)
	require.NoError(t, err)
	require.Empty(t, tail)

	size, err := logs.Size(t.Context(), workspace, job, 2)
	require.NoError(t, err)
	require.EqualValues(t, len(whole), size)
	size, err = logs.Size(t.Context(), workspace, job, 3)
	require.NoError(t, err)
	require.Zero(t, size)
}

// What the database sends is about as much as was asked for.
func TestReadFetchesNoMoreThanItReturns(t *testing.T) {
	t.Parallel()
	rows := &rowCounter{}
	db := world.Connect(t, pgtest.URL(t), func(c *pgxpool.Config) { c.ConnConfig.Tracer = rows })
	workspace, job := newID(), newID()
	chunks := slices.Repeat([]string{"0123456789"}, 300)
	put(t, db, workspace, job, 1, chunks...)
	logs := joblog.New(db, slog.New(slog.DiscardHandler))
	for _, from := range []int64{0, 5, 1234} {
		rows.n.Store(0)
		list, err := logs.Read(t.Context(), workspace, job, 1, from, 40)
		require.NoError(t, err)
		require.Len(t, text(list), 40)
		require.LessOrEqual(t, rows.n.Load(), int64(5))
	}
}

// A rowCounter counts the rows that the database sends.
type rowCounter struct{ n atomic.Int64 }

func (c *rowCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (c *rowCounter) TraceQueryEnd(_ context.Context, _ *pgx.Conn, q pgx.TraceQueryEndData) {
	c.n.Add(q.CommandTag.RowsAffected())
}

func TestWatchSignalsGrowth(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	logs := joblog.New(db, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { logs.Run(ctx) })
	defer running.Wait()
	defer stop()
	workspace, job := newID(), newID()
	w := logs.Watch(workspace, job)
	defer w.Close()
	others := logs.Watch(newID(), job)
	defer others.Close()

	logs.Moved(workspace, job)
	logs.Moved(workspace, job)
	require.Len(t, w.Changed, 1, "this process said so")
	<-w.Changed

	for seq := range 2 {
		_, err := db.Exec(t.Context(), `
			insert into job_leases (workspace_id, job_id, epoch, runner_id, renewed_at, last_seq) values ($1, $2, 1, $2, now(), $3)
			on conflict (workspace_id, job_id) do update set last_seq = excluded.last_seq`, workspace, job, seq+1)
		require.NoError(t, err)
		select {
		case <-w.Changed:
		case <-time.After(time.Minute):
			require.FailNow(t, "nobody told of what another process added")
		}
	}
	require.Empty(t, others.Changed)

	w.Close()
	logs.Moved(workspace, job)
	require.Empty(t, w.Changed)
}
