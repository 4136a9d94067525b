package projections_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/projections"
)

// costs queues a run and records costs for it, n times a cent.
func (p *player) costs(ctx context.Context, n int) (run events.ID, position int64, err error) {
	o := order(p.workspace, system)
	repo := events.Repo{ID: newID(), Name: "acme/web"}
	run = newID()
	p.names++
	_, err = p.commands.QueueRun(ctx, commands.QueueRun{Order: o, Run: run, Repo: repo, IssueNumber: 1000 + p.names})
	for range n {
		if err != nil {
			break
		}
		var done commands.Result
		done, err = p.commands.RecordRun(ctx, commands.RecordRun{
			Order: o, Run: run, Facts: []events.Event{events.RunCostRecorded{Repo: repo.ID, Cents: 1, Source: "test"}},
		})
		position = done.Position
	}
	return run, position, err
}

// Two processes follow the same logs: no event is taken in twice or left out.
func TestTwoFollowersTakeInEachEventOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	follow(t, connect(t, w.url))
	p, err := w.settle(t.Context(), 1)
	require.NoError(t, err)
	run, position, err := p.costs(t.Context(), 300)
	require.NoError(t, err)
	require.NoError(t, w.follower.Await(t.Context(), "runs", p.workspace, position))
	found, ok, err := projections.Runs{DB: w.db}.Of(t.Context(), p.workspace, run)
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 300, found.CostCents)
}

// A follower whose connections are cut goes on where it was.
func TestAFollowerOutlivesItsConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, err := w.settle(t.Context(), 2)
	require.NoError(t, err)
	over, end := context.WithCancel(t.Context())
	var cutter sync.WaitGroup
	admin := connect(t, w.url)
	cutter.Go(func() {
		for over.Err() == nil {
			_, err := admin.Exec(context.Background(), `
				select pg_terminate_backend(pid) from pg_stat_activity
				where pid <> pg_backend_pid() and datname = current_database() and query like '%checkpoints%'`)
			assert.NoError(t, err)
		}
	})
	run, position, err := p.costs(t.Context(), 100)
	end()
	cutter.Wait()
	require.NoError(t, err)
	require.NoError(t, w.follower.Await(t.Context(), "runs", p.workspace, position))
	found, _, err := projections.Runs{DB: w.db}.Of(t.Context(), p.workspace, run)
	require.NoError(t, err)
	require.EqualValues(t, 100, found.CostCents)
}

func TestAwaitOfAPositionThatNobodyReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, err := w.settle(t.Context(), 3)
	require.NoError(t, err)
	require.NoError(t, w.follower.Await(t.Context(), "", p.workspace, 1))
	for _, view := range []string{"", "runs"} {
		begin := time.Now()
		require.ErrorIs(t, w.follower.Await(t.Context(), view, p.workspace, 1<<40), projections.ErrNotCaughtUp)
		require.InDelta(t, 5, time.Since(begin).Seconds(), 2)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.follower.Await(gone, "runs", p.workspace, 1<<40), projections.ErrNotCaughtUp)
}

// Whoever pages through the audit log by its cursor meets every record once,
// however many are written meanwhile.
func TestPagingTheAuditLogWhileOthersWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, err := w.settle(t.Context(), 4)
	require.NoError(t, err)
	require.NoError(t, p.play(t.Context(), 120))
	w.caughtUp(t)
	over, end := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for over.Err() == nil {
			assert.NoError(t, p.play(context.Background(), 3))
		}
	})
	audit := projections.Audit{DB: w.db}
	q := projections.AuditQuery{Workspace: p.workspace, Limit: 7}
	var seen []int64
	for {
		page, err := audit.Page(t.Context(), q)
		require.NoError(t, err)
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			seen = append(seen, r.Seq)
		}
		q.Before = seen[len(seen)-1]
	}
	end()
	writer.Wait()
	for i, seq := range seen {
		require.Equal(t, seen[0]-int64(i), seq) // none is missing, none comes twice
	}
	require.EqualValues(t, 1, seen[len(seen)-1])
}

func TestAuditFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, err := w.settle(t.Context(), 5)
	require.NoError(t, err)
	require.NoError(t, p.play(t.Context(), 200))
	w.caughtUp(t)
	audit := projections.Audit{DB: w.db}
	all, err := audit.Page(t.Context(), projections.AuditQuery{Workspace: p.workspace, Limit: 10_000})
	require.NoError(t, err)
	middle := all[len(all)/2]
	for name, c := range map[string]struct {
		query projections.AuditQuery
		keep  func(projections.AuditRecord) bool
	}{
		"one action":     {projections.AuditQuery{Action: "member.joined"}, func(r projections.AuditRecord) bool { return r.Event.Kind() == "member.joined" }},
		"a noun":         {projections.AuditQuery{Action: "service_account.*"}, func(r projections.AuditRecord) bool { return r.Target.Type == "service_account" }},
		"who, by name":   {projections.AuditQuery{Actor: p.owner.Name}, func(r projections.AuditRecord) bool { return r.Actor.ID == p.owner.ID }},
		"who, by id":     {projections.AuditQuery{Actor: p.owner.ID.String()}, func(r projections.AuditRecord) bool { return r.Actor.ID == p.owner.ID }},
		"what acted":     {projections.AuditQuery{ActorType: events.BySystem}, func(r projections.AuditRecord) bool { return r.Actor.Type == events.BySystem }},
		"a target":       {projections.AuditQuery{Target: middle.Target.ID.String()}, func(r projections.AuditRecord) bool { return r.Target.ID == middle.Target.ID }},
		"since":          {projections.AuditQuery{From: middle.At}, func(r projections.AuditRecord) bool { return !r.At.Before(middle.At) }},
		"until":          {projections.AuditQuery{To: middle.At}, func(r projections.AuditRecord) bool { return r.At.Before(middle.At) }},
		"older than":     {projections.AuditQuery{Before: middle.Seq}, func(r projections.AuditRecord) bool { return r.Seq < middle.Seq }},
		"nothing at all": {projections.AuditQuery{Actor: "nobody"}, func(projections.AuditRecord) bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			c.query.Workspace, c.query.Limit = p.workspace, 10_000
			got, err := audit.Page(t.Context(), c.query)
			require.NoError(t, err)
			var want, have []int64
			for _, r := range all {
				if c.keep(r) {
					want = append(want, r.Seq)
				}
			}
			for _, r := range got {
				have = append(have, r.Seq)
			}
			require.Equal(t, want, have)
		})
	}
}

// Active runs come the oldest first within each stage, the others the newest first.
func TestOrderOfRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, err := w.settle(t.Context(), 6)
	require.NoError(t, err)
	require.NoError(t, p.play(t.Context(), 400))
	w.caughtUp(t)
	view := projections.Runs{DB: w.db}
	for active, sql := range map[bool]string{
		true:  `select run_id from runs where workspace_id = $1 and active order by stage, created_at, run_id`,
		false: `select run_id from runs where workspace_id = $1 and not active order by finished_at desc, run_id desc`,
	} {
		rows, _ := w.db.Query(t.Context(), sql, p.workspace)
		want, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
		require.NoError(t, err)
		require.NotEmpty(t, want)
		var have []events.ID
		for offset := 0; offset <= len(want); offset += 3 {
			page, total, err := view.Page(t.Context(), projections.RunQuery{Workspace: p.workspace, Active: active, Limit: 3, Offset: offset})
			require.NoError(t, err)
			require.Len(t, want, total)
			for _, r := range page {
				have = append(have, r.ID)
			}
		}
		require.Equal(t, want, have)
		one, ok, err := view.Of(t.Context(), p.workspace, want[0])
		require.NoError(t, err)
		require.True(t, ok)
		narrowed, total, err := view.Page(t.Context(), projections.RunQuery{Workspace: p.workspace, Active: active, Repo: &one.Repo, Limit: 100})
		require.NoError(t, err)
		require.Equal(t, 1, total)
		require.Equal(t, one.ID, narrowed[0].ID)
	}
}
