package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/farm/dispatch"
	"svc/farm/wire"
	"svc/projections/farmviews"
)

// newRunningWith returns a running job that leaves an artifact.
func newRunningWith(t *testing.T, artifact events.JobArtifactSpec) *running {
	t.Helper()
	s := newSite(t)
	j := &running{site: s, r: s.replica()}
	j.runner = s.enrol(j.r, "builder", 2, 0)
	j.a = dial(t, j.r, s.ws, j.runner)
	j.a.greet()
	s.submit(j.r, func(spec *events.JobSpec) { spec.Artifacts = []events.JobArtifactSpec{artifact} })
	j.job, j.epoch, _ = j.a.assigned()
	j.begin()
	return j
}

// newStored returns a job that has just left one artifact, completely stored, and a replica that removes those of 90
// days, and counts the jobs whose files it removed.
func newStored(t *testing.T) (j *running, r *replica, removed *int, file events.ID) {
	t.Helper()
	j = newRunningWith(t, events.JobArtifactSpec{Name: "dist", Paths: []string{"dist"}, When: "success"})
	end := finished("one\n")
	end.Artifacts = 1
	j.a.send(end, j.job, j.epoch, 3)
	j.a.acked(3)
	removed = new(int)
	r = j.replica(func(c *dispatch.Config) {
		c.ArtifactRetention = 90 * 24 * time.Hour
		c.RemoveFiles = func(context.Context, events.ID, events.ID) error { *removed++; return nil }
	})
	f := events.JobArtifact{ID: newID(), Name: "dist", Path: "dist/a", Size: 1}
	_, err := r.DeclareArtifacts(t.Context(), commands.DeclareArtifacts{
		Meta: systemMeta(j.ws), Job: j.job, Runner: j.runner, Epoch: j.epoch, Files: []events.JobArtifact{f},
	})
	require.NoError(t, err)
	_, err = r.StoreArtifacts(t.Context(), commands.StoreArtifacts{
		Meta: systemMeta(j.ws), Job: j.job, Runner: j.runner, Epoch: j.epoch, Files: []events.ID{f.ID},
	})
	require.NoError(t, err)
	return j, r, removed, f.ID
}

// The job succeeds and its runner is never heard of again. When the upload is abandoned the job has
// failed if it requires the artifact, and the view has the reason.
func TestJobFailsWithoutRequiredArtifact(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		required bool
		state    events.JobState
		reason   string
	}{
		"required":     {true, events.JobStateFailed, "artifact_missing"},
		"not required": {false, events.JobStateSucceeded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newRunningWith(t, events.JobArtifactSpec{Name: "dist", Paths: []string{"dist"}, When: "success", Required: c.required})
			s := j.site
			end := finished("one\n")
			end.Artifacts = 1
			j.a.send(end, j.job, j.epoch, 3)
			j.a.acked(3)

			j.clock.advance(59 * time.Minute)
			j.r.SweepOnce(t.Context())
			require.Equal(t, events.JobStateSucceeded, s.state(j.job))
			j.clock.advance(2 * time.Minute)
			j.r.SweepOnce(t.Context())
			view, ok, err := farmviews.Jobs{DB: s.db}.Get(t.Context(), s.ws, j.job)
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

// Artifacts whose newest file is older than the retention are removed: the event first, then the files.
// If they cannot be removed the event stays, and another sweep removes what it does not name.
func TestOldArtifactsAreRemoved(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"removed": nil, "the store fails": errors.New("broken")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newRunningWith(t, events.JobArtifactSpec{Name: "dist", Paths: []string{"dist"}, When: "success"})
			end := finished("one\n")
			end.Artifacts = 2
			j.a.send(end, j.job, j.epoch, 3)
			j.a.acked(3)
			var removed int
			r := j.replica(func(c *dispatch.Config) {
				c.ArtifactRetention = 7 * 24 * time.Hour
				c.RemoveFiles = func(_ context.Context, workspace, job events.ID) error {
					require.Equal(t, []events.ID{j.ws, j.job}, []events.ID{workspace, job})
					require.Equal(t, 1, count(j.kinds(j.job), "artifacts_removed"), "after the event")
					removed++
					return failure
				}
			})
			files := []events.JobArtifact{
				{ID: events.NewID(j.clock.now()), Name: "dist", Path: "dist/a", Size: 1},
				{ID: events.NewID(j.clock.now()), Name: "dist", Path: "dist/b", Size: 2},
			}
			meta := commands.Meta{Workspace: j.ws, Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "system"}}}
			declare := commands.DeclareArtifacts{Meta: meta, Job: j.job, Runner: j.runner, Epoch: j.epoch, Files: files}
			_, err := r.Commands.DeclareArtifacts(t.Context(), declare)
			require.NoError(t, err)
			for _, f := range files {
				store := commands.StoreArtifacts{Meta: meta, Job: j.job, Runner: j.runner, Epoch: j.epoch, Files: []events.ID{f.ID}}
				_, err := r.Commands.StoreArtifacts(t.Context(), store)
				require.NoError(t, err)
				j.clock.advance(30 * time.Minute)
			}
			view := farmviews.Jobs{DB: j.db}
			stored := func() (state string, rows int) {
				job, _, err := view.Get(t.Context(), j.ws, j.job)
				require.NoError(t, err)
				require.NoError(t, j.db.QueryRow(t.Context(), `select count(*) from job_artifacts`).Scan(&rows))
				return job.Artifacts.State, rows
			}
			j.clock.advance(7*24*time.Hour - 45*time.Minute) // the first file is older, the second is not
			r.SweepOnce(t.Context())
			state, rows := stored()
			require.Equal(t, "complete 2 0", fmt.Sprintf("%s %d %d", state, rows, removed))
			j.clock.advance(time.Hour)
			j.r.SweepOnce(t.Context())
			require.Zero(t, removed, "without a retention they stay")
			for range 2 {
				r.SweepOnce(t.Context())
				state, rows = stored()
				require.Equal(t, "removed 0 1", fmt.Sprintf("%s %d %d", state, rows, removed))
			}
			keep, ok, err := farmviews.AbandonedArtifacts{DB: j.db, Log: r.log}.Stored(t.Context(), j.ws, j.job)
			require.NoError(t, err)
			require.True(t, ok, "what is left of them may be swept")
			require.Empty(t, keep)
		})
	}
}
