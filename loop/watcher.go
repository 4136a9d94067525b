package loop

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/engine/client"
	"svc/events"
	"svc/fault"
)

const (
	watchTick  = 5 * time.Second
	watchSoon  = 15 * time.Second // between looks at a repository in which something moves
	watchLater = 2 * time.Minute
	watchTime  = time.Minute // of a look
)

// A watched is a repository whose branches and pull requests are looked at.
type watched struct {
	due   time.Time
	every time.Duration
}

// A watchedRun is how a run's branch and pull request are, as far as the run knows.
type watchedRun struct {
	Workspace events.ID `db:"workspace_id"`
	Repo      events.ID `db:"repo_id"`
	Run       events.ID `db:"run_id"`
	Branch    string    `db:"branch"`
	Head      string    `db:"head"`
	PR        *int      `db:"pr_number"`
}

// watch looks at the code host, once for all runs of a repository, until ctx ends. One process of all does.
func (s *Scheduler) watch(ctx context.Context) {
	ticker := time.NewTicker(watchTick)
	defer ticker.Stop()
	seen := map[events.ID]*watched{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !s.Leads(MarkerName) || !s.Ready() {
			continue
		}
		list, err := s.table.watched(ctx)
		if err != nil {
			s.warn(ctx, "find branches to watch", err)
			continue
		}
		s.watchRepos(ctx, seen, list)
	}
}

// watchRepos looks at the repositories that are due. Those of the list that are adjacent are the same.
func (s *Scheduler) watchRepos(ctx context.Context, seen map[events.ID]*watched, list []watchedRun) {
	active := map[events.ID]bool{}
	for len(list) > 0 && ctx.Err() == nil {
		n := 1
		for n < len(list) && list[n].Repo == list[0].Repo {
			n++
		}
		repo := list[0].Repo
		active[repo] = true
		if seen[repo] == nil {
			seen[repo] = &watched{due: s.Now().Add(watchSoon), every: watchSoon}
		}
		if w := seen[repo]; !s.Now().Before(w.due) {
			changed, err := s.watchRepo(ctx, list[:n])
			if err != nil {
				s.Log.DebugContext(ctx, "watch a repository", "repo", repo, "err", err) // its runs say so
			}
			w.every = min(2*w.every, watchLater)
			if changed {
				w.every = watchSoon
			}
			w.due = s.Now().Add(w.every)
		}
		list = list[n:]
	}
	for repo := range seen {
		if !active[repo] {
			delete(seen, repo)
		}
	}
}

// watchRepo makes the runs due of whose branch or pull request something has changed.
func (s *Scheduler) watchRepo(ctx context.Context, list []watchedRun) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, watchTime)
	defer cancel()
	workspace := list[0].Workspace
	if deleted, err := s.Commands.IsDeleted(ctx, workspace); err != nil || deleted {
		return false, err
	}
	repo, token, err := s.Credentials.Reveal(ctx, workspace, list[0].Repo, events.WriteCredential)
	if _, paused := repo.Paused(); err != nil || paused || !repo.Connected() {
		return false, err
	}
	out, err := client.Do[client.WatchInput, client.WatchResult](ctx, s.Engine, client.StepWatch,
		stepFor(workspace, events.ID{}, list[0].Repo, &repo, token, watchTime),
		client.WatchInput{Folder: branchFolder}, nil, nil)
	if err != nil {
		return false, fmt.Errorf("watch repository %s: %w", list[0].Repo, err)
	}
	var marks []mark
	for _, r := range list {
		if out.Differs(r.Branch, r.Head, r.PR) {
			marks = append(marks, mark{Run: r.Run, Repo: r.Repo, Look: true})
		}
	}
	if len(marks) == 0 {
		return false, nil
	}
	err = s.table.mark(ctx, s.DB, workspace, marks)
	s.notify()
	return true, err
}

// watched returns the active runs that have a branch, by repository.
func (t table) watched(ctx context.Context) ([]watchedRun, error) {
	rows, _ := t.db.Query(ctx, `
		select workspace_id, repo_id, run_id, branch, detail::jsonb ->> 'head' as head, pr_number from runs
		where active and branch <> '' order by workspace_id, repo_id`)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[watchedRun])
	return list, fault.Wrap(err, "read branches of active runs")
}
