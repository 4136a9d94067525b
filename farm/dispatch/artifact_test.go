package dispatch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/wire"
	"svc/projections"
)

// The job succeeds and its runner is never heard of again. When the upload is abandoned the job has
// failed if it requires the artifact, and the view has the reason.
func TestJobFailsWithoutRequiredArtifact(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		required bool
		state    events.JobState
		reason   string
	}{
		"required":     {true, events.JobFailed, "artifact_missing"},
		"not required": {false, events.JobSucceeded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			j := &running{site: s, r: s.replica()}
			j.runner = s.enrol(j.r, "builder", 2, 0)
			j.a = dial(t, j.r, s.ws, j.runner)
			j.a.greet()
			s.submit(j.r, func(spec *events.JobSpec) {
				spec.Artifacts = []events.JobArtifactSpec{{Name: "dist", Paths: []string{"dist"}, When: "success", Required: c.required}}
			})
			j.job, j.epoch, _ = j.a.assigned()
			j.begin()
			end := finished("one\n")
			end.Artifacts = 1
			j.a.send(end, j.job, j.epoch, 3)
			j.a.acked(3)

			j.clock.advance(59 * time.Minute)
			j.r.SweepOnce(t.Context())
			require.Equal(t, events.JobSucceeded, s.state(j.job))
			j.clock.advance(2 * time.Minute)
			j.r.SweepOnce(t.Context())
			view, ok, err := projections.Jobs{DB: s.db}.Get(t.Context(), s.ws, j.job)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, c.state, view.State)
			require.Equal(t, c.reason, view.Outcome.Reason)
			require.Equal(t, "succeeded", view.Outcome.Reported)
			require.Equal(t, string(c.state), view.Attempts[0].Ended)
			require.Equal(t, "abandoned", view.Artifacts.State)
			require.Nil(t, view.DueAt, "nothing is awaited")

			j.r.SweepOnce(t.Context())
			require.Equal(t, 1, count(s.kinds(j.job), "artifacts_abandoned"))
			require.Equal(t, 1, count(s.kinds(j.job), "finished"))
			j.a.send(wire.Heartbeat{Held: []wire.Held{{Job: j.job.String(), Epoch: j.epoch}}}, events.ID{}, 0, 0)
			require.Equal(t, wire.Done, body[wire.HeartbeatAck](t, j.a.next(wire.TypeHeartbeatAck)).Held[0].Verdict)
		})
	}
}
