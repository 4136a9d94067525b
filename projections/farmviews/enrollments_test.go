package farmviews_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections/farmviews"
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
	list, total, err := farmviews.Enrollments{DB: w.DB}.Pending(t.Context(), workspace, at, 10, 0)
	require.NoError(t, err)
	require.Equal(t, 1, total)
	require.Len(t, list, 1)
	require.Equal(t, ids[2], list[0].ID)
}
