package farmviews_test

import (
	"crypto/sha256"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/migrations"
	"svc/projections"
	"svc/projections/farmviews"
	"svc/test/pgtest"
	"svc/test/world"
)

var farmCounts = []string{"runner_counts", "enrollment_counts"}

// Machines that an older build had enrolled are counted, and new ones are added to that.
func TestMachinesOfOlderBuildsAreCounted(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	require.NoError(t, pgtest.MigrationsBefore(t, "../../migrations", "0047").Migrate(t.Context(), conn, io.Discard))

	db := world.Connect(t, url)
	_, err = db.Exec(t.Context(), `
		alter table runners add column minted_labels text[] not null default '{}'; -- this build writes it, and those below
		alter table enrollments add column uses int not null default 1, add column used int not null default 0`)
	require.NoError(t, err)
	one, other := world.NewID(), world.NewID()
	uncounted := slices.DeleteFunc(projections.Inline(), func(v store.View) bool {
		return slices.Contains(farmCounts, v.(interface{ Name() string }).Name())
	})
	log := store.New(db, uncounted, func(events.ID, int64) {})
	defer log.Close()
	for range 3 {
		enrol(t, log, one)
	}
	enrol(t, log, other)
	_, err = db.Exec(t.Context(), `
		alter table runners drop column minted_labels;
		alter table enrollments drop column uses, drop column used`)
	require.NoError(t, err)

	require.NoError(t, migrations.Migrate(t.Context(), conn, io.Discard))
	db.Reset()
	counting := store.New(db, projections.Inline(), func(events.ID, int64) {})
	defer counting.Close()
	requireMachines(t, db, one, 3)
	enrol(t, counting, one)
	requireMachines(t, db, one, 4)
	requireMachines(t, db, other, 1)
	requireMachines(t, db, world.NewID(), 0)
	for _, workspace := range []events.ID{one, other} {
		require.Empty(t, world.Compare(t, db, workspace).Differences)
	}
	for _, name := range farmCounts {
		rows := world.Dump(t, db, name)
		require.Len(t, rows, 2)
		_, err := db.Exec(t.Context(), `delete from `+name+` where workspace_id = $1`, one)
		require.NoError(t, err)
		require.NotEmpty(t, world.Compare(t, db, one).Differences, "it is noticed")
		world.Rebuild(t, db, world.View(t, name))
		require.Equal(t, rows, world.Dump(t, db, name), name)
	}
}

// enrol enrols a machine as a runner of a workspace.
func enrol(t *testing.T, log *store.Store, workspace events.ID) {
	t.Helper()
	enrollment, runner := world.NewID(), world.NewID()
	token := events.Fingerprint(sha256.Sum256([]byte(enrollment.String())))
	_, err := log.Append(t.Context(), &events.Commit{
		Workspace: workspace, Envelope: events.Envelope{Actor: world.System}, At: world.Epoch,
		Claims: []events.Claim{{Key: events.EnrollmentKey(token), Owner: enrollment, Global: true}},
		Writes: []events.Write{
			{Stream: enrollment, Events: []events.Event{
				events.EnrollmentMinted{
					Enrollment: enrollment, Labels: []string{}, ExclusiveLabels: []string{}, ExpiresAt: world.Epoch.Add(time.Hour), Fingerprint: token,
				},
				events.EnrollmentUsed{Enrollment: enrollment, Name: "builder", Runner: runner},
			}},
			{Stream: runner, Events: []events.Event{
				events.RunnerEnrolled{Runner: runner, Name: "builder", Enrollment: enrollment, Labels: []string{}, ExclusiveLabels: []string{}},
				events.RunnerRevoked{Runner: runner, Name: "builder"}, // stays in the list
			}},
		},
	})
	require.NoError(t, err)
}

// requireMachines requires that the lists report n runners and enrollments.
func requireMachines(t *testing.T, db *pgxpool.Pool, workspace events.ID, n int) {
	t.Helper()
	_, total, err := farmviews.Runners{DB: db}.Page(t.Context(), workspace, "", 1, 0)
	require.NoError(t, err)
	require.Equal(t, n, total)
	_, total, err = farmviews.Enrollments{DB: db}.Page(t.Context(), workspace, world.Epoch, 1, 0)
	require.NoError(t, err)
	require.Equal(t, n, total)
}
