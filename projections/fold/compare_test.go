//go:build !race

package fold_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/projections"
	"svc/projections/fold"
	"svc/test/world"
)

// After many events of all kinds, inline views, followed views and unique keys equal the fold of
// the log.
func TestLiveViewsEqualTheLog(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	var players []*world.Player
	for seed := range uint64(3) {
		p, err := w.NewPlayer(t.Context(), seed)
		require.NoError(t, err)
		require.NoError(t, p.Play(t.Context(), 400))
		players = append(players, p)
	}
	w.CaughtUp(t)
	for _, p := range players {
		c := world.Compare(t, w.DB, p.Workspace)
		require.Empty(t, c.Differences)
		require.Greater(t, c.Rows, 100)
		require.Greater(t, c.Events, int64(200))
		for _, limit := range []int{30, 100} { // in several parts
			c, err := fold.CompareWithin(t.Context(), w.DB, projections.All(), p.Workspace, limit, fold.NoPause)
			require.NoError(t, err)
			require.Empty(t, c.Differences, limit)
		}
	}
	var keys int
	require.NoError(t, w.DB.QueryRow(t.Context(),
		`select (select count(*) from global_keys) + (select count(*) from unique_keys)`).Scan(&keys))
	require.Greater(t, keys, 50)
}

// A view that lags is compared at its own position, while writers go on.
func TestLaggingViewDoesNotDiffer(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 7)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for q := p.AnotherPlayer(8); ctx.Err() == nil; {
			_ = q.Play(ctx, 50)
		}
	})
	for range 30 {
		require.Empty(t, world.Compare(t, w.DB, p.Workspace).Differences)
	}
	stop()
	group.Wait()

	silent := world.NewSilent(t) // no follower runs
	p, err = silent.NewPlayer(t.Context(), 9)
	require.NoError(t, err)
	require.NoError(t, p.Play(t.Context(), 100))
	require.Empty(t, world.Compare(t, silent.DB, p.Workspace).Differences)
}

// A comparison reports any row of a view, key or checkpoint that was changed by SQL.
func TestCompareReportsChangedRows(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, p.Play(t.Context(), 400))
	w.CaughtUp(t)
	other := world.NewID()
	for name, c := range map[string]struct {
		sql  string
		want string // of the difference
	}{
		"a role": {
			`update members set role = 'Owner' where workspace_id = $1 and role = 'Viewer' and member_id = (select min(member_id::text)::uuid
				from members where workspace_id = $1 and role = 'Viewer')`,
			`stored is role "Owner", the log says role "Viewer"`},
		"a member more": {`insert into members
			select workspace_id, gen_random_uuid(), gen_random_uuid(), 'eve@x', 'Owner', null, now(), '', 'eve@x' from logs
			where workspace_id = $1`, `is not in the log, stored is workspace_id`},
		"a member less":           {`delete from members where workspace_id = $1`, `is missing, the log says`},
		"a number of members":     {`update member_counts set members = members + 1 where workspace_id = $1`, "member_counts"},
		"a text of a member less": {`delete from member_words where workspace_id = $1`, `is missing, the log says`},
		"a fingerprint": {`update service_tokens set fingerprint = sha256('mine') where fingerprint = (select fingerprint
			from service_tokens where workspace_id = $1 and status = 'current' limit 1)`, "service_tokens"},
		"a token more": {`insert into service_tokens select sha256('mine'), workspace_id, account_id, name, scopes, tail, 'current'
			from service_accounts where workspace_id = $1 limit 1`, "service_tokens"},
		"a token made current": {`update service_tokens set status = 'current' where workspace_id = $1 and status = 'rotated'`,
			`stored is status "current", the log says status "rotated"`},
		"a linked account": {`insert into accounts select 'github/666', workspace_id, user_id, 'github', '666', 'eve', now() from users
			where workspace_id = $1`, `accounts "github/666": is not in the log`},
		"a verified address": {`update users set emails = array_append(emails, 'eve@x') where workspace_id = $1`, "users"},
		"an invitation": {`update invitations set role = 'Owner' where workspace_id = $1 and status = 'pending'`,
			`stored is role "Owner"`},
		"a run":                 {`update runs set cost_cents = cost_cents + 1 where workspace_id = $1 and active`, "cost_cents"},
		"a run's detail":        {`update runs set detail = (detail::text || ' ')::json where workspace_id = $1`, "runs"},
		"a count":               {`update run_counts set terminal = terminal + 1 where workspace_id = $1`, "run_counts"},
		"a time without bounds": {`update outcomes set queued_at = '-infinity' where workspace_id = $1`, "outcomes"},
		"an audit row less":     {`delete from audit where ctid in (select ctid from audit where workspace_id = $1 limit 1)`, "audit"},
		"an audit row changed":  {`update audit set data = data || '\x00' where workspace_id = $1`, "audit"},
		"an audit row more":     {`insert into audit values ($1, '\x09', '\x00')`, "audit 09: is not in the log"},
		"a global key moved": {`update global_keys set owner = gen_random_uuid() where workspace_id = $1 and key like 'email/%'`,
			`global_keys "email/`},
		"a global key less": {`delete from global_keys where workspace_id = $1 and key like 'slug/%'`, `global_keys "slug/`},
		"a key moved elsewhere": {fmt.Sprintf(`update global_keys set workspace_id = '%s' where workspace_id = $1 and key like 'account/%%'`,
			other), `is missing, the log says key "account/`},
		"a unique key less": {`delete from unique_keys where workspace_id = $1 and key like 'issue/%'`, "unique_keys"},
		"a unique key more": {`insert into unique_keys values ($1, 'service_account/held', gen_random_uuid())`,
			`key "service_account/held"`},
		"a position too low": {`update checkpoints set seq = 0 where workspace_id = $1 and view = 'runs'`, "runs"},
		"a position beyond": {`update checkpoints set seq = 1000000 where workspace_id = $1 and view = 'runs'`,
			"runs position: stored is 1000000"},
		"an event behind its row": {`update events set data = replace(data::text, '"Viewer"', '"Owner"')::json where workspace_id = $1
			and kind = 'member.joined'`, "members"},
		"an event that is none": {`update events set data = '7' where workspace_id = $1 and kind = 'workspace.created'`,
			"workspaces event 1: is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			tx, err := w.DB.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
			tag, err := tx.Exec(t.Context(), strings.Replace(c.sql, "$1", "'"+p.Workspace.String()+"'", -1))
			require.NoError(t, err)
			require.Positive(t, tag.RowsAffected(), "it changes nothing")
			found := fold.ComparedIn(t, tx, projections.All(), p.Workspace)
			require.NotEmpty(t, found)
			all := ""
			for _, d := range found {
				all += d.String() + "\n"
				require.NotContains(t, d.String(), "%!")
			}
			require.Contains(t, all, c.want)
		})
	}
	require.Empty(t, world.Compare(t, w.DB, p.Workspace).Differences)
}

// Rows of a workspace that has no log are found.
func TestOrphanedWorkspacesAreFound(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 1)
	require.NoError(t, err)
	list, err := fold.OrphanedWorkspaces(t.Context(), w.DB, projections.All(), fold.NoPause)
	require.NoError(t, err)
	require.Empty(t, list)
	nowhere := world.NewID()
	_, err = w.DB.Exec(t.Context(),
		`insert into members select $2, gen_random_uuid(), user_id, email, 'Owner', null, now(), name, name_key from members
			where workspace_id = $1`, p.Workspace, nowhere)
	require.NoError(t, err)
	pauses := 0
	list, err = fold.OrphanedWorkspaces(t.Context(), w.DB, projections.All(), func(context.Context, time.Duration) error {
		pauses++
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []events.ID{nowhere}, list)
	require.Equal(t, len(projections.All())-len(projections.Followed()), pauses, "one for each view")
	require.Len(t, world.Compare(t, w.DB, nowhere).Differences, 1)
}

// recordPages creates a log of 2,501 events, which are read in several pages.
func recordPages(t *testing.T, w *world.World) (workspace events.ID) {
	t.Helper()
	workspace = world.NewID()
	run := w.QueueRun(t, workspace)
	costs := slices.Repeat([]events.Event{events.RunCostRecorded{Cents: 1}}, 500)
	for i := range 5 {
		_, err := w.Log.Append(t.Context(), &events.Commit{Workspace: workspace, At: world.Epoch, Writes: []events.Write{{
			Stream: run, Version: 1 + i*len(costs), Events: costs,
		}}})
		require.NoError(t, err)
	}
	return workspace
}

// The audit index is compared in pages of its log. Names of targets from earlier pages are read from
// its rows, and a wrong one is reported.
func TestAuditNamesOfEarlierPagesAreCompared(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace := recordPages(t, w)
	w.CaughtUp(t)
	require.Empty(t, world.Compare(t, w.DB, workspace).Differences)
	tag, err := w.DB.Exec(t.Context(),
		`update audit set data = 'another' where workspace_id = $1 and entry > '\x03' and entry < '\x04'`, workspace)
	require.NoError(t, err)
	require.Positive(t, tag.RowsAffected())
	found := world.Compare(t, w.DB, workspace).Differences
	require.NotEmpty(t, found)
	require.True(t, slices.ContainsFunc(found, func(d fold.Difference) bool { return strings.HasPrefix(d.Key, "03") }))
}

// Rows of another form were written by another build.
func TestViewOfAnotherFormIsNotCompared(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 1)
	require.NoError(t, err)
	_, err = w.DB.Exec(t.Context(), `insert into views values ('members', 9, now())`)
	require.NoError(t, err)
	_, err = w.DB.Exec(t.Context(), `delete from members`)
	require.NoError(t, err)
	c, err := fold.Compare(t.Context(), w.DB, projections.All(), p.Workspace, fold.NoPause)
	require.NoError(t, err)
	require.Empty(t, c.Differences)
	require.Equal(t, []string{"members: its rows have form 9, this build makes form 1: rebuild it"}, c.Skipped)
}

// An event that a view has parked is neither in the view nor in the fold.
func TestParkedEventsDoNotDiffer(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 1)
	require.NoError(t, err)
	run := world.NewID()
	_, err = w.Commands.QueueRun(t.Context(), commands.QueueRun{
		Meta: world.Meta(p.Workspace, world.System), Run: run, Repo: events.Repo{ID: world.NewID(), Name: "acme/api"}, IssueNumber: 7,
		IssueTitle: "x",
	})
	require.NoError(t, err)
	done, err := w.Commands.RecordRun(t.Context(), commands.RecordRun{
		Meta: world.Meta(p.Workspace, world.System), Run: run, Facts: []events.Event{events.RunBranchCreated{Branch: "b"}},
	})
	require.NoError(t, err)
	w.CaughtUp(t)
	_, err = w.DB.Exec(t.Context(), `update events set data = '7' where workspace_id = $1 and seq = $2`, p.Workspace, done.Position)
	require.NoError(t, err)
	for _, v := range projections.Followed() {
		world.Rebuild(t, w.DB, v)
	}
	c := world.Compare(t, w.DB, p.Workspace)
	require.Empty(t, c.Differences)
}

// A comparison calls the pause after each piece of work, and ends with its error.
func TestComparePauses(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace := recordPages(t, w)
	w.CaughtUp(t)
	pauses := 0
	_, err := fold.Compare(t.Context(), w.DB, projections.All(), workspace, func(_ context.Context, worked time.Duration) error {
		require.Positive(t, worked)
		pauses++
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, pauses, 2)
	_, err = fold.Compare(t.Context(), w.DB, projections.All(), workspace,
		func(context.Context, time.Duration) error { return context.Canceled })
	require.ErrorIs(t, err, context.Canceled)
}

// A comparison whose connection is lost while it reads rows ends with an error.
func TestCompareWithLostConnection(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 1)
	require.NoError(t, err)
	w.CaughtUp(t)
	loss := &connectionLoss{db: w.DB}
	db := world.Connect(t, w.URL, func(c *pgxpool.Config) {
		c.MaxConns = 1 // so that the statements are prepared when the connection is lost
		c.ConnConfig.Tracer = loss
	})
	_, err = fold.Compare(t.Context(), db, projections.All(), p.Workspace, fold.NoPause)
	require.NoError(t, err)
	for _, of := range []string{"members", "audit"} {
		loss.of = of
		_, err = fold.Compare(t.Context(), db, []fold.View{world.View(t, of)}, p.Workspace, fold.NoPause)
		require.ErrorContains(t, err, "read rows", of)
		require.Empty(t, loss.of, "the connection was not lost")
		world.Compare(t, db, p.Workspace) // by a new connection, which prepares them again
	}
}

// A connectionLoss ends the connection that is about to send a batch which begins with a query of a view's rows.
type connectionLoss struct {
	db *pgxpool.Pool
	of string // "" for none
}

func (l *connectionLoss) TraceBatchStart(ctx context.Context, conn *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	if l.of != "" && strings.HasSuffix(b.Batch.QueuedQueries[0].SQL, " from "+l.of+" where workspace_id = $1") {
		l.of = ""
		_, _ = l.db.Exec(ctx, `select pg_terminate_backend($1, 60000)`, conn.PgConn().PID())
	}
	return ctx
}

func (l *connectionLoss) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (l *connectionLoss) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}
func (l *connectionLoss) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (l *connectionLoss) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
