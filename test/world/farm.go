package world

import (
	"context"
	"errors"
	"time"

	"svc/aggregates/farm"
	"svc/commands"
	"svc/commands/bearer"
	"svc/events"
	"svc/farm/certificate"
)

// playFarm enrolls a runner and plays one job for each way in which a job can end or be requeued.
func (p *Player) playFarm(ctx context.Context) error {
	owner := Meta(p.Workspace, p.Owner)
	runner, err := p.enrolRunner(ctx, owner)
	if err != nil {
		return err
	}
	_, _, err = p.Commands.SetFarmSecret(ctx, commands.SetFarmSecret{Meta: owner, Name: "NPM_TOKEN", Value: NewID(),
		Scope: &events.SecretScope{Jobs: []string{"publish"}, Labels: []string{"pool=release"}}})
	if err != nil {
		return err
	}
	var ended events.ID
	for _, ending := range []func(*jobPlay) error{(*jobPlay).succeed, (*jobPlay).loseEveryLease, (*jobPlay).cancel, (*jobPlay).decline} {
		s := &jobPlay{Player: p, ctx: ctx, owner: owner, runner: runner, job: NewID()}
		if err := errors.Join(s.submit(), ending(s)); err != nil {
			return err
		}
		if ended.IsZero() {
			ended = s.job
		}
	}
	if _, err := p.Commands.RetryJob(ctx, commands.RetryJob{Meta: owner, Job: ended, New: NewID()}); err != nil {
		return err
	}
	queued := &jobPlay{Player: p, ctx: ctx, owner: owner, job: NewID()}
	if err := queued.submit(); err != nil {
		return err
	}
	_, err = p.Commands.DrainRunner(ctx, commands.DrainRunner{Meta: owner, Runner: runner.Actor.ID, Note: p.text()})
	return err
}

// enrolRunner enrolls and connects a runner, and returns the metadata for its commands.
func (p *Player) enrolRunner(ctx context.Context, owner commands.Meta) (runner commands.Meta, err error) {
	authority := events.AuthorityCreated{Authority: NewID(), Certificate: "PEM", NotAfter: Epoch.AddDate(10, 0, 0)}
	mint := commands.MintEnrollment{
		Meta: owner, Enrollment: NewID(), Token: bearer.NewEnrollmentToken(), Authority: authority, CapacityLimit: 4, Lasts: time.Hour,
	}
	if _, err := p.Commands.MintEnrollment(ctx, mint); err != nil {
		return runner, err
	}
	hello := farm.Hello{Capacity: 2, Agent: events.Agent{Version: "0.4.0", OS: "linux", Arch: "amd64", Sandboxes: []string{"none"}}}
	r, err := p.Commands.RegisterRunner(ctx, commands.RegisterRunner{
		Token: mint.Token, Authority: authority, Runner: NewID(), Machine: farm.Machine{Name: "builder", Hello: hello},
		Certificate: certificate.NewLeaf(authority.Authority, events.KeyHash{}, Epoch),
	})
	if err != nil {
		return runner, err
	}
	runner = Meta(p.Workspace, events.Actor{Type: events.ByRunner, ID: r.Runner, Name: r.Name})
	_, err = p.Commands.ConnectRunner(ctx, commands.ConnectRunner{Meta: runner, Runner: r.Runner, Hello: hello})
	return runner, err
}

// A jobPlay plays one job, from its submission on. epoch is that of the current lease, and seq the number of
// the last report in it.
type jobPlay struct {
	*Player
	ctx           context.Context
	owner, runner commands.Meta
	job           events.ID
	epoch         int
	seq           int64
}

func (s *jobPlay) submit() error {
	spec, err := farm.CheckJob(events.JobSpec{
		Name: "tests", Steps: []events.JobStep{{Run: "go test ./...", Env: map[string]string{"A": "Ñandú 🐘"}}},
		Sandbox:     events.JobSandbox{Kind: "none"},
		Artifacts:   []events.JobArtifactSpec{{Name: "dist", Paths: []string{"dist/**"}}},
		Concurrency: &events.JobConcurrency{Key: "deploy/" + s.job.String(), Limit: 2},
	})
	if err != nil {
		return err
	}
	_, err = s.Commands.SubmitJob(s.ctx, commands.SubmitJob{Meta: s.owner, Job: s.job, Spec: spec})
	return err
}

// lease leases the job to the runner, which begins a new epoch.
func (s *jobPlay) lease() error {
	s.epoch, s.seq = s.epoch+1, 0
	_, err := s.Commands.LeaseJob(s.ctx, commands.LeaseJob{
		Meta: Meta(s.Workspace, System), Job: s.job, Runner: s.runner.Actor.ID, Slot: 2 - s.epoch%2,
	})
	return err
}

// report reports events of the job, numbered within the epoch.
func (s *jobPlay) report(list ...events.Event) error {
	for _, e := range list {
		s.seq++
		_, err := s.Commands.ReportJob(s.ctx, commands.ReportJob{
			Meta: s.runner, Job: s.job, Runner: s.runner.Actor.ID, Report: farm.JobReport{Epoch: s.epoch, Seq: s.seq, Event: e},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// succeed runs the job to success, stores an artifact and seals the log.
func (s *jobPlay) succeed() error {
	if err := s.lease(); err != nil {
		return err
	}
	_, err := s.Commands.AcceptJob(s.ctx, commands.AcceptJob{Meta: s.runner, Job: s.job, Runner: s.runner.Actor.ID, Epoch: s.epoch})
	if err != nil {
		return err
	}
	code, now := 0, s.Clock.Now()
	err = s.report(events.JobStarted{}, events.JobStepStarted{At: now}, events.JobStepFinished{Outcome: "succeeded", ExitCode: &code, At: now},
		events.JobFinished{Reported: "succeeded", ExitCode: &code, Log: events.JobLogSummary{SHA256: "00"}, Artifacts: 1})
	if err != nil {
		return err
	}
	file := events.JobArtifact{ID: NewID(), Name: "dist", Path: "dist/a", Size: 3, SHA256: "00"}
	declare := commands.DeclareArtifacts{Meta: s.runner, Job: s.job, Runner: s.runner.Actor.ID, Epoch: s.epoch,
		Files: []events.JobArtifact{file}}
	if _, err := s.Commands.DeclareArtifacts(s.ctx, declare); err != nil {
		return err
	}
	_, err = s.Commands.StoreArtifacts(s.ctx, commands.StoreArtifacts{
		Meta: s.runner, Job: s.job, Runner: s.runner.Actor.ID, Epoch: s.epoch, Files: []events.ID{file.ID},
	})
	if err != nil {
		return err
	}
	_, err = s.Commands.SealJobLog(s.ctx, commands.SealJobLog{
		Meta: Meta(s.Workspace, System), Job: s.job, Stored: farm.StoredLog{Epoch: s.epoch, SHA256: "00", CutKnown: true},
	})
	return err
}

// loseEveryLease loses the lease three times, which uses up the attempts of the job.
func (s *jobPlay) loseEveryLease() error {
	for range 3 {
		if err := s.lease(); err != nil {
			return err
		}
		if _, err := s.Commands.LoseLease(s.ctx, commands.LoseLease{Meta: Meta(s.Workspace, System), Job: s.job, Epoch: s.epoch}); err != nil {
			return err
		}
	}
	return nil
}

func (s *jobPlay) cancel() error {
	if err := errors.Join(s.lease(), s.report(events.JobStarted{})); err != nil {
		return err
	}
	if _, err := s.Commands.CancelJob(s.ctx, commands.CancelJob{Meta: s.owner, Job: s.job, Reason: "superseded"}); err != nil {
		return err
	}
	return s.report(events.JobFinished{Reported: "cancelled"})
}

// decline declines the lease, which requeues the job.
func (s *jobPlay) decline() error {
	if err := s.lease(); err != nil {
		return err
	}
	_, err := s.Commands.DeclineJob(s.ctx,
		commands.DeclineJob{Meta: s.runner, Job: s.job, Runner: s.runner.Actor.ID, Epoch: s.epoch, Reason: "busy"})
	return err
}
