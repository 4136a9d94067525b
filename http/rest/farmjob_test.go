package rest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections"
)

// A lost job and its unfinished attempts have reasons.
func TestLostJobHasReason(t *testing.T) {
	j := exampleQueuedJob()
	j.State, j.Epoch, j.Attempt = events.JobStateLost, 2, 2
	j.Attempts = []projections.JobAttempt{
		{Epoch: 1, Attempt: 1, Ended: "lease_expired", Reason: "lease_expired", Log: &projections.JobLog{Integrity: "incomplete"}},
		{Epoch: 2, Attempt: 2, Ended: "lost", Reason: "sandbox_failed", Sent: &events.JobLogSummary{Truncated: true},
			Log: &projections.JobLog{Bytes: 4, Integrity: "verified"}},
	}
	out := newJobDetail(newJob(j, jobWait{}), j, exampleJobSpec())
	require.Equal(t, "sandbox_failed", out.Reason)
	require.Equal(t, jobLog{Bytes: 4, Complete: true, Truncated: true, Integrity: "verified"}, out.Log)
	require.Equal(t, "lease_expired", out.Attempts[0].Reason)
	require.Equal(t, jobLog{Complete: true, Integrity: "incomplete"}, out.Attempts[0].Log)
	require.Equal(t, "sandbox_failed", out.Attempts[1].Reason)
	require.Equal(t, out.Log, out.Attempts[1].Log)
}
