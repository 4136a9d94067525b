package projections_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections"
	"svc/test/world"
)

func TestPendingEnrollmentsLeaveOutExpiredOnes(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace := world.NewID()
	var ids []events.ID
	for n := range 3 {
		id := world.NewID()
		ids = append(ids, id)
		w.Record(t, world.System, workspace, id, events.EnrollmentMinted{
			Enrollment: id, Labels: []string{}, ExclusiveLabels: []string{}, ExpiresAt: world.Epoch.Add(time.Duration(n) * time.Minute),
			Fingerprint: events.Fingerprint{byte(n)},
		})
	}
	at := world.Epoch.Add(time.Minute) // the second expires at this moment
	list, total, err := projections.Enrollments{DB: w.DB}.Pending(t.Context(), workspace, at, 10, 0)
	require.NoError(t, err)
	require.Equal(t, 1, total)
	require.Len(t, list, 1)
	require.Equal(t, ids[2], list[0].ID)
}

// The migration counts the use of earlier tokens, as the view does.
func TestMigratedEnrollmentsEqualTheLog(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace, used, waits := world.NewID(), world.NewID(), world.NewID()
	for _, id := range []events.ID{used, waits} {
		w.Record(t, world.System, workspace, id, events.EnrollmentMinted{
			Enrollment: id, Labels: []string{}, ExclusiveLabels: []string{}, ExpiresAt: world.Epoch,
			Fingerprint: events.Fingerprint(append(id[:], id[:]...)),
		})
	}
	w.Record(t, world.System, workspace, used, events.EnrollmentUsed{Enrollment: used, Name: "box", Runner: world.NewID()})
	want := world.Dump(t, w.DB, "enrollments")
	_, err := w.DB.Exec(t.Context(), `alter table enrollments drop column uses, drop column used`)
	require.NoError(t, err)
	migration, err := os.ReadFile("../migrations/0085_enrollments_reusable.sql")
	require.NoError(t, err)
	_, err = w.DB.Exec(t.Context(), string(migration))
	require.NoError(t, err)
	w.DB.Reset()
	require.Equal(t, want, world.Dump(t, w.DB, "enrollments"))
}
