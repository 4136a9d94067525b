package runviews

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
	"svc/projections/fold"
	"svc/projections/query"
)

// Decisions is the view of the questions that runs ask people. It is followed.
type Decisions struct{ DB *pgxpool.Pool }

// The status of a decision.
const (
	DecisionOpen     = "open"
	DecisionAnswered = "answered"
	DecisionVoided   = "voided"
)

// A Decision is a question that a run asked, and its answer.
type Decision struct {
	Workspace events.ID           `db:"workspace_id"`
	ID        events.ID           `db:"decision_id"`
	Run       events.ID           `db:"run_id"`
	Kind      events.DecisionKind `db:"kind"`
	Question  string              `db:"question"`
	Head      string              `db:"head"`
	Status    string              `db:"status"`
	RaisedAt  time.Time           `db:"raised_at"`
	ClosedAt  *time.Time          `db:"closed_at"`
	Action    string              `db:"action"`
}

var decisions = &fold.Table[events.ID, Decision]{
	View: "decisions", Updated: fold.Followed, Key: "decision_id",
	Kinds: []string{"decision"},
	Keys: func(r events.Record) []events.ID {
		switch e := r.Event.(type) {
		case events.DecisionRaised:
			return []events.ID{e.Decision}
		case events.DecisionAnswered:
			return []events.ID{e.Decision}
		case events.DecisionVoided:
			return []events.ID{e.Decision}
		}
		return nil
	},
	Apply: func(id events.ID, row *Decision, r events.Record) *Decision {
		if e, ok := r.Event.(events.DecisionRaised); ok {
			return &Decision{
				Workspace: r.Workspace, ID: id, Run: r.Stream, Kind: e.About, Question: e.Question, Head: e.Head,
				Status: DecisionOpen, RaisedAt: r.At,
			}
		}
		after := *row
		after.Status, after.ClosedAt = DecisionVoided, &r.At
		if e, ok := r.Event.(events.DecisionAnswered); ok {
			after.Status, after.Action = DecisionAnswered, e.Action
		}
		return &after
	},
}

// Get returns a decision of a workspace. ok is false if there is none.
func (v Decisions) Get(ctx context.Context, workspace, id events.ID) (d Decision, ok bool, err error) {
	rows, _ := v.DB.Query(ctx, `
		select workspace_id, decision_id, run_id, kind, question, head, status, raised_at, closed_at, action
		from decisions where workspace_id = $1 and decision_id = $2`, workspace, id)
	return query.Optional[Decision](rows, "decision "+id.String())
}

// A Waiting is an open decision with the run that waits for it.
type Waiting struct {
	Decision
	ByRun Run
}

// WaitingCounts count the open decisions of a workspace.
type WaitingCounts struct {
	ByKind map[events.DecisionKind]int
	Oldest *time.Time // when the oldest of them was raised; nil if there is none
}

// Total returns the number of open decisions of all kinds.
func (c WaitingCounts) Total() (n int) {
	for _, of := range c.ByKind {
		n += of
	}
	return n
}

const selectWaiting = `select kind, count(*), min(raised_at) from decisions where workspace_id = $1 and status = 'open' group by kind`

// Queue queues counting the open decisions of a workspace.
func (c *WaitingCounts) Queue(b *pgx.Batch, workspace events.ID) {
	b.Queue(selectWaiting, workspace).Query(c.scan)
}

// scan reads the rows of selectWaiting.
func (c *WaitingCounts) scan(rows pgx.Rows) error {
	c.ByKind = map[events.DecisionKind]int{}
	var kind events.DecisionKind
	var n int
	var oldest time.Time
	_, err := pgx.ForEachRow(rows, []any{&kind, &n, &oldest}, func() error {
		c.ByKind[kind] = n
		if c.Oldest == nil || oldest.Before(*c.Oldest) {
			c.Oldest = new(oldest)
		}
		return nil
	})
	return err
}

// Inbox returns a page of a workspace's open decisions, newest first, and counts all of them.
func (v Decisions) Inbox(
	ctx context.Context, workspace events.ID, limit, offset int,
) (list []Waiting, counts WaitingCounts, err error) {
	b := &pgx.Batch{}
	counts.Queue(b, workspace)
	b.Queue(`
		select d.decision_id, d.run_id, d.kind, d.question, d.head, d.raised_at,
			r.repo_id, r.repo_name, r.issue_number, r.issue_title, r.pr_number, r.cost_cents, r.detail
		from decisions d join runs r on r.workspace_id = d.workspace_id and r.run_id = d.run_id
		where d.workspace_id = $1 and d.status = 'open'
		order by d.raised_at desc, d.decision_id desc limit $2 offset $3`, workspace, limit, offset,
	).Query(func(rows pgx.Rows) error {
		list, err = pgx.CollectRows(rows, scanWaiting)
		return err
	})
	err = v.DB.SendBatch(ctx, b).Close()
	return list, counts, fault.Wrap(err, "read inbox of %s", workspace)
}

func scanWaiting(row pgx.CollectableRow) (w Waiting, err error) {
	r := &w.ByRun
	err = row.Scan(&w.ID, &w.Run, &w.Kind, &w.Question, &w.Head, &w.RaisedAt,
		&r.Repo, &r.RepoName, &r.IssueNumber, &r.IssueTitle, &r.PRNumber, &r.CostCents, &r.Detail)
	return w, err
}
