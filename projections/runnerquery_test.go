package projections

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
)

func TestARunnerThatDoesNotConnectIsOffline(t *testing.T) {
	t.Parallel()
	enrolled := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	r := Runner{State: events.RunnerStateEnrolled, EnrolledAt: enrolled, ChangedAt: enrolled}
	require.Equal(t, r, r.At(enrolled.Add(30*time.Second-1)))
	late := enrolled.Add(30 * time.Second)
	want := Runner{State: events.RunnerStateOffline, OfflineReason: events.OfflineWithoutCertificate, EnrolledAt: enrolled, ChangedAt: late}
	require.Equal(t, want, r.At(late))
	require.Equal(t, want, r.At(late.Add(time.Hour)))
	for _, state := range []events.RunnerState{events.RunnerStateOnline, events.RunnerStateOffline, events.RunnerStateRevoked} {
		r.State = state
		require.Equal(t, r, r.At(late))
	}
}
