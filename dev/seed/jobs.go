package seed

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/vault"
)

// SubmitJobs gives the build farm of the demonstration a few jobs that its runs have had, unless it has had jobs. It does
// nothing in another database.
func SubmitJobs(ctx context.Context, url string, ring vault.Ring, now time.Time) error {
	s, err := open(ctx, url, ring, now)
	if err != nil {
		return err
	}
	defer s.close()
	s.at = now
	state, err := s.state()
	if err != nil || state != complete {
		return err
	}
	if err := s.submitJobs(); err != nil {
		return fmt.Errorf("submit jobs: %w", err)
	}
	return nil
}

func (s *seed) submitJobs() error {
	type row struct {
		Workspace, Job events.ID
		Name, Repo     string
	}
	rows, _ := s.db.Query(s.ctx, `
		select r.workspace_id, (j->>'id')::uuid, j->>'name', r.repo_name
		from runs r join workspaces w using (workspace_id), jsonb_array_elements(r.detail::jsonb->'jobs') j
		where w.slug = 'acme' and r.active and (j->>'status' = 'succeeded' or r.issue_title = $1)
			and not exists (select from jobs f where f.workspace_id = r.workspace_id)
		order by r.issue_number limit 3`, stuckTitle)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		return err
	}
	for _, r := range list {
		spec, err := farm.CheckJob(events.JobSpec{
			Name: r.Name, Steps: jobSteps(r.Repo), Sandbox: events.JobSandbox{Kind: "none"},
			Timeouts: events.JobTimeouts{QueueSeconds: 24 * 3600, RunSeconds: 600, CancelGraceSeconds: 10},
			Retry:    events.JobRetry{MaxAttempts: 3},
		})
		if err != nil {
			return err
		}
		_, err = s.commands.SubmitJob(s.ctx, commands.SubmitJob{
			Meta: demoWorkspace{id: r.Workspace}.bySystem("loop"), Job: r.Job, Spec: spec,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// jobSteps print what a build with its tests would.
func jobSteps(repo string) []events.JobStep {
	return []events.JobStep{
		{Name: "Build and test", Run: `echo '$ go build ./... && go test ./...'
green() { printf '\033[32m%s\033[0m\n' "$1"; }
green 'ok  	` + repo + `/billing	4.820s'
printf '\033[2m?   	` + repo + `/cmd/server	[no test files]\033[0m\n'
echo '=== RUN   TestExportKeepsMemoryFlat'
echo '    export_test.go:88: 25,000 rows, peak 37 MiB'
echo '    export_test.go:88: 100,000 rows, peak 38 MiB'
green '--- PASS: TestExportKeepsMemoryFlat (1.31s)'
printf '\033[33m--- SKIP: TestExportToBucket (0.00s): S3 is not configured\033[0m\n'
green 'ok  	` + repo + `/export	18.204s'
green 'ok  	` + repo + `/reports	6.071s'`},
	}
}
