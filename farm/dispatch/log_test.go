package dispatch_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/farm/dispatch"
	"svc/farm/joblog"
	"svc/farm/wire"
	"svc/http/limit"
	"svc/projections/farmviews"
)

func TestLogIsLimited(t *testing.T) {
	t.Parallel()
	j := newRunning(t)
	_, err := j.db.Exec(t.Context(), `update job_leases set log_bytes = $2 where job_id = $1`, j.job, wire.MaxLog-2)
	require.NoError(t, err)
	j.a.chunk(j.job, j.epoch, 3, wire.MaxLog-2, "ab")
	j.a.chunk(j.job, j.epoch, 4, wire.MaxLog, "c")
	j.a.chunk(j.job, j.epoch, 5, wire.MaxLog+1, "d")
	j.a.acked(5)
	size, err := j.r.logs.Size(t.Context(), j.ws, j.job, j.epoch)
	require.NoError(t, err)
	require.EqualValues(t, wire.MaxLog, size)
}

// A log is cut where its workspace has no more room, and the job continues. The log is not taken
// for one that was tampered with.
func TestLogsOfWorkspaceAreLimited(t *testing.T) {
	t.Parallel()
	perDay, err := limit.PerDay(len("one\ntwo\n"))
	require.NoError(t, err)
	j := newRunning(t, func(c *dispatch.Config) {
		c.CountLog = func(ctx context.Context, workspace, _ events.ID, bytes int) time.Duration {
			return perDay.Take(workspace.String(), bytes)
		}
	})
	j.a.chunk(j.job, j.epoch, 3, 4, "two\n")
	j.a.chunk(j.job, j.epoch, 4, 8, "three\n")
	j.a.chunk(j.job, j.epoch, 5, 14, "x")
	j.a.acked(5)
	j.a.send(wire.Event{Kind: wire.EventFinished, Outcome: "infra", Reason: "agent_stop", Log: sumOf("one\ntwo\nthree\nx")}, j.job, j.epoch, 6)
	j.a.acked(6)
	_, j.epoch, _ = j.a.assigned()
	j.begin()
	live, err := j.r.logs.Sizes(t.Context(), j.ws, map[events.ID]int{j.job: j.epoch})
	require.NoError(t, err)
	require.Equal(t, joblog.Size{Truncated: true}, live[j.job], "nothing was stored")
	j.a.send(wire.Event{Kind: wire.EventFinished, Outcome: "succeeded"}, j.job, j.epoch, 3)
	j.a.acked(3)
	require.Equal(t, events.JobStateSucceeded, j.state(j.job))
	j.r.SweepOnce(t.Context())
	rows, err := j.db.Query(t.Context(), `select data from events where stream = $1 and kind = 'job.log_sealed' order by seq`, j.job)
	require.NoError(t, err)
	texts, err := pgx.CollectRows(rows, pgx.RowTo[json.RawMessage])
	require.NoError(t, err)
	var bytes []int64
	for _, text := range texts {
		var sealed events.JobLogSealed
		require.NoError(t, json.Unmarshal(text, &sealed))
		bytes = append(bytes, sealed.Bytes)
		require.True(t, sealed.Truncated)
		require.Equal(t, "incomplete", sealed.Integrity)
	}
	require.Equal(t, []int64{int64(len("one\ntwo\n")), 0}, bytes)
}

// Chunks of several jobs that are stored together do not have the same room twice, and count once
// however often they are sent until they are stored.
func TestLogsStoredTogetherAreLimited(t *testing.T) {
	t.Parallel()
	perDay, err := limit.PerDay(100)
	require.NoError(t, err)
	broken, breakOff := context.WithCancel(t.Context())
	j := newRunning(t, func(c *dispatch.Config) {
		c.CountLog = func(ctx context.Context, workspace, _ events.ID, bytes int) time.Duration {
			if ctx == broken {
				breakOff()
			}
			return perDay.Take(workspace.String(), bytes)
		}
	})
	first := j.job
	j.submit(j.r)
	j.job, j.epoch, _ = j.a.assigned()
	j.begin()
	by, text := j.r.identity(j.ws, j.runner, "builder"), strings.Repeat("x", 80)
	both := []dispatch.Chunk{{Job: first, Seq: 3, Offset: 4, Data: text}, {Job: j.job, Seq: 3, Offset: 4, Data: text}}
	require.ErrorIs(t, j.r.WriteChunks(broken, by, both...), context.Canceled)
	require.NoError(t, j.r.WriteChunks(t.Context(), by, both...))
	require.NoError(t, j.r.WriteChunks(t.Context(), by, dispatch.Chunk{Job: first, Seq: 4, Offset: 84, Data: "the last one"}))
	sizes, err := j.r.logs.Sizes(t.Context(), j.ws, map[events.ID]int{first: 1, j.job: 1})
	require.NoError(t, err)
	require.Equal(t, map[events.ID]joblog.Size{first: {Bytes: 96}, j.job: {Bytes: 4, Truncated: true}}, sizes)
	require.NoError(t, j.r.WriteChunks(t.Context(), by, dispatch.Chunk{Job: first, Seq: 5, Offset: 96, Data: "."}))
	require.NoError(t, j.r.WriteChunks(t.Context(), by, dispatch.Chunk{Job: first, Seq: 5, Offset: 96, Data: "."}))
	sizes, err = j.r.logs.Sizes(t.Context(), j.ws, map[events.ID]int{first: 1})
	require.NoError(t, err)
	require.Equal(t, joblog.Size{Bytes: 96, Truncated: true}, sizes[first])
}

// Jobs of one submitter may log three quarters of what those of their workspace may.
func TestLogsOfSubmitterAreLimited(t *testing.T) {
	t.Parallel()
	perDay, err := limit.PerDay(100)
	require.NoError(t, err)
	j := newRunning(t, func(c *dispatch.Config) { c.CountLog = perDay.TakeShare })
	first, owner := j.job, systemMeta(j.ws)
	owner.Actor = events.Actor{Type: events.ByUser, ID: newID(), Name: "ann@x.example"}
	_, err = j.r.CreateWorkspace(t.Context(),
		commands.CreateWorkspace{Meta: owner, Member: newID(), Email: owner.Actor.Name, Name: "Acme", Slug: "acme"})
	require.NoError(t, err)
	j.submitAs(j.r, owner)
	j.job, j.epoch, _ = j.a.assigned()
	j.begin()
	by, text := j.r.identity(j.ws, j.runner, "builder"), strings.Repeat("x", 60)
	require.NoError(t, j.r.WriteChunks(t.Context(), by,
		dispatch.Chunk{Job: first, Seq: 3, Offset: 4, Data: text}, dispatch.Chunk{Job: first, Seq: 4, Offset: 64, Data: text[:20]},
		dispatch.Chunk{Job: j.job, Seq: 3, Offset: 4, Data: text[:20]}))
	sizes, err := j.r.logs.Sizes(t.Context(), j.ws, map[events.ID]int{first: 1, j.job: 1})
	require.NoError(t, err)
	require.Equal(t, map[events.ID]joblog.Size{first: {Bytes: 64, Truncated: true}, j.job: {Bytes: 24}}, sizes)
}

// Every attempt has its own log, sealed with a statement of its integrity.
func TestLogsAreSealed(t *testing.T) {
	t.Parallel()
	j := newRunning(t)
	j.a.send(wire.Event{Kind: wire.EventFinished, Outcome: "infra", Reason: "agent_restarted", Log: sumOf("one\n")}, j.job, j.epoch, 3)
	j.a.acked(3)
	j.a.send(wire.Event{Kind: wire.EventFinished, Outcome: "infra"}, j.job, j.epoch, 3)
	again, epoch, _ := j.a.assigned()
	require.Equal(t, j.job, again)
	require.Equal(t, 2, epoch)
	j.epoch = epoch
	j.begin()
	j.a.send(finished("another\n"), j.job, epoch, 3)
	j.a.acked(3)
	j.r.SweepOnce(t.Context())
	rows, err := j.db.Query(t.Context(), `
		select data->>'epoch', data->>'integrity' from events where stream = $1 and kind = 'job.log_sealed' order by 1`, j.job)
	require.NoError(t, err)
	defer rows.Close()
	var list []string
	for rows.Next() {
		var epoch, integrity string
		require.NoError(t, rows.Scan(&epoch, &integrity))
		list = append(list, epoch+" "+integrity)
	}
	require.Equal(t, []string{"1 verified", "2 mismatch"}, list)
	require.NoError(t, rows.Err())
	view, _, err := farmviews.Jobs{DB: j.db}.Get(t.Context(), j.ws, j.job)
	require.NoError(t, err)
	require.Equal(t, "infra agent_restarted", view.Attempts[0].Ended+" "+view.Attempts[0].Reason)
	require.Equal(t, "succeeded ", view.Attempts[1].Ended+" "+view.Attempts[1].Reason)
}

// Lines are counted across chunks. An older service stores chunks without line numbers, after which
// the numbers are unknown.
func TestLogLinesAreNumbered(t *testing.T) {
	t.Parallel()
	j := newRunning(t)
	lines := func(from int64) (list []int64) {
		t.Helper()
		chunks, err := j.r.logs.Read(t.Context(), j.ws, j.job, j.epoch, from, 1<<20)
		require.NoError(t, err)
		for _, c := range chunks {
			list = append(list, c.Line)
		}
		return list
	}
	j.a.chunk(j.job, j.epoch, 3, 4, "two\nth")
	j.a.chunk(j.job, j.epoch, 4, 10, "ree\n\nfive")
	j.a.acked(4)
	j.a.chunk(j.job, j.epoch, 4, 10, "ree\n\nfive")
	j.a.chunk(j.job, j.epoch, 5, 19, "\n")
	j.a.chunk(j.job, j.epoch, 6, 20, "six")
	j.a.acked(6)
	require.Equal(t, []int64{1, 2, 3, 5, 6}, lines(0))
	require.Equal(t, []int64{4, 5, 6}, lines(14))

	_, err := j.db.Exec(t.Context(), `
		with chunk as (insert into job_logs (workspace_id, job_id, epoch, from_byte, at, data) values ($1, $2, $3, 23, now(), '.'))
		update job_leases set log_bytes = 24 where job_id = $2`, j.ws, j.job, j.epoch)
	require.NoError(t, err)
	for n := range int64(3) {
		j.a.chunk(j.job, j.epoch, 7+n, 24+2*n, "a\n")
		j.a.acked(7 + n)
	}
	require.Equal(t, []int64{6, 0, 0, 0, 0}, lines(20))
}

// Old logs are removed in parts from the end, and then the lease. Without a retention they stay.
func TestOldLogsAreRemoved(t *testing.T) {
	t.Parallel()
	j := newRunning(t)
	j.a.send(finished("one\n"), j.job, j.epoch, 3)
	j.a.acked(3)
	j.r.SweepOnce(t.Context())
	_, err := j.db.Exec(t.Context(), `
		insert into job_logs (workspace_id, job_id, epoch, from_byte, at, data)
		select $1, $2, 1, 4 * n, now(), 'two.' from generate_series(1, 1999) n`, j.ws, j.job)
	require.NoError(t, err)
	ephemeral := j.replica(func(c *dispatch.Config) { c.LogRetention = 7 * 24 * time.Hour })
	left := func() (chunks, leases int, end int64) {
		require.NoError(t, j.db.QueryRow(t.Context(), `
			select count(*), (select count(*) from job_leases), coalesce(max(from_byte), -1) from job_logs`).Scan(&chunks, &leases, &end))
		return chunks, leases, end
	}
	requireAfterSweep := func(r *replica, chunks, leases int, end int64) {
		t.Helper()
		r.SweepOnce(t.Context())
		p, l, e := left()
		require.Equal(t, []any{chunks, leases, end}, []any{p, l, e})
	}
	j.clock.advance(7*24*time.Hour - time.Minute)
	requireAfterSweep(ephemeral, 2000, 1, 4*1999)
	j.clock.advance(2 * time.Minute)
	requireAfterSweep(ephemeral, 2000-1024, 1, 4*(2000-1024-1))
	requireAfterSweep(ephemeral, 0, 0, -1)

	j = newRunning(t)
	j.a.send(finished("one\n"), j.job, j.epoch, 3)
	j.a.acked(3)
	j.clock.advance(100 * 365 * 24 * time.Hour)
	requireAfterSweep(j.r, 1, 1, 0)
}
