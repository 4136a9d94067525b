package farmviews

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
)

func TestUnconnectedRunnerIsOffline(t *testing.T) {
	t.Parallel()
	enrolled := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	until := enrolled.AddDate(0, 0, 7)
	r := Runner{State: events.RunnerStateEnrolled, EnrolledAt: enrolled, ChangedAt: enrolled, NotAfter: until}
	require.Equal(t, r, r.At(enrolled.Add(30*time.Second-1)))
	late := enrolled.Add(30 * time.Second)
	want := Runner{
		State: events.RunnerStateOffline, OfflineReason: events.OfflineWithoutCertificate,
		EnrolledAt: enrolled, ChangedAt: late, NotAfter: until,
	}
	require.Equal(t, want, r.At(late))
	require.Equal(t, want, r.At(late.Add(time.Hour)))
	for _, state := range []events.RunnerState{events.RunnerStateOnline, events.RunnerStateOffline, events.RunnerStateRevoked} {
		r.State = state
		require.Equal(t, r, r.At(late))
	}
}

func TestOfflineRunnerWithExpiredCertificate(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		state  events.RunnerState
		reason events.OfflineReason
		after  time.Duration
		want   events.OfflineReason
	}{
		{events.RunnerStateOffline, events.OfflineDisconnected, 0, events.OfflineDisconnected},
		{events.RunnerStateOffline, events.OfflineDisconnected, time.Second, events.OfflineBadCertificate},
		{events.RunnerStateEnrolled, "", time.Second, events.OfflineBadCertificate},
		{events.RunnerStateOffline, events.OfflineDrained, time.Second, events.OfflineDrained},
		{events.RunnerStateOnline, "", time.Second, ""},
		{events.RunnerStateRevoked, "", time.Second, ""},
	} {
		r := Runner{State: c.state, OfflineReason: c.reason, EnrolledAt: until.AddDate(0, 0, -7), NotAfter: until}
		require.Equal(t, c.want, r.At(until.Add(c.after)).OfflineReason, c)
	}
}
