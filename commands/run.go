package commands

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"svc/aggregates"
	"svc/events"
)

// QueueRun puts an issue in the queue. An issue has one active run at a time.
type QueueRun struct {
	Meta        `json:"-"`
	Run         events.ID   `json:"runId"`
	Repo        events.Repo `json:"repo"`
	IssueNumber int         `json:"issueNumber"`
	IssueTitle  string      `json:"issueTitle"`
}

// QueueRun refuses an issue that has an active run.
func (h *Handler) QueueRun(ctx context.Context, c QueueRun) (Result, error) {
	return h.carry(ctx, c.Meta, c, func(w *work) error {
		run, err := load[aggregates.Run](w, c.Run)
		if err != nil {
			return err
		}
		w.claim(events.Claim{Key: events.IssueKey(c.Repo.ID, c.IssueNumber), Owner: c.Run}, aggregates.ErrQueued)
		list, err := run.Queue(events.RunQueued{Repo: c.Repo, IssueNumber: c.IssueNumber, IssueTitle: c.IssueTitle})
		return w.then(c.Run, list, err)
	})
}

// RecordRun reports what the loop did for a run. All of it is recorded or none.
type RecordRun struct {
	Meta  `json:"-"`
	Run   events.ID      `json:"runId"`
	Facts []events.Event `json:"facts"`
}

// RecordRun refuses all of the facts if one does not follow from those before it. A run
// that ends leaves its issue to another.
func (h *Handler) RecordRun(ctx context.Context, c RecordRun) (Result, error) {
	return h.carry(ctx, c.Meta, c, func(w *work) error {
		run, err := load[aggregates.Run](w, c.Run)
		if err != nil {
			return err
		}
		list, err := run.Record(c.Facts...)
		if err := w.then(c.Run, list, err); err != nil {
			return err
		}
		w.freeIssue(c.Run, run, list)
		return nil
	})
}

// QueueIssue puts an issue in the queue by a person's word. IssueNumber is that
// of the code host; 0 stands for an issue that is written here and gets the number
// after the largest of its repository, which Largest tells.
type QueueIssue struct {
	Meta        `json:"-"`
	Run         events.ID                          `json:"-"`
	Repo        events.Repo                        `json:"repo"`
	IssueNumber int                                `json:"issueNumber"`
	Largest     func(context.Context) (int, error) `json:"-"`
	Title       string                             `json:"title"`
	Body        string                             `json:"body"`
}

func (c QueueIssue) denial() events.CommandDenied {
	e := denialOf(events.RunQueued{}, events.ID{})
	e.Name = c.Repo.Name
	return e
}

// A RunAnswer is what is kept of a command that queued a run, for its repetition.
type RunAnswer struct {
	Run events.ID `json:"runId"`
}

// QueueIssue refuses an issue that has an active run, and whoever does not queue issues.
func (h *Handler) QueueIssue(ctx context.Context, c QueueIssue) (Result, error) {
	return h.carry(ctx, c.Meta, c, func(w *work) error {
		if err := w.allow(events.QueueIssues); err != nil {
			return err
		}
		run, err := load[aggregates.Run](w, c.Run)
		if err != nil {
			return err
		}
		queued := events.RunQueued{Repo: c.Repo, IssueNumber: c.IssueNumber, IssueTitle: c.Title, IssueBody: c.Body}
		taken := aggregates.ErrQueued
		if c.IssueNumber == 0 {
			if queued.IssueNumber, err = w.nextIssue(c.Repo.ID, c.Largest); err != nil {
				return err
			}
			taken = nil // it is decided anew
		}
		w.claim(events.Claim{Key: events.IssueKey(c.Repo.ID, queued.IssueNumber), Owner: c.Run}, taken)
		w.answer = RunAnswer{Run: c.Run}
		list, err := run.Queue(queued)
		return w.then(c.Run, list, err)
	})
}

// issues stands for the numbers of a repository's issues.
type issues struct{}

// nextIssue returns the next number of a repository's issues. Nobody else can
// give one away meanwhile, so that none is given twice and none left out.
func (w *work) nextIssue(repo events.ID, largest func(context.Context) (int, error)) (int, error) {
	if err := w.serialize(foldKey{w.meta.Workspace, repo, reflect.TypeFor[issues]()}); err != nil {
		return 0, err
	}
	n, err := largest(w.ctx)
	if err != nil {
		return 0, fmt.Errorf("largest issue of %s: %w", repo, err)
	}
	n++
	for slices.Contains(w.takenKeys, events.IssueKey(repo, n)) {
		n++
	}
	return n, nil
}

// CancelRun stops a run by a person's word.
type CancelRun struct {
	Meta   `json:"-"`
	Run    events.ID `json:"runId"`
	Reason string    `json:"reason"`
}

func (c CancelRun) denial() events.CommandDenied { return denialOf(events.RunCancelled{}, c.Run) }

// CancelRun refuses a run that has stopped or is being merged, and whoever does not
// cancel runs. Its issue is left to another.
func (h *Handler) CancelRun(ctx context.Context, c CancelRun) (Result, error) {
	return h.carry(ctx, c.Meta, c, func(w *work) error {
		if err := w.allow(events.CancelRuns); err != nil {
			return err
		}
		run, err := load[aggregates.Run](w, c.Run)
		if err != nil {
			return err
		}
		list, err := run.Cancel(c.Reason)
		if err := w.then(c.Run, list, err); err != nil {
			return err
		}
		w.freeIssue(c.Run, run, list)
		return nil
	})
}

// freeIssue lets another run take the issue up if list ends this one.
func (w *work) freeIssue(id events.ID, run *aggregates.Run, list []events.Event) {
	if slices.ContainsFunc(list, events.EndsRun) {
		repo, issue := run.Issue()
		w.releases = append(w.releases, events.Claim{Key: events.IssueKey(repo.ID, issue), Owner: id})
	}
}
