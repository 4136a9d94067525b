package integrity_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/events/store"
	"svc/integrity"
	"svc/projections"
	"svc/proof"
	"svc/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A logCapture collects the log output of a checker.
type logCapture struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *logCapture) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *logCapture) count(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.text.String(), text)
}

// A world is a database with two signed workspaces, and a checker.
type world struct {
	db          *pgxpool.Pool
	one, two    events.ID
	checker     *integrity.Checker
	leads       atomic.Bool
	logs        logCapture
	leaseChecks atomic.Int64 // how often it checked the lease
}

func newWorld(t *testing.T, every time.Duration) *world {
	t.Helper()
	w := &world{db: pgtest.New(t), one: newID(), two: newID()}
	log := store.New(w.db, projections.Inline(), func(events.ID, int64) {})
	t.Cleanup(log.Close)
	log.Authenticate(newRing(t))
	h := commands.New(log, time.Now)
	for slug, id := range map[string]events.ID{"one": w.one, "two": w.two} {
		meta := commands.Meta{Workspace: id, Envelope: events.Envelope{Actor: events.Actor{Type: events.ByUser, ID: newID(), Name: "ann@x"}}}
		_, err := h.CreateWorkspace(t.Context(), commands.CreateWorkspace{Meta: meta, Member: newID(), Email: "ann@x", Name: "Acme", Slug: slug})
		require.NoError(t, err)
	}
	prover := proof.New(w.db, newRing(t), "svc.example.com", func(string) bool { return true }, slog.New(slog.DiscardHandler))
	over, stop := context.WithCancel(t.Context())
	stop()
	prover.Run(over) // signs what there is
	w.leads.Store(true)
	w.checker = w.start(t, func() bool {
		w.leaseChecks.Add(1)
		return w.leads.Load()
	}, every)
	return w
}

// start starts the checker of another process.
func (w *world) start(t *testing.T, leads func() bool, every time.Duration) *integrity.Checker {
	t.Helper()
	log := slog.New(slog.NewTextHandler(&w.logs, nil))
	prover := proof.New(w.db, newRing(t), "svc.example.com", func(string) bool { return true }, slog.New(slog.DiscardHandler))
	checker := integrity.New(w.db, prover, func(lease string) bool { return lease == integrity.Leadership && leads() }, every, log)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); checker.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return checker
}

func newID() events.ID { return events.NewID(time.Now()) }

func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := w.db.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// eventually waits for long, since a checker pauses 19 times as long as it works.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 5*time.Minute, 5*time.Millisecond)
}

// Changes by SQL are found, logged once, and forgotten when they are repaired.
func TestCheckerFindsChangesAndForgetsRepairs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Millisecond)
	w.exec(t, `update members set role = 'Viewer' where workspace_id = $1`, w.one)
	w.exec(t, `update events set meta = replace(meta::text, 'ann@x', 'eve@x')::json where workspace_id = $1 and seq = 2`, w.two)
	orphan := newID()
	w.exec(t, `insert into unique_keys values ($1, 'service_account/x', $1)`, orphan)
	eventually(t, func() bool {
		return w.checker.BadLogs() == 1 && w.checker.DifferingRows()["members"] == 1 && w.checker.DifferingRows()["unique_keys"] == 1
	})
	warnings := w.checker.Warnings()
	require.Contains(t, warnings["proof"], "Logs that differ from what was signed: 1.")
	require.Equal(t, "Rows that differ from the log: members 1, unique_keys 1. The service's log names them.", warnings["views"])
	from := w.leaseChecks.Load()
	eventually(t, func() bool { return w.leaseChecks.Load() > from+50 }) // some more rounds
	require.Equal(t, 3, w.logs.count("level=ERROR"), &w.logs.text)
	require.Equal(t, 1, w.logs.count(`msg="view differs from the log" workspace=`+w.one.String()+" view=members key="))
	require.Equal(t, 1, w.logs.count(`msg="view differs from the log" workspace=`+orphan.String()+" view=unique_keys key="))
	require.Equal(t, 1, w.logs.count(
		`msg="log differs from what was signed" workspace=`+w.two.String()+` record=2 reason="the record was changed"`))

	w.exec(t, `update members set role = 'Owner' where workspace_id = $1`, w.one)
	w.exec(t, `update events set meta = replace(meta::text, 'eve@x', 'ann@x')::json where workspace_id = $1 and seq = 2`, w.two)
	w.exec(t, `delete from unique_keys where workspace_id = $1`, orphan)
	eventually(t, func() bool { return w.checker.BadLogs() == 0 && len(w.checker.DifferingRows()) == 0 })
	w.exec(t, `update members set role = 'Viewer' where workspace_id = $1`, w.one)
	eventually(t, func() bool { return w.checker.DifferingRows()["members"] == 1 })
	require.Equal(t, 2, w.logs.count("view=members"), "it is another time")
}

// A process that does not lead neither works nor reports.
func TestOnlyTheLeaderChecks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Millisecond)
	w.exec(t, `delete from members where workspace_id = $1`, w.one)
	eventually(t, func() bool { return w.checker.DifferingRows()["members"] == 1 })
	w.leads.Store(false)
	other := w.start(t, func() bool { return !w.leads.Load() }, time.Millisecond)
	eventually(t, func() bool { return len(w.checker.DifferingRows()) == 0 && other.DifferingRows()["members"] == 1 })
	from := w.leaseChecks.Load()
	eventually(t, func() bool { return w.leaseChecks.Load() > from+2 })
	require.Empty(t, w.checker.DifferingRows())
	require.False(t, w.checker.Overdue())
}

// If a workspace is deleted from every table, nothing is left that could differ. The process that has compared it before
// reports it until it is back; another process cannot know.
func TestDeletedWorkspaceIsReportedByProcessThatKnowsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Millisecond)
	rounds := func() {
		t.Helper()
		from := w.leaseChecks.Load()
		eventually(t, func() bool { return w.leaseChecks.Load() > from+50 })
	}
	rounds()
	rows, err := w.db.Query(t.Context(), `
		select table_name from information_schema.columns where table_schema = 'public' and column_name = 'workspace_id'`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Subset(t, tables, []string{"logs", "events", "proof_checkpoints", "proof_hashes", "checkpoints", "members", "global_keys"})
	for _, table := range tables {
		w.exec(t, `create table kept_`+table+` as select * from `+table+` where workspace_id = $1`, w.one)
	}
	for _, table := range tables {
		w.exec(t, `delete from `+table+` where workspace_id = $1`, w.one)
	}
	eventually(t, func() bool { return w.checker.BadLogs() == 1 })
	rounds()
	require.Equal(t, 1, w.checker.BadLogs())
	require.Empty(t, w.checker.DifferingRows())
	require.Equal(t, 1, w.logs.count(`level=ERROR`), &w.logs.text)
	require.Equal(t, 1, w.logs.count(`msg="log differs from what was signed" workspace=`+w.one.String()+
		` record=1 reason="the log is gone, which this process has verified before"`), &w.logs.text)

	// Another process takes over, which has not seen the workspace.
	w.leads.Store(false)
	var checks atomic.Int64
	other := w.start(t, func() bool {
		checks.Add(1)
		return !w.leads.Load()
	}, time.Millisecond)
	eventually(t, func() bool { return checks.Load() > 50 })
	require.Zero(t, other.BadLogs())

	for _, table := range tables {
		w.exec(t, `insert into `+table+` select * from kept_`+table+` on conflict do nothing`)
	}
	w.leads.Store(true)
	rounds()
	require.Zero(t, w.checker.BadLogs(), "it is back")
}

// A log that cannot be read does not prevent comparing the others.
func TestUnreadableLogIsSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Millisecond)
	w.exec(t, `delete from events where workspace_id = $1 and seq = 1`, w.one)
	w.exec(t, `delete from members where workspace_id = $1`, w.two)
	eventually(t, func() bool {
		return w.checker.DifferingRows()["members"] == 1 && w.checker.BadLogs() == 1 && w.checker.Uncompared() == 1
	})
	require.Equal(t, "Logs that cannot be compared completely: 1. The service's log has the reasons.", w.checker.Warnings()["comparison"])
	require.Positive(t, w.logs.count(`level=ERROR msg="comparison with the log failed" workspace=`+w.one.String()+` what="views: `),
		&w.logs.text)
}

// A log that was found to differ is still reported while it cannot be verified.
func TestFindingIsKeptWhileLogCannotBeVerified(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Millisecond)
	w.exec(t, `update events set meta = replace(meta::text, 'ann@x', 'eve@x')::json where workspace_id = $1 and seq = 2`, w.two)
	eventually(t, func() bool { return w.checker.BadLogs() == 1 })
	w.exec(t, `alter table proof_hashes rename to proof_hashes_elsewhere`)
	eventually(t, func() bool { return w.checker.Uncompared() == 2 })
	require.Equal(t, 1, w.checker.BadLogs())
	w.exec(t, `alter table proof_hashes_elsewhere rename to proof_hashes`)
	w.exec(t, `update events set meta = replace(meta::text, 'eve@x', 'ann@x')::json where workspace_id = $1 and seq = 2`, w.two)
	eventually(t, func() bool { return w.checker.BadLogs() == 0 && w.checker.Uncompared() == 0 })
	require.Equal(t, 1, w.logs.count("log differs from what was signed"))
}

// What cannot be compared is reported like a difference, so it cannot hide one.
func TestUncomparableViewIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Millisecond)
	w.exec(t, `update members set role = 'Viewer' where workspace_id = $1`, w.one)
	eventually(t, func() bool { return w.checker.DifferingRows()["members"] == 1 })
	w.exec(t, `insert into views values ('members', 99, now())`)
	eventually(t, func() bool { return w.checker.Uncompared() == 2 })
	from := w.leaseChecks.Load()
	eventually(t, func() bool { return w.leaseChecks.Load() > from+50 }) // some more rounds
	require.Equal(t, 3, w.logs.count("level=ERROR"), &w.logs.text)
	require.Equal(t, 1, w.checker.DifferingRows()["members"], "the row still differs for all that is known")
	require.Equal(t, 1, w.logs.count(
		`msg="comparison with the log failed" workspace=`+w.one.String()+` what="members: its rows have form 99,`))
	w.exec(t, `delete from views where name = 'members'`)
	eventually(t, func() bool { return w.checker.Uncompared() == 0 })
}
