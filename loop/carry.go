package loop

import (
	"context"
	"errors"
	"fmt"

	"svc/commands"
	"svc/engine/client"
	"svc/events"
)

// look loads the run and what surrounds it.
func (r *runner) look(ctx context.Context) (in Surroundings, err error) {
	if r.p, err = r.Commands.Progress(ctx, r.workspace, r.run); err != nil || r.p.Status == "" {
		return in, err
	}
	if r.from, err = r.Commands.Repo(ctx, r.workspace, r.p.Repo.ID); err != nil {
		return in, err
	}
	r.known = r.from.Known()
	paused, _ := r.from.Paused()
	in.Repo = Repo{Connected: r.from.Connected(), Paused: paused.Reason, Host: r.from.Host(), Settings: r.from.Settings()}
	in.Repo.Missed, in.Repo.RetryAt = r.from.Missed()
	r.repo, in.Now = in.Repo, r.Now()
	if in.Jobs, err = r.openJobs(ctx); err != nil {
		return in, err
	}
	if in.Repo.Settings.IssueCents > 0 {
		if in.Issue, err = r.Commands.Issue(ctx, r.workspace, r.p.Repo.ID, r.p.Issue); err != nil {
			return in, err
		}
		r.issue = in.Issue
	}
	if r.p.Stage == events.StageQueued && !r.p.Over() {
		if in.Earlier, err = r.table.earlier(ctx, r.workspace, r.p.Repo.ID, r.p.Issue, r.run); err != nil {
			return in, err
		}
	}
	if r.wantsLook && r.p.Head != "" && r.p.Base != nil && !r.p.Over() && in.Repo.Connected {
		if deleted, err := r.Commands.IsDeleted(ctx, r.workspace); err != nil || deleted {
			return in, err
		}
		in.Look, err = do[client.LookInput, client.LookResult](ctx, r, client.StepLook, client.LookInput{
			Branch: r.p.Branch, Base: r.p.Base.Branch, PullRequest: r.p.PullRequest,
		})
		if err != nil {
			return in, err
		}
		r.wantsLook = false
	}
	return in, nil
}

// openJobs returns the states of the jobs that are not settled.
func (r *runner) openJobs(ctx context.Context) (map[events.ID]JobState, error) {
	states := map[events.ID]JobState{}
	for _, j := range r.p.Jobs {
		if j.State != "" {
			continue
		}
		s, err := r.Commands.RunJobState(ctx, r.workspace, j.Job)
		if err != nil {
			return nil, err
		}
		states[j.Job] = JobState{State: s.State, Settled: s.Closed}
	}
	return states, nil
}

// carryOut makes a move that is not waiting.
func (r *runner) carryOut(ctx context.Context, m Move) error {
	switch {
	case !m.Settle.IsZero():
		failure, err := r.failureOf(ctx, m.Settle)
		if err != nil {
			return err
		}
		_, err = r.Commands.SettleRunJob(ctx, commands.SettleRunJob{
			Meta: r.meta(), Run: r.run, Job: m.Settle, CentsPerMinute: r.CentsPerMinute, Failure: failure,
		})
		return err
	case m.Record != nil:
		return r.record(ctx, m.Record...)
	case m.Ask != nil:
		return r.record(ctx, events.DecisionRaised{
			Decision: events.NewID(r.Now()), About: m.Ask.Kind, Question: m.Ask.Text, Head: m.Ask.Head,
		})
	case m.Claim == ClaimSlot:
		return r.start(ctx)
	case m.Claim == ClaimLane:
		return r.enterLane(ctx)
	case m.Start != nil:
		return r.startJob(ctx, *m.Start)
	case m.Do != nil:
		return r.do(ctx, *m.Do)
	}
	return fmt.Errorf("run %s: a move without anything", r.run)
}

// record records facts, unless the run has moved since it was looked at.
func (r *runner) record(ctx context.Context, facts ...events.Event) error {
	facts = r.withEstimate(ctx, facts)
	_, err := r.Commands.RecordRun(ctx, commands.RecordRun{Meta: r.meta(), Run: r.run, After: r.p.Version, Facts: facts})
	return err
}

// start takes a place among the active runs.
func (r *runner) start(ctx context.Context) error {
	slot, err := r.table.freeSlot(ctx, r.workspace, events.SlotKeys, r.MaxActive)
	if err != nil {
		return err
	}
	repoSlot, err := r.table.freeSlot(ctx, r.workspace, events.RepoSlotKeys(r.p.Repo.ID), r.repo.Settings.MaxActive)
	if err != nil {
		return err
	}
	switch {
	case repoSlot == 0:
		return &waiting{events.WaitSlot, fmt.Sprintf("All %d places of the repository are used.", r.repo.Settings.MaxActive)}
	case slot == 0:
		return &waiting{events.WaitSlot, fmt.Sprintf("All %d places of the workspace are used.", r.MaxActive)}
	}
	_, err = r.Commands.StartRun(ctx, commands.StartRun{Meta: r.meta(), Run: r.run, After: r.p.Version, Slot: slot, RepoSlot: repoSlot})
	if errors.Is(err, commands.ErrSlotTaken) {
		return commands.ErrRunMoved // by another run, so look again
	}
	return err
}

// enterLane takes the turn to merge.
func (r *runner) enterLane(ctx context.Context) error {
	_, err := r.Commands.EnterLane(ctx, commands.EnterLane{Meta: r.meta(), Run: r.run, After: r.p.Version})
	if errors.Is(err, commands.ErrLaneTaken) {
		return &waiting{events.WaitLane, "Another run merges into " + r.p.Base.Branch + "."}
	}
	return err
}

// A waiting is an error that says what the run has to wait for, without anything having failed.
type waiting struct {
	code   events.WaitCode
	detail string
}

func (w *waiting) Error() string { return w.detail }

// do asks the engine for a step, and decodes what it answers.
func do[In, Out any](ctx context.Context, r *runner, kind client.Kind, in In) (*Out, error) {
	return doWith[In, Out](ctx, r, kind, in, nil)
}
