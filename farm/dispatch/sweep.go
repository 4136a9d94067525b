package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
)

const (
	sweepPage   = 200              // rows per step of a sweep
	stepTimeout = time.Minute      // for one step of a sweep
	dueTime     = 15 * time.Second // after which a sweep begins no more due jobs: the next one goes on
)

// Run sweeps periodically while this process is the leader, until ctx ends or the dispatcher is
// closed. Leases and presence have a loop of their own, which does not wait for the reading of logs.
func (d *Dispatcher) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, s := range d.sweeps() {
		running.Go(func() { s.run(ctx) })
	}
	running.Wait()
}

// SweepOnce sweeps once, whoever is the leader, for tests here and in test/plans.
func (d *Dispatcher) SweepOnce(ctx context.Context) {
	for _, s := range d.sweeps() {
		s.round(ctx)
	}
}

// A sweep does what deadlines require of jobs and runners. Each step is idempotent and finds again
// what an earlier step, or a process that died, has left undone.
type sweep struct {
	d                     *Dispatcher
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
func (d *Dispatcher) sweeps() []*sweep {
	urgent, slow := &sweep{d: d, retryAt: map[events.ID]time.Time{}}, &sweep{d: d, retryAt: map[events.ID]time.Time{}}
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
	ticker := time.NewTicker(s.d.SweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.d.stopping:
			return
		case <-ticker.C:
		}
		if s.d.Leads(Leadership) {
			s.round(ctx)
		}
	}
}

// round takes each step once.
func (s *sweep) round(ctx context.Context) {
	now := s.d.Now()
	for _, step := range s.steps {
		limited, cancel := context.WithTimeout(ctx, stepTimeout)
		if err := step.do(limited, now); err != nil && ctx.Err() == nil {
			s.d.warn("sweep", err, "step", step.what)
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
	done, err := s.d.DB.Exec(ctx, `
		update job_leases l set fenced = true from (
			select workspace_id, job_id from job_leases where not fenced and renewed_at < $1
			order by workspace_id, job_id limit $2 for update) k
		where l.workspace_id = k.workspace_id and l.job_id = k.job_id`, now.Add(-s.d.LeaseTime), sweepPage)
	if err != nil {
		return fmt.Errorf("fence expired leases: %w", err)
	}
	s.d.counts.fenced.Add(done.RowsAffected())
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
		_, err := s.d.Commands.LoseLease(ctx, commands.LoseLease{Meta: commands.SystemMeta(r.Workspace), Job: r.ID, Epoch: r.Epoch})
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
		_, err := s.d.Commands.TimeOutJob(ctx, commands.TimeOutJob{Meta: commands.SystemMeta(r.Workspace), Job: r.ID, Silent: true})
		return err
	}, `
		select j.workspace_id, j.job_id, j.epoch from jobs j
		left join runner_presence p on p.workspace_id = j.workspace_id and p.runner_id = j.runner_id
		where j.state = 'cancelling' and coalesce(p.seen_at, '-infinity') < $2 and not j.job_id = any($3) limit $1`,
		sweepPage, now.Add(-s.d.OfflineAfter), s.retrying())
}

// fenceJob fences the lease of one epoch.
func (s *sweep) fenceJob(ctx context.Context, r ref) error {
	_, err := s.d.DB.Exec(ctx, `update job_leases set fenced = true where workspace_id = $1 and job_id = $2 and epoch = $3`,
		r.Workspace, r.ID, r.Epoch)
	if err != nil {
		return fmt.Errorf("fence the lease of job %s: %w", r.ID, err)
	}
	return nil
}

// markOffline marks silent runners offline. Those that come and go too often have to wait for their
// rate limit.
func (s *sweep) markOffline(ctx context.Context, now time.Time) error {
	return s.each(ctx, now, func(ctx context.Context, r ref) error {
		limit := s.d.announcements.limit(r.ID)
		if limit.TokensAt(now) < 1 {
			s.retryAt[r.ID] = now.Add(retryDelay)
			return nil
		}
		done, err := s.d.Commands.DisconnectRunner(ctx, commands.DisconnectRunner{
			Meta: commands.SystemMeta(r.Workspace), Runner: r.ID, Reason: events.OfflineDisconnected,
		})
		if err != nil && !errors.Is(err, aggregates.ErrNoRunner) {
			return err
		}
		if !done.Idle {
			limit.AllowN(now, 1)
		}
		_, err = s.d.DB.Exec(ctx, `update runner_presence set online = false where workspace_id = $1 and runner_id = $2 and seen_at < $3`,
			r.Workspace, r.ID, now.Add(-s.d.OfflineAfter))
		if err != nil {
			return fmt.Errorf("mark runner %s offline: %w", r.ID, err)
		}
		return nil
	}, `select workspace_id, runner_id, 0 from runner_presence where online and seen_at < $2 and not runner_id = any($3) limit $1`,
		sweepPage, now.Add(-s.d.OfflineAfter), s.retrying())
}

// retireRunners retires runners that have taken all jobs they were enrolled for, once nothing of
// those is outstanding. A job that is back in the queue goes to another runner.
func (s *sweep) retireRunners(ctx context.Context, now time.Time) error {
	return s.each(ctx, now, func(ctx context.Context, r ref) error {
		_, err := s.d.Commands.RetireRunner(ctx, commands.RetireRunner{Meta: commands.SystemMeta(r.Workspace), Runner: r.ID})
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
	rows, _ := s.d.DB.Query(ctx, sql, args...)
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
		if s.d.DB.Ping(ctx) != nil {
			return err
		}
		s.retryAt[workspace] = now.Add(retryDelay)
	}
	s.retryAt[id] = now.Add(retryDelay)
	s.d.warn("sweep", err, "id", id)
	return nil
}

const retryDelay = 10 * time.Second
