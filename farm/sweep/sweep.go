// Package sweep does what deadlines require of the jobs and runners of all workspaces: it takes jobs of silent runners
// away, ends what took too long, seals logs, and removes what is old.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/time/rate"

	"svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/farm/jobinput"
	"svc/farm/joblog"
	"svc/fault"
)

const (
	sweepPage   = 200              // rows per step of a sweep
	stepTimeout = time.Minute      // for one step of a sweep
	dueTime     = 15 * time.Second // after which a sweep begins no more due jobs: the next one goes on
)

// A Config holds what sweeps work with. [svc/farm/dispatch.Config] describes most of it.
type Config struct {
	DB       *pgxpool.Pool
	Commands *commands.Handler
	Logs     *joblog.Logs
	Leads    func(name string) bool
	Now      func() time.Time
	Stopping <-chan struct{} // closed when no more sweeps begin

	// Decline records that a runner did not answer.
	Decline func(ctx context.Context, workspace, runner events.ID, reason string) error

	// Announcements returns the limit on what the log says about a runner's connections.
	Announcements func(runner events.ID) *rate.Limiter

	Fenced func(leases int64) // counts expired leases
	Warn   func(what string, err error, args ...any)

	RemoveFiles       func(ctx context.Context, workspace, job events.ID) error
	LogRetention      time.Duration
	ArtifactRetention time.Duration
	LeaseTime         time.Duration
	OfflineAfter      time.Duration
	SweepEvery        time.Duration
}

func (c Config) inputs() jobinput.Inputs { return jobinput.Inputs{DB: c.DB, Now: c.Now} }

// Leadership is the name under which one process is elected to sweep. See [Config.Run].
const Leadership = "farm"

// Run sweeps periodically while this process is the leader, until ctx ends or sweeps are stopped.
// Leases and presence have a loop of their own, which does not wait for the reading of logs.
func (c Config) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, s := range c.sweeps() {
		running.Go(func() { s.run(ctx) })
	}
	running.Wait()
}

// Once sweeps once, whoever is the leader, as if the steps of the jobs and runners in failed had just failed. It is for tests.
func (c Config) Once(ctx context.Context, failed ...events.ID) {
	for _, s := range c.sweeps() {
		for _, id := range failed {
			s.retryAt[id] = c.Now().Add(time.Hour)
		}
		s.round(ctx)
	}
}

// A sweep does what deadlines require of jobs and runners. Each step is idempotent and finds again
// what an earlier step, or a process that died, has left undone.
type sweep struct {
	Config
	steps                 []step
	retryAt               map[events.ID]time.Time // when to retry jobs and runners whose step failed, and locked workspaces
	retainedAt            time.Time
	artifactsAt, inputsAt time.Time // of the last search for old artifacts and inputs that found none left
}

type step struct {
	what string
	do   func(context.Context, time.Time) error
}

// sweeps returns the sweep of leases and presence, and that of everything that may take longer.
func (c Config) sweeps() []*sweep {
	urgent, slow := &sweep{Config: c, retryAt: map[events.ID]time.Time{}}, &sweep{Config: c, retryAt: map[events.ID]time.Time{}}
	urgent.steps = []step{
		{"fence expired leases", urgent.fenceExpired}, {"take jobs of fenced leases away", urgent.loseJobs},
		{"end cancelled jobs of silent runners", urgent.endSilentCancelled}, {"mark silent runners offline", urgent.markOffline},
	}
	slow.steps = []step{
		{"handle due jobs", slow.handleDue}, {"retire runners", slow.retireRunners}, {"remove old logs", slow.removeOldLogs},
		{"remove old artifacts", slow.removeOldArtifacts}, {"remove old inputs", slow.removeOldInputs},
	}
	return []*sweep{urgent, slow}
}

func (s *sweep) run(ctx context.Context) {
	ticker := time.NewTicker(s.SweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.Stopping:
			return
		case <-ticker.C:
		}
		if s.Leads(Leadership) {
			s.round(ctx)
		}
	}
}

// round takes each step once.
func (s *sweep) round(ctx context.Context) {
	now := s.Now()
	for _, step := range s.steps {
		limited, cancel := context.WithTimeout(ctx, stepTimeout)
		if err := step.do(limited, now); err != nil && ctx.Err() == nil {
			s.Warn("sweep", err, "step", step.what)
		}
		cancel()
	}
	for id, at := range s.retryAt {
		if at.Before(now) {
			delete(s.retryAt, id)
		}
	}
}

// fenceExpired fences the leases that were not renewed in time, so that no heartbeat renews them.
// Only after that is the log changed.
func (s *sweep) fenceExpired(ctx context.Context, now time.Time) error {
	done, err := s.DB.Exec(ctx, `
		update job_leases l set fenced = true from (
			select workspace_id, job_id from job_leases where not fenced and renewed_at < $1
			order by workspace_id, job_id limit $2 for update) k
		where l.workspace_id = k.workspace_id and l.job_id = k.job_id`, now.Add(-s.LeaseTime), sweepPage)
	if err != nil {
		return fmt.Errorf("fence expired leases: %w", err)
	}
	s.Fenced(done.RowsAffected())
	return nil
}

// A ref identifies a job and its epoch, or a runner.
type ref struct {
	Workspace, ID events.ID
	Epoch         int
}

// loseJobs takes jobs with fenced leases away from their runners. It skips sealed leases: the log
// of a job that a runner holds is never sealed.
func (s *sweep) loseJobs(ctx context.Context, now time.Time) error {
	return s.each(ctx, now, func(ctx context.Context, r ref) error {
		_, err := s.Commands.LoseLease(ctx, commands.LoseLease{Meta: commands.SystemMeta(r.Workspace), Job: r.ID, Epoch: r.Epoch})
		return err
	}, `
		select l.workspace_id, l.job_id, l.epoch from job_leases l cross join lateral (
			select from jobs j where j.workspace_id = l.workspace_id and j.job_id = l.job_id and j.epoch = l.epoch
			and j.state in ('leased', 'running', 'cancelling') offset 0) j
		where l.fenced and l.sealed_at is null and not l.job_id = any($2) limit $1`, sweepPage, s.retrying())
}

// endSilentCancelled ends cancelled jobs whose runner is silent.
func (s *sweep) endSilentCancelled(ctx context.Context, now time.Time) error {
	return s.each(ctx, now, func(ctx context.Context, r ref) error {
		if err := s.fenceJob(ctx, r); err != nil {
			return err
		}
		_, err := s.Commands.TimeOutJob(ctx, commands.TimeOutJob{Meta: commands.SystemMeta(r.Workspace), Job: r.ID, Silent: true})
		return err
	}, `
		select j.workspace_id, j.job_id, j.epoch from jobs j
		left join runner_presence p on p.workspace_id = j.workspace_id and p.runner_id = j.runner_id
		where j.state = 'cancelling' and coalesce(p.seen_at, '-infinity') < $2 and not j.job_id = any($3) limit $1`,
		sweepPage, now.Add(-s.OfflineAfter), s.retrying())
}

// fenceJob fences the lease of one epoch.
func (s *sweep) fenceJob(ctx context.Context, r ref) error {
	_, err := s.DB.Exec(ctx, `update job_leases set fenced = true where workspace_id = $1 and job_id = $2 and epoch = $3`,
		r.Workspace, r.ID, r.Epoch)
	return fault.Wrap(err, "fence the lease of job %s", r.ID)
}

// markOffline marks silent runners offline. Those that come and go too often have to wait for their
// rate limit.
func (s *sweep) markOffline(ctx context.Context, now time.Time) error {
	return s.each(ctx, now, func(ctx context.Context, r ref) error {
		limit := s.Announcements(r.ID)
		if limit.TokensAt(now) < 1 {
			s.retryAt[r.ID] = now.Add(retryDelay)
			return nil
		}
		done, err := s.Commands.DisconnectRunner(ctx, commands.DisconnectRunner{
			Meta: commands.SystemMeta(r.Workspace), Runner: r.ID, Reason: events.OfflineDisconnected,
		})
		if err != nil && !errors.Is(err, farm.ErrNoRunner) {
			return err
		}
		if !done.Idle {
			limit.AllowN(now, 1)
		}
		_, err = s.DB.Exec(ctx, `update runner_presence set online = false where workspace_id = $1 and runner_id = $2 and seen_at < $3`,
			r.Workspace, r.ID, now.Add(-s.OfflineAfter))
		return fault.Wrap(err, "mark runner %s offline", r.ID)
	}, `select workspace_id, runner_id, 0 from runner_presence where online and seen_at < $2 and not runner_id = any($3) limit $1`,
		sweepPage, now.Add(-s.OfflineAfter), s.retrying())
}

// retireRunners retires runners that have taken all jobs they were enrolled for, once nothing of
// those is outstanding. A job that is back in the queue goes to another runner.
func (s *sweep) retireRunners(ctx context.Context, now time.Time) error {
	return s.each(ctx, now, func(ctx context.Context, r ref) error {
		_, err := s.Commands.RetireRunner(ctx, commands.RetireRunner{Meta: commands.SystemMeta(r.Workspace), Runner: r.ID})
		return err
	}, `
		select r.workspace_id, r.runner_id, 0 from runners r
		where r.jobs_left = 0 and r.state not in ('suspended', 'revoked', 'retired') and not r.runner_id = any($2)
		and not exists (
			select 1 from jobs j where j.workspace_id = r.workspace_id and j.runner_id = r.runner_id
			and (j.state in ('leased', 'running', 'cancelling') or j.state <> 'queued' and j.due_at is not null)) limit $1`, sweepPage, s.retrying())
}

// each calls do for every row of a query. An item that fails does not stop the others, and is
// retried later.
func (s *sweep) each(ctx context.Context, now time.Time, do func(context.Context, ref) error, sql string, args ...any) error {
	rows, _ := s.DB.Query(ctx, sql, args...)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ref])
	if err != nil {
		return fmt.Errorf("look for jobs or runners: %w", err)
	}
	for _, r := range list {
		if err := s.try(ctx, now, r.Workspace, r.ID, func() error { return do(ctx, r) }); err != nil {
			return err
		}
	}
	return nil
}

// try calls do for a job or runner, unless that failed recently. If the log of its workspace is
// locked, the other jobs and runners of the workspace wait too, as each would wait for the lock in
// turn. try returns an error only if the database is away or ctx has ended.
func (s *sweep) try(ctx context.Context, now time.Time, workspace, id events.ID, do func() error) error {
	if now.Before(s.retryAt[id]) {
		return nil
	}
	if at := s.retryAt[workspace]; now.Before(at) {
		s.retryAt[id] = at
		return nil
	}
	err := do()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return err
	}
	if fault.IsUnavailable(err) {
		if s.DB.Ping(ctx) != nil {
			return err
		}
		s.retryAt[workspace] = now.Add(retryDelay)
	}
	s.retryAt[id] = now.Add(retryDelay)
	s.Warn("sweep", err, "id", id)
	return nil
}

const retryDelay = 10 * time.Second
