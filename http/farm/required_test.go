package farm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections/farmviews"
)

// The manifest lacks an artifact that the job requires: the files in it are kept, and the job
// fails.
func TestManifestWithoutRequiredArtifactFailsJob(t *testing.T) {
	_, change := stored(t)
	s := newSite(t, change)
	u := &upload{site: s, epoch: 1}
	u.runner, u.certificate = s.enrol(t)
	u.job = s.run(t, u.runner, events.JobArtifactSpec{Name: "docs", Paths: []string{"docs"}, Required: true})
	u.finish(t, 2)
	view := func() farmviews.Job {
		j, ok, err := farmviews.Jobs{DB: u.db}.Get(t.Context(), u.workspace, u.job)
		require.NoError(t, err)
		require.True(t, ok)
		return j
	}
	require.Equal(t, events.JobStateSucceeded, view().State)
	u.send(t, u.a, manifestPart(u.manifest([]byte("a"))), part{"f0.0", []byte("a")}).is(t, 200, "")

	j := view()
	require.Equal(t, events.JobStateFailed, j.State)
	require.Equal(t, events.ArtifactMissing, j.Outcome.Reason)
	require.Equal(t, string(events.JobStateFailed), j.Attempts[0].Ended)
	require.Equal(t, "complete", j.Artifacts.State)
	require.Equal(t, map[string][]byte{"dist/0": []byte("a")}, u.readable(t))
	u.send(t, u.a, manifestPart(u.manifest([]byte("a")))).is(t, 200, "") // a repetition has no effect
	require.Equal(t, []string{"artifacts_declared", "artifact_stored", "artifacts_completed"}, u.happened(t))
}
