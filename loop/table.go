package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/engine/client"
	"svc/events"
	"svc/fault"
)

// A table is run_steps: when each run is due. The database's clock decides, and claims expire by it.
// A row that is claimed is due at infinity, unless something has happened to the run since; nobody
// else claims it until the claim has ended.
type table struct{ db *pgxpool.Pool }

// claimTime is for how long a claim holds that is not renewed.
const claimTime = 15 * time.Second

// A due is a run that this process has claimed.
type due struct {
	Workspace events.ID `db:"workspace_id"`
	Run       events.ID `db:"run_id"`
	Repo      events.ID `db:"repo_id"`
	Look      bool      `db:"look"`
	Attempt   int       `db:"attempt"`
}

// A mark makes a run due.
type mark struct {
	Run, Repo events.ID
	Look      bool
}

// mark makes runs of a workspace due now.
func (t table) mark(ctx context.Context, tx sender, workspace events.ID, list []mark) error {
	var runs, repos []events.ID
	var looks []bool
	for _, m := range list {
		runs, repos, looks = append(runs, m.Run), append(repos, m.Repo), append(looks, m.Look)
	}
	_, err := tx.Exec(ctx, `
		insert into run_steps as s (workspace_id, run_id, repo_id, due_at, look)
		select $1, r.run, r.repo, now(), r.look from unnest($2::uuid[], $3::uuid[], $4::bool[]) as r (run, repo, look)
		on conflict (workspace_id, run_id) do update set due_at = least(s.due_at, now()), look = s.look or excluded.look,
			repo_id = case when excluded.repo_id = '00000000-0000-0000-0000-000000000000' then s.repo_id else excluded.repo_id end`,
		workspace, runs, repos, looks)
	return fault.Wrap(err, "mark runs of %s", workspace)
}

// A sender is a transaction or a pool.
type sender interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// wake makes up to limit of the runs due that wait for each of codes, the oldest first and the others a little later, so that
// what has become free most likely goes to it.
func (t table) wake(ctx context.Context, tx sender, workspace events.ID, codes []string, limit int) error {
	_, err := tx.Exec(ctx, `
		update run_steps s set due_at = now() + (w.n - 1) * interval '100 milliseconds' from (
			select run_id, row_number() over (order by run_id) as n from unnest($2::text[]) as c (code) cross join lateral (
				select run_id from run_steps where workspace_id = $1 and code = c.code and due_at > now() and claimed_until is null
				order by run_id limit $3) o) w
		where s.workspace_id = $1 and s.run_id = w.run_id`, workspace, codes, limit)
	return fault.Wrap(err, "wake runs of %s", workspace)
}

// wakeRepo makes all runs of a repository due.
func (t table) wakeRepo(ctx context.Context, tx sender, workspace, repo events.ID) error {
	_, err := tx.Exec(ctx, `
		update run_steps set due_at = least(due_at, now()) where workspace_id = $1 and repo_id = $2`, workspace, repo)
	return fault.Wrap(err, "wake runs of repository %s", repo)
}

// workspaces returns up to limit workspaces that have due runs, those that have waited longest
// first.
func (t table) workspaces(ctx context.Context, limit int) ([]events.ID, error) {
	rows, _ := t.db.Query(ctx, `
		select workspace_id from run_steps
		where claimed_until is null and due_at <= now()
		group by workspace_id order by min(due_at) limit $1`, limit)
	list, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
	return list, fault.Wrap(err, "find due runs")
}

// claim claims a due run of a workspace, or returns nil if there is none.
func (t table) claim(ctx context.Context, workspace, by events.ID) (*due, error) {
	rows, _ := t.db.Query(ctx, `
		with d as (
			select run_id, look from run_steps
			where workspace_id = $1 and claimed_until is null and due_at <= now()
			order by due_at limit 1 for update skip locked)
		update run_steps s set claimed_by = $2, claimed_until = now() + $3::interval, due_at = 'infinity', look = false
		from d where s.workspace_id = $1 and s.run_id = d.run_id
		returning s.workspace_id, s.run_id, s.repo_id, s.attempt, d.look`,
		workspace, by, claimTime)
	d, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[due])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("claim a run of %s: %w", workspace, err)
	}
	return &d, nil
}

// expire ends the claims that were not renewed, and returns how many. Their runs are due.
func (t table) expire(ctx context.Context) (int64, error) {
	tag, err := t.db.Exec(ctx, `
		update run_steps set claimed_by = null, claimed_until = null, due_at = now() where claimed_until < now()`)
	return tag.RowsAffected(), fault.Wrap(err, "end claims that have expired")
}

// sweep makes the active runs of all workspaces due that have no row.
func (t table) sweep(ctx context.Context) error {
	_, err := t.db.Exec(ctx, `
		insert into run_steps (workspace_id, run_id, repo_id, due_at)
		select workspace_id, run_id, repo_id, now() from runs r where not tidied
			and not exists (select from run_steps s where s.workspace_id = r.workspace_id and s.run_id = r.run_id)
		on conflict do nothing`)
	return fault.Wrap(err, "sweep active runs")
}

// freeSlot returns the smallest number from 1 to most that no key with a prefix has, or 0.
func (t table) freeSlot(ctx context.Context, workspace events.ID, prefix string, most int) (free int, err error) {
	err = t.db.QueryRow(ctx, `
		select coalesce(min(n), 0) from generate_series(1, $3::int) n
		where (select owner from unique_keys where workspace_id = $1 and key = $2 || n) is null`,
		workspace, prefix, most).Scan(&free)
	return free, fault.Wrap(err, "look for a free place of %s", workspace)
}

// earlier reports whether another run of an issue has left something at the code host, or may be about to.
func (t table) earlier(ctx context.Context, workspace, repo events.ID, issue int, run events.ID) (found bool, err error) {
	err = t.db.QueryRow(ctx, `
		select exists (select from runs where workspace_id = $1 and repo_id = $2 and issue_number = $3 and run_id < $4 and not tidied)`,
		workspace, repo, issue, run).Scan(&found)
	return found, fault.Wrap(err, "look for earlier runs of issue %d", issue)
}

// maxSamples is how many runs an estimate chooses from.
const maxSamples = 200

// samples returns those of the runs of a workspace that ended last which implemented something.
func (t table) samples(ctx context.Context, workspace events.ID) ([]client.Sample, error) {
	rows, _ := t.db.Query(ctx, `
		select r.run_id::text, r.repo_id::text, coalesce(r.detail->'plan'->>'implementer', ''), o.status = 'merged',
			case when r.detail->'costUnknown' is null then r.cost_cents end,
			floor(date_part('epoch', o.ended_at - o.queued_at) * 1000)::bigint - o.person_ms, r.detail->'files', r.detail->'total'
		from (
			select run_id, status, implemented, ended_at, queued_at, person_ms from outcomes
			where workspace_id = $1 and ended_at is not null order by ended_at desc limit $2
		) o join runs r on r.workspace_id = $1 and r.run_id = o.run_id where o.implemented order by o.ended_at desc`, workspace, maxSamples)
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s client.Sample, err error) {
		var push events.RunCommitsPushed
		err = row.Scan(&s.Run, &s.Repo, &s.Implementer, &s.Merged, &s.Cents, &s.WorkMS, &push.Files, &push.Total)
		all := push.Changed()
		s.Files, s.Lines = all.Files, all.Added+all.Removed
		return s, err
	})
	return list, fault.Wrap(err, "read ended runs of %s", workspace)
}

// renew extends a claim. It returns false if the claim is lost.
func (t table) renew(ctx context.Context, d *due, by events.ID) (bool, error) {
	tag, err := t.db.Exec(ctx, `
		update run_steps set claimed_until = now() + $4::interval
		where workspace_id = $1 and run_id = $2 and claimed_by = $3`, d.Workspace, d.Run, by, claimTime)
	return tag.RowsAffected() > 0, fault.Wrap(err, "renew the claim of run %s", d.Run)
}

// release ends a claim. The run is due after a time, or earlier if something has happened to it since it was claimed; with 0,
// only then.
func (t table) release(ctx context.Context, d *due, by events.ID, after time.Duration, code events.WaitCode, attempt int) error {
	next := any("infinity")
	if after > 0 {
		next = after
	}
	_, err := t.db.Exec(ctx, `
		update run_steps set claimed_by = null, claimed_until = null, code = $5, attempt = $6, look = look or $7, due_at = least(due_at, case
			when $4 = 'infinity' then 'infinity'::timestamptz else now() + $4::interval end)
		where workspace_id = $1 and run_id = $2 and claimed_by = $3`,
		d.Workspace, d.Run, by, next, string(code), attempt, d.Look)
	return fault.Wrap(err, "release run %s", d.Run)
}

// remove forgets a run for which nothing is left to do, unless something has happened to it.
func (t table) remove(ctx context.Context, d *due, by events.ID) error {
	_, err := t.db.Exec(ctx, `
		delete from run_steps where workspace_id = $1 and run_id = $2 and claimed_by = $3 and due_at = 'infinity'`,
		d.Workspace, d.Run, by)
	return fault.Wrap(err, "forget run %s", d.Run)
}
