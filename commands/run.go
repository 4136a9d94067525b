package commands

import (
	"cmp"
	"context"
	"slices"

	"svc/aggregates"
	"svc/commands/work"
	"svc/events"
	"svc/fault"
)

// QueueRun puts an issue in the queue. An issue can have one active run at a time.
type QueueRun struct {
	Meta        `json:"-"`
	Run         events.ID   `json:"runId"`
	Repo        events.Repo `json:"repo"`
	IssueNumber int         `json:"issueNumber"`
	IssueTitle  string      `json:"issueTitle"`

	Label *events.RunLabel `json:"label,omitempty"` // for which it is queued
}

// QueueRun refuses an issue that has an active run, and a label for which a run was queued before.
func (h *Handler) QueueRun(ctx context.Context, c QueueRun) (Result, error) {
	return h.Execute(ctx, c.Meta, c, work.On(c.Run, func(w *work.Unit, run *aggregates.Run) ([]events.Event, error) {
		w.Claim(events.Claim{Key: events.IssueKey(c.Repo.ID, c.IssueNumber), Owner: c.Run}, aggregates.ErrQueued)
		if c.Label != nil {
			key := events.LabelKey(c.Repo.ID, c.Label.Event)
			w.Claim(events.Claim{Key: key, Owner: events.KeyOwner(c.Run, key)}, aggregates.ErrQueued)
		}
		return run.Queue(events.RunQueued{Repo: c.Repo, IssueNumber: c.IssueNumber, IssueTitle: c.IssueTitle, Label: c.Label})
	}))
}

// ErrRunMoved says that a run has gained events since the caller looked at it.
var ErrRunMoved = fault.New(fault.Conflict, "run_moved", "The run has moved on meanwhile.")

// RecordRun records what the loop did for a run, all of it or nothing. After is the version of the
// run's stream from which the facts follow; 0 is any.
type RecordRun struct {
	Meta  `json:"-"`
	Run   events.ID      `json:"runId"`
	After int            `json:"after,omitempty"`
	Facts []events.Event `json:"facts"`
}

// RecordRun refuses all facts if one is not possible after those before it, or if the run is not at
// the version After. When the run ends, another run can take its issue, and its jobs are cancelled.
func (h *Handler) RecordRun(ctx context.Context, c RecordRun) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onRunAt(c.Run, c.After, func(_ *work.Unit, run *aggregates.Run) ([]events.Event, error) {
		return run.Record(c.Facts...)
	}))
}

// onRunAt is onRun for a run at a version; 0 is any. It refuses others.
func onRunAt(id events.ID, after int, decide func(*work.Unit, *aggregates.Run) ([]events.Event, error)) work.Decide {
	return onRun(id, func(w *work.Unit, run *aggregates.Run) ([]events.Event, error) {
		if after != 0 && w.VersionOf(id) != after {
			return nil, ErrRunMoved
		}
		return decide(w, run)
	})
}

// QueueIssue puts an issue in the queue at a person's request. IssueNumber is the code
// host's number; 0 means that the issue exists only here, and gets the number after the
// repository's largest.
type QueueIssue struct {
	Meta        `json:"-"`
	Run         events.ID `json:"-"`
	Repo        events.ID `json:"repoId"`
	RepoName    string    `json:"-"` // present name of Repo; a repetition of the request may find another
	IssueNumber int       `json:"issueNumber"`
	Title       string    `json:"title"`
	HostTitle   string    `json:"-"` // instead of an empty Title; a repetition of the request may find another
	Body        string    `json:"body"`
}

func (c QueueIssue) denial() events.CommandDenied {
	e := denialOf(events.RunQueued{}, events.ID{})
	e.Name = c.RepoName
	return e
}

// A RunAnswer is the stored answer of a command that queued a run.
type RunAnswer struct {
	Run events.ID `json:"runId"`
}

// QueueIssue refuses an issue that has an active run, and callers who may not queue issues.
func (h *Handler) QueueIssue(ctx context.Context, c QueueIssue) (Result, error) {
	return h.Execute(ctx, c.Meta, c, ifAllowed(events.QueueIssues,
		work.On(c.Run, func(w *work.Unit, run *aggregates.Run) (_ []events.Event, err error) {
			repo := events.Repo{ID: c.Repo, Name: c.RepoName}
			queued := events.RunQueued{Repo: repo, IssueNumber: c.IssueNumber, IssueTitle: cmp.Or(c.Title, c.HostTitle), IssueBody: c.Body}
			taken := aggregates.ErrQueued
			switch {
			case c.IssueNumber > maxChosenIssue:
				if err := h.requireIssue(w, c); err != nil {
					return nil, err
				}
			case c.IssueNumber == 0:
				if queued.IssueNumber, err = h.nextIssue(w, c.Repo); err != nil {
					return nil, err
				}
				taken = nil // with another number
			}
			w.Claim(events.Claim{Key: events.IssueKey(c.Repo, queued.IssueNumber), Owner: c.Run}, taken)
			w.Answer = RunAnswer{Run: c.Run}
			return run.Queue(queued)
		})))
}

// maxChosenIssue is the largest issue number that a person may give to an issue that was not here
// before. It leaves room for as many numbers again, which only the service assigns: otherwise one
// request could leave a repository without a next number.
const maxChosenIssue = 1_000_000_000

// requireIssue refuses an issue with a number larger than any that the service has assigned.
func (h *Handler) requireIssue(w *work.Unit, c QueueIssue) error {
	n, err := h.largestIssue(w, c.Repo)
	switch {
	case err != nil:
		return err
	case c.IssueNumber > n:
		return fault.Field("issueNumber", "must be %d or less for an issue that is not here yet", maxChosenIssue)
	}
	return nil
}

// issues is the type in the fold keys that serialize the numbering of issues.
type issues struct{}

// nextIssue returns the next issue number of a repository. No other command can assign one
// meanwhile, so none is used twice or skipped.
func (h *Handler) nextIssue(w *work.Unit, repo events.ID) (int, error) {
	if err := work.Serialize[issues](w, repo); err != nil {
		return 0, err
	}
	n, err := h.largestIssue(w, repo)
	if err != nil {
		return 0, err
	}
	n++
	for w.Taken(events.IssueKey(repo, n)) {
		n++
	}
	return n, nil
}

func (h *Handler) largestIssue(w *work.Unit, repo events.ID) (int, error) {
	return h.Views.LargestIssue(w.Context(), w.Meta.Workspace, repo,
		func(ctx context.Context, workspace, run events.ID) (events.Repo, int, error) {
			return issueOf(ctx, w.Streams, workspace, run)
		})
}

// CancelRun stops a run at a person's request.
type CancelRun struct {
	Meta   `json:"-"`
	Run    events.ID `json:"runId"`
	Reason string    `json:"reason"`
}

func (c CancelRun) denial() events.CommandDenied { return denialOf(events.RunCancelled{}, c.Run) }
func (CancelRun) limit() *limit                  { return ending }

// CancelRun refuses a run that has ended, and callers who may not cancel runs. A run that is being merged
// stops after the attempt. Once it has stopped, its jobs are cancelled and another run can take its issue.
func (h *Handler) CancelRun(ctx context.Context, c CancelRun) (Result, error) {
	return h.Execute(ctx, c.Meta, c, ifAllowed(events.CancelRuns,
		onRun(c.Run, func(_ *work.Unit, run *aggregates.Run) ([]events.Event, error) {
			return run.Cancel(c.Reason)
		})))
}

// onRun is work.On for a run. In the same commit it claims and releases the keys that the run holds, and cancels the jobs of
// a run that ends.
func onRun(id events.ID, decide func(*work.Unit, *aggregates.Run) ([]events.Event, error)) work.Decide {
	return work.On(id, func(w *work.Unit, run *aggregates.Run) ([]events.Event, error) {
		list, err := decide(w, run)
		if err != nil || len(list) == 0 {
			return list, err
		}
		moveKeys(w, id, run, run.With(list...))
		if err := chargeIssue(w, id, run, list); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list, events.EndsRun) {
			err = cancelJobs(w, run.OpenJobs())
		}
		return list, err
	})
}
