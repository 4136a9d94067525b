package farmviews_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/test/world"
)

// The migration makes what machines said of themselves earlier theirs, as the view does, and nothing else.
func TestMigratedRunnerLabelsEqualTheLog(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace, enrollment, runner := world.NewID(), world.NewID(), world.NewID()
	minted := []string{"pool=a", "zone=b"}
	token := events.EnrollmentMinted{Enrollment: enrollment, Labels: minted, ExclusiveLabels: []string{}}
	w.Record(t, world.System, workspace, enrollment, token)
	said := []string{"arch=amd64", "disk=ssd", "os=linux", "pool=a", "pool=prod", "runner=box", "sandbox=none", "zone=b"}
	w.Record(t, world.System, workspace, runner, events.RunnerEnrolled{
		Runner: runner, Name: "box", Enrollment: enrollment, Labels: said, MintedLabels: minted, ExclusiveLabels: []string{},
	})
	want := world.Dump(t, w.DB, "runners")
	_, err := w.DB.Exec(t.Context(), `alter table runners drop column minted_labels`)
	require.NoError(t, err)
	_, err = w.DB.Exec(t.Context(), `update runners set labels = $2 where workspace_id = $1`, workspace, said)
	require.NoError(t, err)
	migration, err := os.ReadFile("../../migrations/0071_runner_labels.sql")
	require.NoError(t, err)
	_, err = w.DB.Exec(t.Context(), string(migration))
	require.NoError(t, err)
	w.DB.Reset()
	require.Equal(t, want, world.Dump(t, w.DB, "runners"))
	require.Contains(t, want[0], "machine:pool=prod")
}
