package commands

import (
	"context"
	"slices"
	"strings"

	"svc/aggregates"
	"svc/commands/work"
	"svc/events"
	"svc/fault"
)

// The reasons for which a run cannot have what another one has.
var (
	ErrSlotTaken = fault.New(fault.Conflict, "slot_taken", "Another run has this place.")
	ErrLaneTaken = fault.New(fault.Conflict, "lane_taken", "Another run is merging into this branch.")
)

// StartRun gives a queued run its places among the active runs of the workspace and of the repository. After is as
// in [RecordRun].
type StartRun struct {
	Meta
	Run            events.ID
	After          int
	Slot, RepoSlot int
}

// StartRun refuses a place that another run has.
func (h *Handler) StartRun(ctx context.Context, c StartRun) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onRunAt(c.Run, c.After, func(_ *work.Unit, run *aggregates.Run) ([]events.Event, error) {
		return run.Record(
			events.RunStarted{Slot: c.Slot, RepoSlot: c.RepoSlot},
			events.RunStageEntered{Stage: events.StageAnalyze, Attempt: 1},
		)
	}))
}

// EnterLane gives an approved run the turn to merge. After is as in [RecordRun].
type EnterLane struct {
	Meta
	Run   events.ID
	After int
}

// EnterLane refuses the turn while another run has it.
func (h *Handler) EnterLane(ctx context.Context, c EnterLane) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onRunAt(c.Run, c.After, func(_ *work.Unit, run *aggregates.Run) ([]events.Event, error) {
		p := run.Progress(c.Run, 0)
		if p.Base == nil {
			return nil, aggregates.ErrRunOutOfStep
		}
		return run.Record(events.RunLaneEntered{Branch: p.Base.Branch})
	}))
}

// chargeIssue adds what a run cost to what all runs of its issue cost, if they share a budget.
func chargeIssue(w *work.Unit, id events.ID, run *aggregates.Run, list []events.Event) error {
	var costs []events.Event
	for _, e := range list {
		if c, ok := e.(events.RunCostRecorded); ok && (c.Cents > 0 || c.Unknown) {
			costs = append(costs, events.IssueCostRecorded{Run: id, Key: c.Key, Cents: c.Cents, Unknown: c.Unknown})
		}
	}
	if len(costs) == 0 {
		return nil
	}
	repo, number := run.Issue()
	budget, err := issueBudget(w, repo.ID)
	if err != nil || budget == 0 {
		return err
	}
	return work.On(events.IssueStream(repo.ID, number), func(*work.Unit, *aggregates.Issue) ([]events.Event, error) {
		return costs, nil
	})(w)
}

// issueBudget returns what all runs of an issue may cost together; 0 is no limit.
func issueBudget(w *work.Unit, repo events.ID) (int64, error) {
	return factOf(w, repo, func(r *aggregates.Repo) int64 { return r.Settings().IssueCents })
}

// requireMoney refuses an implementer's job once the runs of the issue have used up their budget. Whoever decided for it has
// looked at an older state.
func requireMoney(w *work.Unit, run *aggregates.Run) error {
	repo, number := run.Issue()
	budget, err := issueBudget(w, repo.ID)
	if err != nil || budget == 0 {
		return err
	}
	spent, err := factOf(w, events.IssueStream(repo.ID, number), func(i *aggregates.Issue) bool { return i.Spent(budget) })
	if err == nil && spent {
		return ErrRunMoved
	}
	return err
}

// moveKeys claims the keys that a run holds from now on, and releases those that it does not hold any more.
func moveKeys(w *work.Unit, id events.ID, before, after *aggregates.Run) {
	had, has := before.Keys(), after.Keys()
	for _, key := range has {
		if !slices.Contains(had, key) {
			w.Claim(events.Claim{Key: key, Owner: events.KeyOwner(id, key)}, takenKey(key))
		}
	}
	for _, key := range had {
		if !slices.Contains(has, key) {
			w.Release(events.Claim{Key: key, Owner: events.KeyOwner(id, key)})
		}
	}
}

// takenKey returns what it means if another run holds a key.
func takenKey(key string) *fault.Fault {
	switch kind, _, _ := strings.Cut(key, "/"); kind {
	case "issue":
		return aggregates.ErrQueued
	case "merge_lane":
		return ErrLaneTaken
	}
	return ErrSlotTaken
}

// RetryRun queues the issue of a run that has ended once more.
type RetryRun struct {
	Meta `json:"-"`
	Run  events.ID `json:"runId"`
	New  events.ID `json:"-"` // id of the new run
}

func (c RetryRun) denial() events.CommandDenied { return denialOf(events.RunQueued{}, c.Run) }

// RetryRun refuses a run that has not ended, an issue that has another active run, and callers who may not queue
// issues.
func (h *Handler) RetryRun(ctx context.Context, c RetryRun) (Result, error) {
	return h.Execute(ctx, c.Meta, c, ifAllowed(events.QueueIssues, func(w *work.Unit) error {
		p, err := factOf(w, c.Run, func(r *aggregates.Run) aggregates.Progress { return r.Progress(c.Run, 0) })
		switch {
		case err != nil:
			return err
		case p.Status == "":
			return aggregates.ErrNoRun
		case !p.Over():
			return aggregates.ErrRunGoesOn
		}
		return work.On(c.New, func(w *work.Unit, run *aggregates.Run) ([]events.Event, error) {
			w.Claim(events.Claim{Key: events.IssueKey(p.Repo.ID, p.Issue), Owner: c.New}, aggregates.ErrQueued)
			w.Answer = RunAnswer{Run: c.New}
			list, err := run.Queue(events.RunQueued{Repo: p.Repo, IssueNumber: p.Issue, IssueTitle: p.Title, IssueBody: p.Body, RetryOf: c.Run})
			return append(list, events.RunHumanIntervened{Repo: p.Repo.ID, What: events.InterventionRetry}), err
		})(w)
	}))
}
