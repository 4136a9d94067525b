package runviews

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
	"svc/fault"
	"svc/projections/fold"
	"svc/projections/query"
)

// Runs is the view of all runs. It is followed.
type Runs struct{ DB *pgxpool.Pool }

// A Run is one run as lists show it.
type Run struct {
	Workspace   events.ID           `db:"workspace_id"`
	ID          events.ID           `db:"run_id"`
	Repo        events.ID           `db:"repo_id"`
	RepoName    string              `db:"repo_name"`
	IssueNumber int                 `db:"issue_number"`
	IssueTitle  string              `db:"issue_title"`
	Stage       int                 `db:"stage"` // index in Detail.Stages
	Status      events.RunStatus    `db:"status"`
	Active      bool                `db:"active"`
	PRNumber    *int                `db:"pr_number"`
	CostCents   int64               `db:"cost_cents"`
	CreatedAt   time.Time           `db:"created_at"`
	UpdatedAt   time.Time           `db:"updated_at"`
	FinishedAt  *time.Time          `db:"finished_at"`
	WaitsFor    events.DecisionKind `db:"waits_for"` // kind of the open decision; "" if there is none
	Round       int                 `db:"round"`     // how often the run entered stage Implementing
	WaitCode    events.WaitCode     `db:"wait_code"` // what it waits for besides a person; "" if it does not
	WaitDetail  string              `db:"wait_detail"`
	WaitSince   *time.Time          `db:"wait_since"` // of that code
	OpenJobs    int                 `db:"open_jobs"`  // how many of its jobs are not over
	Tidied      bool                `db:"tidied"`     // nothing is left to do for it, also at the code host
	JobRounds   []int               `db:"job_rounds"` // for each of Detail.Jobs, the round in which the run requested it
	Branch      string              `db:"branch"`     // as in Detail; searches read it from here
	Detail      RunDetail           `db:"detail"`

	// Budgets of the run; 0 means no limit.
	BudgetCents     int64 `db:"budget_cents"`
	BudgetComputeMS int64 `db:"budget_compute_ms"`
	BudgetRounds    int   `db:"budget_rounds"`
}

// A RunDetail is what a run's own page shows in addition. Its times are whole milliseconds.
type RunDetail struct {
	Branch     string              `json:"branch"`
	Head       string              `json:"head"`
	Stages     []RunStage          `json:"stages"` // one for each stage in order, then those that this build does not know
	Files      []events.FileChange `json:"files"`
	Jobs       []RunJob            `json:"jobs"`
	Guardrails string              `json:"guardrails"` // unchecked, clean, blocked, allowed_once
	Checks     []events.Guardrail  `json:"checks"`

	// What earlier builds did not record is absent, so that the rows of their runs stay as they are.
	Started     bool                `json:"started,omitempty"` // it has had a place among the active runs
	Target      string              `json:"target,omitempty"`  // the branch to merge into
	Total       *events.ChangeTotal `json:"total,omitempty"`   // if Files is only a part
	Plan        *RunPlan            `json:"plan,omitempty"`
	Estimates   []RunEstimate       `json:"estimates,omitempty"`   // in the order in which they were made
	CostUnknown bool                `json:"costUnknown,omitempty"` // a part of the cost
	Lane        bool                `json:"lane,omitempty"`        // it is its turn to merge
	Candidate   *RunCandidate       `json:"candidate,omitempty"`
	Postponed   int                 `json:"postponed,omitempty"` // attempts to merge that did not
	Stopping    bool                `json:"stopping,omitempty"`  // somebody stopped it while it was merging
	Merge       *RunMerge           `json:"merge,omitempty"`
	Tidied      *RunTidied          `json:"tidied,omitempty"`
	End         *RunEnd             `json:"end,omitempty"` // why it ended without a merge
}

// A RunPlan is what a run expects to change.
type RunPlan struct {
	Files []string `json:"files,omitempty"`
	Risk  string   `json:"risk,omitempty"`

	Implementer string `json:"implementer,omitempty"`
}

// A RunEstimate is what a run was expected to cost, and how long to work, when something became known of it.
type RunEstimate struct {
	When   events.EstimateMoment  `json:"when"`
	Size   string                 `json:"size,omitempty"`
	Cents  *events.EstimateSpread `json:"cents,omitempty"`
	WorkMS *events.EstimateSpread `json:"workMs,omitempty"`
	Merged int                    `json:"merged"`
	Basis  []events.ID            `json:"basis"`
}

// A RunCandidate is what merging the run gives.
type RunCandidate struct {
	Base   string `json:"base"`
	Commit string `json:"commit"`
	Tree   string `json:"tree"`
}

// A RunMerge is how a run was merged.
type RunMerge struct {
	Commit   string `json:"commit"`
	Tree     string `json:"tree,omitempty"`
	Base     string `json:"base,omitempty"` // its first parent
	Method   string `json:"method,omitempty"`
	Outside  bool   `json:"outside,omitempty"` // somebody merged it at the code host
	By       string `json:"by,omitempty"`
	Untested bool   `json:"untested,omitempty"` // Tree is not what passed the required jobs
}

// A RunEnd is why a run ended without a merge. Code is that of a failure, otherwise "".
type RunEnd struct {
	Reason string          `json:"reason"`
	Code   events.FailCode `json:"code,omitempty"`
}

// A RunTidied is what became of the pull request and the branch of a run that has ended.
type RunTidied struct {
	PullRequest string `json:"pullRequest"`
	Branch      string `json:"branch"`
}

// A RunStage is a run's progress in a stage. Status is pending, active, succeeded, failed, blocked
// or skipped.
type RunStage struct {
	Name       string     `json:"name,omitempty"` // only for stages that this build does not know
	Status     string     `json:"status"`
	Attempt    int        `json:"attempt"`
	StartedAt  *time.Time `json:"startedAt,omitempty"`
	FinishedAt *time.Time `json:"finishedAt,omitempty"`
}

// A RunJob is a farm job that a run requested. Status is requested, and finally a final state of jobs.
type RunJob struct {
	ID        events.ID         `json:"id"`
	Name      string            `json:"name"`
	Status    string            `json:"status"`
	ComputeMS int64             `json:"computeMs"`
	Purpose   events.JobPurpose `json:"purpose,omitempty"` // "" if it was requested before there were purposes
	Attempt   int               `json:"attempt,omitempty"`
	Reason    string            `json:"reason,omitempty"`
	ExitCode  *int              `json:"exitCode,omitempty"`
}

var runs = &fold.Table[events.ID, Run]{
	View: "runs", Updated: fold.Followed, Key: "run_id",
	Kinds: []string{"run", "decision"},
	Keys: func(r events.Record) []events.ID {
		if _, ok := r.Event.(runEvent); ok {
			return []events.ID{r.Stream}
		}
		return nil
	},
	Apply: func(id events.ID, run *Run, r events.Record) *Run {
		if e, ok := r.Event.(events.RunQueued); ok {
			return &Run{
				Workspace: r.Workspace, ID: id, Repo: e.Repo.ID, RepoName: e.Repo.Name,
				IssueNumber: e.IssueNumber, IssueTitle: e.IssueTitle, Status: events.RunStatusQueued, Active: true,
				CreatedAt: r.At, UpdatedAt: r.At, JobRounds: []int{}, Detail: queuedDetail(r.At),
			}
		}
		after := *run
		after.UpdatedAt = r.At
		after.Detail = run.Detail.clone()
		after.apply(r)
		return &after
	},
}

// maxRunsSearched is how many runs of a list, from its beginning, are searched for a text.
const maxRunsSearched = 10_000

// Page answers q and returns the number of runs on all pages. A search examines the first 10,000
// runs of the list and counts its matches among them.
//
// Active and terminal runs are distinguished by a literal condition: with a parameter, the cached
// plan could not use the partial index.
func (v Runs) Page(ctx context.Context, q RunQuery) (list []Run, total int, err error) {
	if q.Q != "" {
		return v.pageOfMatches(ctx, q)
	}
	where, order, args := q.where()
	column, of := `terminal`, ` from run_counts where workspace_id = $1`
	if q.Active {
		column = `active`
	}
	if q.Repo != nil {
		of += ` and repo_id = $2`
	}
	limit := fmt.Sprintf(` order by %s limit $%d offset $%d`, order, len(args)+1, len(args)+2)
	page := `select ` + runColumns + where + limit
	if q.Offset >= deepRunsOffset {
		page = fmt.Sprintf(`
			select %[1]s from (select run_id as id%[2]s%[3]s) p
			cross join lateral (select %[1]s from runs where workspace_id = $1 and run_id = p.id offset 0) r
			order by %[4]s`, runColumns, where, limit, order)
	}
	b := &pgx.Batch{}
	b.Queue(`select coalesce(sum(`+column+`), 0)`+of, args...).QueryRow(func(row pgx.Row) error { return row.Scan(&total) })
	b.Queue(page, append(args, q.Limit, q.Offset)...).Query(func(rows pgx.Rows) error {
		list, err = pgx.CollectRows(rows, scanRun)
		return err
	})
	if err := v.DB.SendBatch(ctx, b).Close(); err != nil {
		return nil, 0, fmt.Errorf("read runs of %s: %w", q.Workspace, err)
	}
	if len(list) > 0 {
		total = max(total, q.Offset+len(list)) // run_counts may lag
	}
	return list, total, nil
}

// where returns the condition for the list of q, its order and its arguments.
func (q RunQuery) where() (where, order string, args []any) {
	where, order, args = ` from runs where workspace_id = $1 and not active`, terminalOrder, []any{q.Workspace}
	if q.Active {
		where, order = ` from runs where workspace_id = $1 and active`, activeOrder
	}
	if q.Repo != nil {
		where, args = where+` and repo_id = $2`, append(args, *q.Repo)
	}
	return where, order, args
}

// pageOfMatches is [Runs.Page] for a search.
func (v Runs) pageOfMatches(ctx context.Context, q RunQuery) (list []Run, total int, err error) {
	where, order, args := q.where()
	texts := fmt.Sprintf(`%s%s order by %s limit %d`, selectRunTexts, where, order, maxRunsSearched)
	ids, err := query.MatchingIDs(ctx, v.DB, q.Q, false, args, texts)
	if err == nil {
		list, err = v.inOrder(ctx, q.Workspace, query.PageOf(ids, q.Limit, q.Offset))
	}
	return list, len(ids), fault.Wrap(err, "search runs of %s", q.Workspace)
}

// The orders of the two lists.
const (
	activeOrder   = `stage, created_at, run_id`
	terminalOrder = `finished_at desc, run_id desc`
)

// selectRunTexts begins the queries of runs for [query.MatchingIDs].
const selectRunTexts = `
	select run_id, issue_number::text, issue_title || ' ' || repo_name || ' ' || branch || coalesce(' #' || pr_number, '')`

// Search returns up to limit runs of both lists that match a search: first those whose issue number
// is the text, then active ones.
func (v Runs) Search(ctx context.Context, workspace events.ID, text string, limit int) (list []Run, err error) {
	ids, err := query.MatchingIDs(ctx, v.DB, text, true, []any{workspace}, selectActiveTexts, selectTerminalTexts)
	if err == nil {
		list, err = v.inOrder(ctx, workspace, query.PageOf(ids, limit, 0))
	}
	return list, fault.Wrap(err, "search runs of %s", workspace)
}

var (
	selectActiveTexts = fmt.Sprintf(
		`%s from runs where workspace_id = $1 and active order by %s limit %d`, selectRunTexts, activeOrder, maxRunsSearched)
	selectTerminalTexts = fmt.Sprintf(
		`%s from runs where workspace_id = $1 and not active order by %s limit %d`, selectRunTexts, terminalOrder, maxRunsSearched)
)

// inOrder returns the runs with the given ids in their order.
func (v Runs) inOrder(ctx context.Context, workspace events.ID, ids []events.ID) ([]Run, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, _ := v.DB.Query(ctx, query.RowsInOrder(runColumns, "runs", "run_id"), workspace, ids)
	return pgx.CollectRows(rows, scanRun)
}

// deepRunsOffset is the offset from which a page first finds the ids of its runs, by an index-only scan.
const deepRunsOffset = 1000

// A RunQuery asks for a page of a workspace's runs: active ones, by stage and age, or ended ones,
// newest first. Repo and Q narrow it unless nil or empty. Q is part of the issue's title, the
// repository's or the branch's name, the issue number, or part of the pull request's.
type RunQuery struct {
	Workspace     events.ID
	Active        bool
	Repo          *events.ID
	Q             string
	Limit, Offset int
}

// Get returns a run of a workspace with its detail. ok is false if there is none.
func (v Runs) Get(ctx context.Context, workspace, id events.ID) (run Run, ok bool, err error) {
	rows, _ := v.DB.Query(ctx, `
		select `+runColumns+`, tidied, job_rounds, branch, detail, budget_cents, budget_compute_ms, budget_rounds from runs
		where workspace_id = $1 and run_id = $2`, workspace, id)
	return query.Optional[Run](rows, "run "+id.String())
}

// QueueRecent queues reading the runs of a workspace that were updated last, newest first.
func QueueRecent(b *pgx.Batch, workspace events.ID, limit int, list *[]Run) {
	b.Queue(`
		select `+runColumns+` from runs
		where workspace_id = $1 order by updated_at desc, run_id desc limit $2`, workspace, limit).Query(func(rows pgx.Rows) (err error) {
		*list, err = pgx.CollectRows(rows, scanRun)
		return err
	})
}

// ActiveOf returns the active runs of issues of a repository.
func (v Runs) ActiveOf(ctx context.Context, workspace, repo events.ID, issues []int) ([]Run, error) {
	rows, _ := v.DB.Query(ctx, `
		select `+runColumns+` from runs
		where workspace_id = $1 and repo_id = $2 and issue_number = any($3) and active`, workspace, repo, issues)
	list, err := pgx.CollectRows(rows, scanRun)
	return list, fault.Wrap(err, "look up active runs of repository %s of %s", repo, workspace)
}

// Events returns up to limit events of a run after a version of its stream.
func (v Runs) Events(ctx context.Context, workspace, run events.ID, after, limit int) ([]events.Record, error) {
	return store.StreamPage{Workspace: workspace, Stream: run, Version: after, Limit: limit, Decode: store.Lenient}.Read(ctx, v.DB)
}

// EventsBefore returns up to limit events of a run before a version of its stream, newest first.
func (v Runs) EventsBefore(ctx context.Context, workspace, run events.ID, before, limit int) ([]events.Record, error) {
	return store.StreamPage{
		Workspace: workspace, Stream: run, Version: before, Limit: limit, Backward: true, Decode: store.Lenient,
	}.Read(ctx, v.DB)
}

// An IssueOf returns the issue of a run and its repository as the log says, whose events are checked. Both are zero if
// there is no such run. [svc/commands.Handler.IssueOf] is one.
type IssueOf = func(ctx context.Context, workspace, run events.ID) (repo events.Repo, number int, err error)

// Repo returns a repository that runs of a workspace worked on. ok is false if there is none. Its name is that of
// issueOf, because jobs clone what it names, and somebody who can write to the database can change a row.
func (v Runs) Repo(ctx context.Context, workspace, id events.ID, issueOf IssueOf) (repo events.Repo, ok bool, err error) {
	var run events.ID
	err = v.DB.QueryRow(ctx, `
		select run_id from runs where workspace_id = $1 and repo_id = $2
		order by issue_number desc limit 1`, workspace, id).Scan(&run)
	if errors.Is(err, pgx.ErrNoRows) {
		return repo, false, nil
	}
	if err == nil {
		repo, _, err = issueOf(ctx, workspace, run)
	}
	if err == nil && repo.ID != id {
		err = fmt.Errorf("it is not that of run %s in the log", run)
	}
	if err != nil {
		return events.Repo{}, false, fmt.Errorf("read repository %s of %s: %w", id, workspace, err)
	}
	return repo, true, nil
}

// maxIssueLag is how many events after the view's checkpoint LargestIssue searches.
const maxIssueLag = 100_000

// LargestIssue returns the largest issue number of all runs of a repository, or 0. It also reads
// the runs queued after the view's checkpoint, so the answer is up to date with the log. It returns
// [fold.ErrNotCaughtUp] if the view is more than 100,000 events behind, and an error if the run with that
// number does not have it according to issueOf: the next issue gets a number after it.
func (v Runs) LargestIssue(ctx context.Context, workspace, repo events.ID, issueOf IssueOf) (n int, err error) {
	var run *events.ID
	var seq, head int64
	err = v.DB.QueryRow(ctx, `
		select coalesce(r.issue_number, 0), r.run_id,
			coalesce((select seq from checkpoints where workspace_id = $1 and view = 'runs'), 0),
			coalesce((select head from logs where workspace_id = $1), 0)
		from (select) one left join (
			select issue_number, run_id from runs where workspace_id = $1 and repo_id = $2 order by issue_number desc limit 1) r on true`,
		workspace, repo).Scan(&n, &run, &seq, &head)
	switch {
	case err != nil:
	case seq < head-maxIssueLag:
		err = fold.ErrNotCaughtUp
	default:
		n, run, err = v.largestAfter(ctx, workspace, repo, seq, n, run)
	}
	if err == nil && run != nil {
		err = checkIssue(ctx, issueOf, workspace, *run, repo, n)
	}
	return n, fault.Wrap(err, "find largest issue number of repository %s of %s", repo, workspace)
}

// checkIssue returns an error unless a run is of that issue of a repository.
func checkIssue(ctx context.Context, issueOf IssueOf, workspace, run, repo events.ID, n int) error {
	of, number, err := issueOf(ctx, workspace, run)
	if err == nil && (of.ID != repo || number != n) {
		err = fmt.Errorf("run %s is not of issue %d in the log", run, n)
	}
	return err
}

// largestAfter returns the largest of n, which is of run, and the issue numbers in the log after an event, with the run
// that has it.
func (v Runs) largestAfter(
	ctx context.Context, workspace, repo events.ID, seq int64, n int, run *events.ID,
) (int, *events.ID, error) {
	rows, _ := v.DB.Query(ctx, `
		select `+store.EventColumns+` from (
			select `+store.EventColumns+` from events where workspace_id = $1 and seq > $2 order by seq limit $3) e
		where kind = 'run.queued'`, workspace, seq, maxIssueLag)
	defer rows.Close()
	for rows.Next() {
		r, err := store.Scan(rows)
		if err != nil {
			return 0, nil, err
		}
		if e, ok := r.Event.(events.RunQueued); ok && e.Repo.ID == repo && e.IssueNumber > n {
			n, run = e.IssueNumber, &r.Stream
		}
	}
	return n, run, rows.Err()
}

const runColumns = `workspace_id, run_id, repo_id, repo_name, issue_number, issue_title, stage, status, active, pr_number, cost_cents,
	created_at, updated_at, finished_at,
	waits_for, round, wait_code, wait_detail, wait_since, open_jobs`

func scanRun(row pgx.CollectableRow) (r Run, err error) {
	err = row.Scan(&r.Workspace, &r.ID, &r.Repo, &r.RepoName, &r.IssueNumber, &r.IssueTitle, &r.Stage, (*string)(&r.Status),
		&r.Active, &r.PRNumber, &r.CostCents, &r.CreatedAt, &r.UpdatedAt, &r.FinishedAt, (*string)(&r.WaitsFor), &r.Round,
		(*string)(&r.WaitCode), &r.WaitDetail, &r.WaitSince, &r.OpenJobs)
	return r, err
}
