package commands

import (
	"context"
	"fmt"

	"svc/aggregates"
	"svc/events"
)

// QueueRun puts an issue in the queue. An issue has one active run at a time.
type QueueRun struct {
	Order       `json:"-"`
	Run         events.ID   `json:"runId"`
	Repo        events.Repo `json:"repo"`
	IssueNumber int         `json:"issueNumber"`
	IssueTitle  string      `json:"issueTitle"`
}

// QueueRun carries out the command of the same name.
func (h *Handler) QueueRun(ctx context.Context, c QueueRun) (Result, error) {
	return h.carry(ctx, c.Order, c, func(w *work) error {
		run, err := load[aggregates.Run](w, c.Run)
		if err != nil {
			return err
		}
		w.claim(events.Claim{Key: issueKey(c.Repo.ID, c.IssueNumber), Owner: c.Run}, aggregates.ErrQueued)
		list, err := run.Queue(events.RunQueued{Repo: c.Repo, IssueNumber: c.IssueNumber, IssueTitle: c.IssueTitle})
		return w.then(c.Run, list, err)
	})
}

// RecordRun reports what the loop did for a run. All of it is recorded or none.
type RecordRun struct {
	Order `json:"-"`
	Run   events.ID      `json:"runId"`
	Facts []events.Event `json:"facts"`
}

// RecordRun carries out the command of the same name.
func (h *Handler) RecordRun(ctx context.Context, c RecordRun) (Result, error) {
	return h.carry(ctx, c.Order, c, func(w *work) error {
		run, err := load[aggregates.Run](w, c.Run)
		if err != nil {
			return err
		}
		list, err := run.Record(c.Facts...)
		if err := w.then(c.Run, list, err); err != nil {
			return err
		}
		for _, f := range c.Facts {
			if events.EndsRun(f) { // another run may take the issue up
				repo, issue := run.Issue()
				w.releases = append(w.releases, events.Claim{Key: issueKey(repo.ID, issue), Owner: c.Run})
			}
		}
		return nil
	})
}

func issueKey(repo events.ID, number int) string { return fmt.Sprintf("issue/%s/%d", repo, number) }
