package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
)

const (
	sweepPage  = 200              // of anything that is done in one look at the clock
	sweepLimit = time.Minute      // for one look
	repairTime = 30 * time.Second // between looks for what should not be
)

// Run keeps the time of jobs and runners, while this process leads, until ctx ends.
func (d *Dispatcher) Run(ctx context.Context) {
	again := time.NewTicker(d.Every)
	defer again.Stop()
	s := &sweep{d: d, later: map[events.ID]time.Time{}}
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.leaving:
			return
		case <-again.C:
		}
		if d.Leads(Lease) {
			s.round(ctx)
		}
	}
}

// SweepOnce looks at the clock once, whoever leads.
func (d *Dispatcher) SweepOnce(ctx context.Context) {
	(&sweep{d: d, later: map[events.ID]time.Time{}}).round(ctx)
}

// A sweep does what the clock asks for. Each of its steps finds again what a step before it,
// or a process that died, has left, and changes nothing where that is done.
type sweep struct {
	d                  *Dispatcher
	later              map[events.ID]time.Time // jobs that went wrong, and when to try again
	repaired, retained time.Time
}

func (s *sweep) round(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	now := s.d.Now()
	for _, step := range []struct {
		what string
		do   func(context.Context, time.Time) error
	}{
		{"lease rows that are missing", s.repair}, {"leases that are over", s.fence}, {"jobs of fenced leases", s.lose},
		{"cancelled jobs of silent runners", s.silent}, {"jobs that are due", s.due}, {"runners that are silent", s.offline},
		{"runners that are done", s.retire}, {"logs that are old", s.retain},
	} {
		if err := step.do(ctx, now); err != nil && ctx.Err() == nil {
			s.d.warn("look at the clock", err, "step", step.what)
		}
	}
	for job, at := range s.later {
		if at.Before(now) {
			delete(s.later, job)
		}
	}
}

// repair gives each job that a runner has a lease. There is none only where somebody
// changed the tables by hand: such a job would never be taken away from its runner.
func (s *sweep) repair(ctx context.Context, now time.Time) error {
	if now.Sub(s.repaired) < repairTime {
		return nil
	}
	s.repaired = now
	_, err := s.d.DB.Exec(ctx, `
		insert into job_leases (workspace_id, job_id, epoch, runner_id, renewed_at, fenced)
		select j.workspace_id, j.job_id, j.epoch, j.runner_id, $1, true from jobs j
		where j.state in ('leased', 'running', 'cancelling')
		and not exists (select 1 from job_leases l where l.workspace_id = j.workspace_id and l.job_id = j.job_id and l.epoch >= j.epoch)
		limit $2
		on conflict (workspace_id, job_id) do update set epoch = excluded.epoch, runner_id = excluded.runner_id, fenced = true
		where job_leases.epoch < excluded.epoch`, now, sweepPage)
	return err
}

// fence ends the leases that were not renewed for too long: no heartbeat renews them any
// more. Only after that the log says so.
func (s *sweep) fence(ctx context.Context, now time.Time) error {
	done, err := s.d.DB.Exec(ctx, `
		update job_leases l set fenced = true from (
			select workspace_id, job_id from job_leases where not fenced and renewed_at < $1
			order by workspace_id, job_id limit $2 for update) k
		where l.workspace_id = k.workspace_id and l.job_id = k.job_id`, now.Add(-s.d.LeaseTime), sweepPage)
	s.d.counts.fenced.Add(done.RowsAffected())
	return err
}

// A ref names a job, or a runner, and what has to be known of it.
type ref struct {
	Workspace, ID events.ID
	Epoch         int
}

// lose takes jobs away from runners whose leases were fenced. The log of a job that a runner has
// is never sealed.
func (s *sweep) lose(ctx context.Context, now time.Time) error {
	return s.each(ctx, now, func(ctx context.Context, r ref) error {
		_, err := s.d.Commands.LoseLease(ctx, commands.LoseLease{Meta: system(r.Workspace), Job: r.ID, Epoch: r.Epoch})
		return err
	}, `
		select l.workspace_id, l.job_id, l.epoch from job_leases l cross join lateral (
			select from jobs j where j.workspace_id = l.workspace_id and j.job_id = l.job_id and j.epoch = l.epoch
			and j.state in ('leased', 'running', 'cancelling') offset 0) j
		where l.fenced and l.sealed_at is null limit $1`, sweepPage)
}

// silent ends jobs that were cancelled and whose runner says nothing any more.
func (s *sweep) silent(ctx context.Context, now time.Time) error {
	return s.each(ctx, now, func(ctx context.Context, r ref) error {
		if err := s.fenceJob(ctx, r); err != nil {
			return err
		}
		_, err := s.d.Commands.TimeOutJob(ctx, commands.TimeOutJob{Meta: system(r.Workspace), Job: r.ID, Silent: true})
		return err
	}, `
		select j.workspace_id, j.job_id, j.epoch from jobs j
		left join runner_presence p on p.workspace_id = j.workspace_id and p.runner_id = j.runner_id
		where j.state = 'cancelling' and coalesce(p.seen_at, '-infinity') < $2 limit $1`, sweepPage, now.Add(-s.d.Silent))
}

// fenceJob ends the lease of an epoch.
func (s *sweep) fenceJob(ctx context.Context, r ref) error {
	_, err := s.d.DB.Exec(ctx, `update job_leases set fenced = true where workspace_id = $1 and job_id = $2 and epoch = $3`,
		r.Workspace, r.ID, r.Epoch)
	if err != nil {
		return fmt.Errorf("fence the lease of job %s: %w", r.ID, err)
	}
	return nil
}

// offline says which runners are not there any more. Of one that comes and goes too often it
// waits to say so.
func (s *sweep) offline(ctx context.Context, now time.Time) error {
	return s.each(ctx, now, func(ctx context.Context, r ref) error {
		limit := s.d.changes.limit(r.ID)
		if limit.TokensAt(now) < 1 {
			s.later[r.ID] = now.Add(tryLater)
			return nil
		}
		done, err := s.d.Commands.DisconnectRunner(ctx, commands.DisconnectRunner{
			Meta: system(r.Workspace), Runner: r.ID, Reason: events.OfflineDisconnected,
		})
		if err != nil && !errors.Is(err, aggregates.ErrNoRunner) {
			return err
		}
		if !done.Idle {
			limit.AllowN(now, 1)
		}
		_, err = s.d.DB.Exec(ctx, `update runner_presence set online = false where workspace_id = $1 and runner_id = $2 and seen_at < $3`,
			r.Workspace, r.ID, now.Add(-s.d.Silent))
		return err
	}, `select workspace_id, runner_id, 0 from runner_presence where online and seen_at < $2 and not runner_id = any($3) limit $1`,
		sweepPage, now.Add(-s.d.Silent), s.waiting())
}

// retire ends runners that have taken all jobs which they were enrolled for, once nothing
// of those is awaited. One that is in the queue again another runner will take.
func (s *sweep) retire(ctx context.Context, now time.Time) error {
	return s.each(ctx, now, func(ctx context.Context, r ref) error {
		_, err := s.d.Commands.RetireRunner(ctx, commands.RetireRunner{Meta: system(r.Workspace), Runner: r.ID})
		return err
	}, `
		select r.workspace_id, r.runner_id, 0 from runners r
		where r.jobs_left = 0 and r.state not in ('suspended', 'revoked', 'retired')
		and not exists (
			select 1 from jobs j where j.workspace_id = r.workspace_id and j.runner_id = r.runner_id
			and (j.state in ('leased', 'running', 'cancelling') or j.state <> 'queued' and j.due_at is not null)) limit $1`, sweepPage)
}

// each does something with all that a query finds. What goes wrong with one does not keep
// the others from it, and is tried again a while later.
func (s *sweep) each(ctx context.Context, now time.Time, do func(context.Context, ref) error, sql string, args ...any) error {
	rows, _ := s.d.DB.Query(ctx, sql, args...)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ref])
	if err != nil {
		return err
	}
	for _, r := range list {
		if err := s.try(ctx, now, r.ID, func() error { return do(ctx, r) }); err != nil {
			return err
		}
	}
	return nil
}

// try does something, unless it went wrong a while ago. It has an error only if nothing
// else would work either.
func (s *sweep) try(ctx context.Context, now time.Time, id events.ID, do func() error) error {
	if now.Before(s.later[id]) {
		return nil
	}
	err := do()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil || fault.IsUnavailable(err):
		return err
	}
	s.later[id] = now.Add(tryLater)
	s.d.warn("look at the clock", err, "id", id)
	return nil
}

const tryLater = 10 * time.Second
