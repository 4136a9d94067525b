package jobs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/aggregates/farm"
	"svc/events"
	"svc/farm/joblog"
	"svc/http/rest/schema"
	"svc/projections/farmviews"
)

// A lost job and its unfinished attempts have reasons.
func TestLostJobHasReason(t *testing.T) {
	j := exampleQueuedJob()
	j.State, j.Epoch, j.Attempt = events.JobStateLost, 2, 2
	j.Attempts = []farmviews.JobAttempt{
		{Epoch: 1, Attempt: 1, Ended: "lease_expired", Reason: "lease_expired", Log: &farmviews.JobLog{Integrity: "incomplete"}},
		{Epoch: 2, Attempt: 2, Ended: "lost", Reason: "sandbox_failed", Sent: &events.JobLogSummary{Truncated: true},
			Log: &farmviews.JobLog{Bytes: 4, Integrity: "verified"}},
	}
	out := newJobDetail(newJob(j, jobWait{}), j, exampleJobSpec())
	require.Equal(t, "sandbox_failed", out.Reason)
	require.Equal(t, schema.JobLog{Bytes: 4, Complete: true, Truncated: true, Integrity: "verified"}, out.Log)
	require.Equal(t, "lease_expired", out.Attempts[0].Reason)
	require.Equal(t, schema.JobLog{Complete: true, Integrity: "incomplete"}, out.Attempts[0].Log)
	require.Equal(t, "sandbox_failed", out.Attempts[1].Reason)
	require.Equal(t, out.Log, out.Attempts[1].Log)
}

func TestCommitOfJob(t *testing.T) {
	j, spec := exampleQueuedJob(), exampleJobSpec()
	require.Equal(t, schema.ExampleHead, newJobDetail(newJob(j, jobWait{}), j, spec).Commit)
	spec.Repo = &events.JobRepo{ID: schema.ExampleRepo.ID, Ref: "refs/heads/main"}
	require.Empty(t, newJobDetail(newJob(j, jobWait{}), j, spec).Commit)
	j.Commit = "9f2c41d07be85a3369d1e4c8b7f0a25d6c13e98b"
	require.Equal(t, j.Commit, newJobDetail(newJob(j, jobWait{}), j, spec).Commit)
}

// The time of a cancellation is that of its record, which is later than the time from which its
// deadline was computed.
func TestGraceSecondsOfCancelledJob(t *testing.T) {
	j := exampleQueuedJob()
	j.Cancel = &farmviews.JobCancel{At: epoch.Add(400 * time.Microsecond), Deadline: epoch.Add(30*time.Second + farm.ForceAfter)}
	require.Equal(t, 30, *newJob(j, jobWait{}).Cancel.Grace)
}

// While an attempt runs, its log has the size that the job's log has.
func TestRunningAttemptHasSizeOfItsLog(t *testing.T) {
	j := exampleQueuedJob()
	j.State, j.Epoch, j.Attempt = events.JobStateRunning, 2, 2
	j.Attempts = []farmviews.JobAttempt{
		{Epoch: 1, Attempt: 1, Ended: "lease_expired", Log: &farmviews.JobLog{Bytes: 4, Integrity: "incomplete"}}, {Epoch: 2, Attempt: 2},
	}
	out := newJobDetail(newJob(j, jobWait{}), j, exampleJobSpec())
	liveJob{log: joblog.Size{Bytes: 7}}.addToDetail(&out)
	require.EqualValues(t, 7, out.Log.Bytes)
	require.EqualValues(t, 7, out.Attempts[1].Log.Bytes)
	require.EqualValues(t, 4, out.Attempts[0].Log.Bytes)
}

// Only the service gives jobs an input, and has what they change collected.
func TestSubmissionsHaveNoInput(t *testing.T) {
	t.Parallel()
	schema := described(t).Get("components.schemas.JobRequestBody.properties")
	require.True(t, schema.Get("steps").Exists(), schema.Raw)
	for _, field := range []string{"inputSha256", "collect"} {
		require.False(t, schema.Get(field).Exists(), field)
	}
	b := JobSubmission{Name: "tests", Timeouts: &jobTimeouts{IdleSeconds: 7}}
	require.Equal(t, 7, b.spec().Timeouts.IdleSeconds)
	require.Equal(t, 7, newJobSpec(b.spec()).Timeouts.IdleSeconds)
}
