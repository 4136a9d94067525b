package farmviews

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/events/store"
	"svc/fault"
	"svc/projections/query"
)

// A JobQuery asks for a page of a workspace's jobs: all of them, those that are queued or held by
// runners, or those that have ended. State, Name, Repo, Runner and Q narrow it unless empty or nil. Q is part of the
// job's or repository's name, Name the job's whole name.
type JobQuery struct {
	Workspace     events.ID
	All, Active   bool
	State         events.JobState
	Name          string
	Repo          *events.ID
	Runner        *events.ID // runner that has the job, or had it last
	Q             string
	Limit, Offset int
}

const jobColumns = `workspace_id, job_id, name, state, submitted_by, requirement, required, repo_id, repo_name, priority, fair_key, turn,
	submitted_at, queued_at, not_before, epoch, attempt, max_attempts, runner_id, runner_name, excluded, concurrency_key, concurrency, slot,
	leased_at, accepted, started_at, finished_at, due_at, run_seconds, expires_at, cancel, outcome, attempts, artifacts, retry_of,
	checked_out`

// maxJobsSearched is how many jobs of a list, from its beginning, are searched for a state or a text.
const maxJobsSearched = 10_000

// deepJobsOffset is the offset from which a page first finds the ids of its jobs, by an index-only scan.
const deepJobsOffset = 1000

// Page answers q and returns the number of jobs on all pages; with a filter at most 10,000 jobs are
// counted. Ended jobs are ordered by their end, others and those of a repository or runner by
// submission, newest first.
func (v Jobs) Page(ctx context.Context, q JobQuery) (list []Job, total int, err error) {
	if q.Q != "" {
		return v.pageOfMatches(ctx, q)
	}
	b := &pgx.Batch{}
	counts, page, args := q.sql()
	b.Queue(counts, args[:len(args)-2]...).QueryRow(func(row pgx.Row) error { return row.Scan(&total) })
	b.Queue(page, args...).Query(func(rows pgx.Rows) error {
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Job])
		return err
	})
	err = v.DB.SendBatch(ctx, b).Close()
	return list, total, fault.Wrap(err, "read jobs of %s", q.Workspace)
}

// pageOfMatches is [Jobs.Page] for a search.
func (v Jobs) pageOfMatches(ctx context.Context, q JobQuery) (list []Job, total int, err error) {
	from, order, args := q.searched()
	ids, err := query.MatchingIDs(ctx, v.DB, q.Q, false, args, `select job_id, '', name || ' ' || repo_name`+from+` order by `+order)
	if page := query.PageOf(ids, q.Limit, q.Offset); err == nil && len(page) > 0 {
		rows, _ := v.DB.Query(ctx, query.RowsInOrder(jobColumns, "jobs", "job_id"), q.Workspace, page)
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Job])
	}
	return list, len(ids), fault.Wrap(err, "search jobs of %s", q.Workspace)
}

// jobsActive and jobsEnded are the predicates of the partial indexes, word for word.
const (
	jobsActive = `state in ('queued', 'leased', 'running', 'cancelling')`
	jobsEnded  = `state not in ('queued', 'leased', 'running', 'cancelling')`
)

// list returns the condition for the list of q, its order and its arguments.
func (q JobQuery) list() (where, order string, args []any) {
	where, order, args = ` from jobs where workspace_id = $1 and `+jobsActive, `job_id desc`, []any{q.Workspace}
	switch {
	case q.All:
		where = ` from jobs where workspace_id = $1`
	case !q.Active:
		where, order = ` from jobs where workspace_id = $1 and `+jobsEnded, `finished_at desc, job_id desc`
	}
	if q.Repo != nil {
		args = append(args, *q.Repo)
		where, order = fmt.Sprintf(`%s and repo_id = $%d`, where, len(args)), `job_id desc`
	}
	if q.Runner != nil {
		args = append(args, *q.Runner)
		where, order = fmt.Sprintf(`%s and runner_id = $%d`, where, len(args)), `job_id desc`
	}
	if q.Name != "" {
		args = append(args, q.Name)
		where, order = fmt.Sprintf(`%s and name = $%d`, where, len(args)), `job_id desc`
	}
	return where, order, args
}

// searched returns the condition for the part of the list of q that filters search.
func (q JobQuery) searched() (from, order string, args []any) {
	where, order, args := q.list()
	from = fmt.Sprintf(` from (select *%s order by %s limit %d) j where j.workspace_id = $1`, where, order, maxJobsSearched)
	if q.State != "" {
		args = append(args, string(q.State))
		from += fmt.Sprintf(` and j.state = $%d`, len(args))
	}
	return from, order, args
}

// sql returns the statements that count the jobs and read a page. The last two of args are only for
// the page.
func (q JobQuery) sql() (counts, page string, args []any) {
	from, order, args := q.list()
	filtered := q.State != "" || q.Name != "" || q.Repo != nil || q.Runner != nil
	if filtered {
		from, order, args = q.searched()
	}
	limit := fmt.Sprintf(` order by %s limit $%d offset $%d`, order, len(args)+1, len(args)+2)
	column := `ended`
	switch {
	case q.All:
		column = `queued + held + ended`
	case q.Active:
		column = `queued + held`
	}
	counts = `select coalesce((select ` + column + ` from job_counts where workspace_id = $1), 0)`
	page = `select ` + jobColumns + from + limit
	switch {
	case filtered:
		counts = `select count(*)` + from
	case q.Offset >= deepJobsOffset:
		page = fmt.Sprintf(`
			select %[1]s from (select job_id as id%[2]s%[3]s) p
			cross join lateral (select %[1]s from jobs where workspace_id = $1 and job_id = p.id offset 0) j
			order by %[4]s`, jobColumns, from, limit, order)
	}
	return counts, page, append(args, q.Limit, q.Offset)
}

// Get returns a job of a workspace. ok is false if there is none.
func (v Jobs) Get(ctx context.Context, workspace, id events.ID) (job Job, ok bool, err error) {
	rows, _ := v.DB.Query(ctx, `select `+jobColumns+` from jobs where workspace_id = $1 and job_id = $2`, workspace, id)
	return query.Optional[Job](rows, "job "+id.String())
}

// ByIDs returns the jobs of a workspace with the given ids.
func (v Jobs) ByIDs(ctx context.Context, workspace events.ID, ids []events.ID) ([]Job, error) {
	rows, _ := v.DB.Query(ctx, `select `+jobColumns+` from jobs where workspace_id = $1 and job_id = any($2)`, workspace, ids)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Job])
	return list, fault.Wrap(err, "read %d jobs of %s", len(ids), workspace)
}

// Spec returns the submitted specification of a job. ok is false if there is none.
func (v Jobs) Spec(ctx context.Context, workspace, id events.ID) (spec events.JobSpec, ok bool, err error) {
	rows, _ := v.DB.Query(ctx, `select spec from job_specs where workspace_id = $1 and job_id = $2`, workspace, id)
	list, err := pgx.CollectRows(rows, pgx.RowTo[events.JobSpec])
	if err != nil || len(list) == 0 {
		if err != nil {
			err = fmt.Errorf("read spec of job %s: %w", id, err)
		}
		return spec, false, err
	}
	return list[0], true, nil
}

const selectCounts = `select workspace_id, queued, held, ended from job_counts where workspace_id = $1`

// Position returns the 1-based position of a queued job among those with the same requirement.
// 10,001 stands for any position beyond 10,000.
func (v Jobs) Position(ctx context.Context, j Job) (n int, err error) {
	err = v.DB.QueryRow(ctx, `
		select count(*) + 1 from (
			select from jobs where workspace_id = $1 and state = 'queued' and requirement = $2 and (turn, job_id) < ($3, $4)
			limit 10000) before`, j.Workspace, j.Requirement, j.Turn, j.ID).Scan(&n)
	return n, fault.Wrap(err, "read position of job %s", j.ID)
}

// Events returns up to limit events of a job after a version of its stream.
func (v Jobs) Events(ctx context.Context, workspace, job events.ID, after, limit int) ([]events.Record, error) {
	return store.StreamPage{Workspace: workspace, Stream: job, Version: after, Limit: limit, Decode: store.Lenient}.Read(ctx, v.DB)
}
