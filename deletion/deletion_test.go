package deletion_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/config"
	"svc/deletion"
	"svc/dev/seed"
	"svc/events"
	"svc/events/store"
	"svc/farm/artifacts"
	"svc/projections"
	"svc/projections/fold"
	"svc/proof"
	"svc/test/pgtest"
	"svc/test/world"
	"svc/vault"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A killer ends the context of a round before its n-th statement, as if the process had died there.
type killer struct {
	left atomic.Int64
	kill atomic.Pointer[context.CancelFunc]
}

func (k *killer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if kill := k.kill.Load(); kill != nil && k.left.Add(-1) < 0 {
		(*kill)()
	}
	return ctx
}

func (k *killer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A site is the demonstration, with files, of which Acme is deleted.
type site struct {
	t      *testing.T
	db     *pgxpool.Pool
	killer killer
	now    time.Time
	acme   events.ID
	owner  events.Actor
	*commands.Handler
	prover *proof.Prover
	views  *fold.Follower
	worker *deletion.Worker
	files  string
}

func newSite(t *testing.T) *site {
	t.Helper()
	w := &site{t: t, now: time.Now(), files: t.TempDir()}
	ring, err := vault.NewRing([]config.Secret{config.Secret(strings.Repeat("k", 32))})
	require.NoError(t, err)
	url := pgtest.URL(t)
	require.NoError(t, seed.Development(t.Context(), url, ring, "", w.now))
	require.NoError(t, seed.SubmitJobs(t.Context(), url, ring, w.now))
	settings, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	settings.ConnConfig.Tracer = &w.killer
	w.db, err = pgxpool.NewWithConfig(t.Context(), settings)
	require.NoError(t, err)
	t.Cleanup(w.db.Close)
	log := store.New(w.db, projections.Inline(), func(events.ID, int64) {})
	t.Cleanup(log.Close)
	log.Authenticate(ring)
	w.Handler = commands.New(log, func() time.Time { return w.now })
	always, quiet := func(string) bool { return true }, slog.New(slog.DiscardHandler)
	undisturbed, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(undisturbed.Close)
	w.prover, w.views = proof.New(w.db, ring, "svc.example.com", always, quiet), world.Follow(t, undisturbed)
	require.NoError(t, w.db.QueryRow(t.Context(), `
		select w.workspace_id, m.user_id, m.email from workspaces w join members m on m.workspace_id = w.workspace_id and m.role = 'Owner'
		where w.slug = 'acme' limit 1`).Scan(&w.acme, &w.owner.ID, &w.owner.Name))
	w.owner.Type = events.ByUser
	followers := []string{proof.FollowerName}
	for _, v := range projections.Followed() {
		followers = append(followers, v.Name())
	}
	w.fill(vault.Secrets{DB: w.db, Ring: ring})
	disk, err := artifacts.OpenDirectory(w.files)
	require.NoError(t, err)
	t.Cleanup(func() { _ = disk.Close() })
	w.putFile(disk)
	w.worker = deletion.New(deletion.Config{
		DB: w.db, Commands: w.Handler, Prover: w.prover, Artifacts: disk, Followers: followers, Leads: always,
		Now: func() time.Time { return w.now }, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	w.follow()
	return w
}

// fill adds what the demonstration lacks: a secret, a session in Acme.
func (w *site) fill(secrets vault.Secrets) {
	require.NoError(w.t, secrets.Put(w.t.Context(), "farm_secret/"+w.acme.String()+"/"+events.NewID(w.now).String(), []byte("s3cret")))
	_, err := w.db.Exec(w.t.Context(), `
		insert into sessions (token_hash, session_id, user_id, active_workspace_id, created_at, updated_at, expires_at, ip, user_agent, mac)
		values ('\x01', gen_random_uuid(), $1, $2, now(), now(), now() + interval '1 year', '', '', '\x01')`, w.owner.ID, w.acme)
	require.NoError(w.t, err)
}

func (w *site) putFile(to artifacts.Store) {
	var job events.ID
	require.NoError(w.t, w.db.QueryRow(w.t.Context(), `select job_id from jobs where workspace_id = $1 limit 1`, w.acme).Scan(&job))
	require.NoError(w.t, to.Put(w.t.Context(), w.acme.String()+"/"+job.String()+"/file", 5, strings.NewReader("hello")))
}

// follow lets views and prover read what there is.
func (w *site) follow() {
	over, stop := context.WithCancel(w.t.Context())
	stop()
	w.prover.Run(over)
	w.views.Moved(w.acme, 0)
	require.Eventually(w.t, func() bool {
		return w.count(`select count(*) from checkpoints c join logs l on l.workspace_id = c.workspace_id
			where c.workspace_id = $1 and c.view <> 'proof' and c.seq < l.head`, w.acme) == 0
	}, time.Minute, 2*time.Millisecond)
}

func (w *site) meta() commands.Meta {
	return commands.Meta{Workspace: w.acme, Envelope: events.Envelope{Actor: w.owner, Origin: events.FromAPI}}
}

func (w *site) delete() {
	_, err := w.DeleteWorkspace(w.t.Context(), commands.DeleteWorkspace{Meta: w.meta(), Name: "Acme"})
	require.NoError(w.t, err)
}

func (w *site) count(sql string, args ...any) (n int) {
	w.t.Helper()
	require.NoError(w.t, w.db.QueryRow(w.t.Context(), sql, args...).Scan(&n))
	return n
}

const (
	activeRuns = `select count(*) from runs where workspace_id = $1 and active`
	openJobs   = `select count(*) from jobs where workspace_id = $1 and state in ('queued', 'leased', 'running')`
)

// What goes on in a deleted workspace ends within a round, and stays ended when the workspace is restored.
func TestDeletionEndsRunsAndJobs(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	_, err := w.db.Exec(t.Context(), `insert into deleted_workspaces values ($1, 'Acme', 'acme', now(), '', '2026-01-01', true)`, w.acme)
	require.NoError(t, err)
	w.worker.Round(t.Context())
	require.NotZero(t, w.count(activeRuns, w.acme), "a row that somebody made up ends nothing: the log decides")
	require.NotZero(t, w.count(`select count(*) from members where workspace_id = $1`, w.acme))
	_, err = w.db.Exec(t.Context(), `delete from deleted_workspaces`)
	require.NoError(t, err)
	w.delete()
	w.worker.Round(t.Context())
	w.follow()
	require.Zero(t, w.count(activeRuns+` and status <> 'merging'`, w.acme))
	require.Zero(t, w.count(openJobs, w.acme))
	head := w.count(`select head from logs where workspace_id = $1`, w.acme)
	w.worker.Round(t.Context())
	require.Equal(t, head, w.count(`select head from logs where workspace_id = $1`, w.acme), "nothing is stopped twice")
	_, err = w.RestoreWorkspace(t.Context(), commands.RestoreWorkspace{Meta: w.meta()})
	require.NoError(t, err)
	w.now = w.now.Add(2 * events.RestorableFor)
	w.worker.Round(t.Context())
	require.NotZero(t, w.count(`select count(*) from members where workspace_id = $1`, w.acme))
	require.Zero(t, w.count(`select count(*) from tombstones`))
}

// A purge leaves nothing but the tombstone, wherever its process dies, and nothing of others is touched.
func TestPurgeLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	ids := w.idsOf(w.acme)
	require.Greater(t, len(ids), 100)
	others := w.others()
	w.delete()
	w.now = w.now.Add(events.RestorableFor - time.Minute)
	w.worker.Round(t.Context())
	w.follow()
	rows := w.count(`select count(*) from events where workspace_id = $1`, w.acme)
	w.worker.Round(t.Context())
	require.Equal(t, rows, w.count(`select count(*) from events where workspace_id = $1`, w.acme), "it can still be restored")

	w.now = w.now.Add(2 * time.Minute)
	rounds := 0
	for w.count(`select count(*) from tombstones where erased_at is not null`) == 0 {
		rounds++
		require.Less(t, rounds, 400)
		ctx, cancel := context.WithCancel(t.Context())
		w.killer.left.Store(int64(rounds))
		w.killer.kill.Store(&cancel)
		w.worker.Round(ctx)
		w.killer.kill.Store(nil)
		cancel()
		if w.count(`select count(*) from logs where workspace_id = $1`, w.acme) > 0 {
			w.follow()
		}
	}
	require.Greater(t, rounds, 20, "each of them got a statement further")
	t.Log("rounds", rounds)

	for table, text := range w.dump() {
		for _, id := range uuids.FindAllString(text, -1) {
			if table == "tombstones" && id == w.acme.String() {
				continue
			}
			require.False(t, ids[id], "%s has %s", table, id)
		}
		for _, known := range []string{"slug/acme,", "acme/web", "acme/infra", ",Acme,"} {
			require.NotContains(t, text, known, table)
		}
	}
	files, err := os.ReadDir(w.files)
	require.NoError(t, err)
	require.Empty(t, files)
	require.Equal(t, others, w.others())

	purged, err := w.prover.Purged(t.Context(), w.acme)
	require.NoError(t, err)
	require.True(t, purged)
	_, err = w.CreateWorkspace(t.Context(), commands.CreateWorkspace{
		Meta:   commands.Meta{Workspace: events.NewID(w.now), Envelope: events.Envelope{Actor: w.owner}},
		Member: events.NewID(w.now), Email: w.owner.Name, Name: "Acme", Slug: "acme",
	})
	require.NoError(t, err, "the slug is free")
	_, err = w.db.Exec(t.Context(), `update tombstones set note = replace(note, 'purged 20', 'purged 21')`)
	require.NoError(t, err)
	purged, err = w.prover.Purged(t.Context(), w.acme)
	require.NoError(t, err)
	require.False(t, purged, "somebody else wrote it")
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// idsOf returns the workspace's id, and those of all that is in it: not of people, who stay.
func (w *site) idsOf(workspace events.ID) map[string]bool {
	rows, _ := w.db.Query(w.t.Context(), `
		select stream::text from events where workspace_id = $1 union select id::text from events where workspace_id = $1
		union select member_id::text from members where workspace_id = $1 union select $1::text`, workspace)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(w.t, err)
	ids := map[string]bool{}
	for _, id := range list {
		ids[id] = true
	}
	return ids
}

// dump returns the rows of all tables as text.
func (w *site) dump() map[string]string {
	rows, _ := w.db.Query(w.t.Context(), `select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace`)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(w.t, err)
	require.Greater(w.t, len(tables), 50)
	all := map[string]string{}
	for _, table := range tables {
		var text string
		query := fmt.Sprintf(`select coalesce(string_agg(t::text, e'\n'), '') from %s t`, table)
		require.NoError(w.t, w.db.QueryRow(w.t.Context(), query).Scan(&text))
		all[table] = text
	}
	return all
}

// others returns a digest of the events and members of other workspaces.
func (w *site) others() (digest string) {
	require.NoError(w.t, w.db.QueryRow(w.t.Context(), `
		select (select md5(string_agg(e::text, '' order by workspace_id, seq)) from events e where workspace_id <> $1) ||
			(select md5(string_agg(m::text, '' order by member_id)) from members m where workspace_id <> $1)`, w.acme).Scan(&digest))
	return digest
}
