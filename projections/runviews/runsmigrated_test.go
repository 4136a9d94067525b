package runviews_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/test/world"
)

// The migration makes waits_for of older rows equal to the log.
func TestMigratedRunsEqualTheLog(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace, one, two, lint := world.NewID(), world.NewID(), world.NewID(), world.NewID()
	code := append(stagesEntered(events.StageImplementing), events.RunJobRequested{Job: lint, Name: "lint"},
		events.RunStageEntered{Stage: events.StageImplementing, Attempt: 3})
	built := append(stagesEntered(events.StageBuildFarm), events.RunJobRequested{Job: world.NewID(), Name: "build"},
		events.RunJobRequested{Job: world.NewID(), Name: "test"}, events.RunJobSettled{Job: lint, Status: "failed"})
	asked := []events.Event{events.DecisionRaised{Decision: one, About: events.FactReview}}
	queueAt(t, w, world.Epoch, workspace,
		runScript{web, 1, "x", nil},
		runScript{web, 2, "x", append(append(stagesEntered(events.StageAnalyze), events.RunJobRequested{Job: world.NewID(), Name: "early"}),
			asked...)},
		runScript{web, 3, "x", append(code, built...)},
		runScript{web, 4, "x", append(stagesEntered(events.StageAnalyze), events.DecisionRaised{Decision: two, About: events.FactReview},
			events.DecisionAnswered{Decision: two, About: events.FactReview, Action: "confirm"}, events.RunBranchCreated{Branch: "run/4-x"})})
	_, err := w.DB.Exec(t.Context(), `drop index outcomes_ended_by_repo, outcomes_intervened_by_repo`) // 0057 makes them again
	require.NoError(t, err)
	want := world.Dump(t, w.DB, "runs")

	_, err = w.DB.Exec(t.Context(), `
		alter table runs drop column wait_code, drop column wait_detail, drop column wait_since, drop column open_jobs, drop column tidied,
			drop column branch, drop column budget_cents, drop column budget_compute_ms, drop column budget_rounds,
			drop column job_rounds, drop column waits_for, drop column round;
		create index runs_active on runs (workspace_id, stage, created_at, run_id) where active`)
	require.NoError(t, err)
	for _, name := range []string{"0043_runs_waiting.sql", "0050_job_rounds.sql", "0051_run_budgets.sql", "0057_run_branches.sql",
		"0064_run_waits.sql"} {
		migration, err := os.ReadFile("../../migrations/" + name)
		require.NoError(t, err)
		_, err = w.DB.Exec(t.Context(), string(migration))
		require.NoError(t, err)
	}
	w.DB.Reset()
	require.Equal(t, want, world.Dump(t, w.DB, "runs"))
}
