package commands

import (
	"context"

	"svc/aggregates"
	"svc/commands/work"
	"svc/events"
)

// AnswerDecision answers a decision that a run waits for.
type AnswerDecision struct {
	Meta `json:"-"`
	Run  events.ID `json:"runId"`
	aggregates.Answer
}

func (c AnswerDecision) denial() events.CommandDenied {
	return denialOf(events.DecisionAnswered{}, c.Decision)
}

func (AnswerDecision) limit() *limit { return onceEach }

// AnswerDecision continues or ends the run as the answer says. It refuses an actor who may
// not answer at the moment at which the answer is stored, a decision that was answered
// before, and an answer about a commit that is no longer the newest.
func (h *Handler) AnswerDecision(ctx context.Context, c AnswerDecision) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onRun(c.Run, func(w *work.Unit, run *aggregates.Run) ([]events.Event, error) {
		kind, err := run.DecisionKind(c.Decision)
		if err != nil {
			return nil, err
		}
		err = work.Inspect(w, c.Workspace, func(ws *aggregates.Workspace) error { return ws.AllowAnswer(c.Actor.ID, kind) })
		if err != nil {
			return nil, err
		}
		if c.Action == aggregates.ActionApproveAndMerge {
			if err := allowApprover(w, run); err != nil {
				return nil, err
			}
		}
		return run.Answer(c.Answer)
	}))
}

// allowApprover refuses the person who queued the issue of a run if its repository wants somebody else to approve.
func allowApprover(w *work.Unit, run *aggregates.Run) error {
	repo, _ := run.Issue()
	notQueuer, err := factOf(w, repo.ID, func(r *aggregates.Repo) bool { return r.Settings().ApproverNotQueue })
	if err != nil {
		return err
	}
	return run.AllowApprover(w.Meta.Actor.ID, notQueuer)
}
