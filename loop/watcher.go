package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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
	hintTime   = 15 * time.Second
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
			changed, err := s.watchRepo(ctx, list[0].Workspace, repo, list[:n])
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

// Look looks at a repository now, since its code host has told of a change. Any process may: what it finds makes runs due
// as what the watcher finds. It returns at once if the process looks at the repository already, which then is done once more.
func (s *Scheduler) Look(ctx context.Context, workspace, repo events.ID) {
	if !s.Ready() || !s.looks.begin(repo) {
		return
	}
	for again := true; again && ctx.Err() == nil; again = s.looks.end(repo) {
		within, cancel := context.WithTimeout(ctx, hintTime)
		list, err := s.table.watchedOf(within, workspace, repo)
		if err == nil {
			_, err = s.watchRepo(within, workspace, repo, list)
		}
		cancel()
		if err != nil {
			s.Log.DebugContext(ctx, "look at a repository", "repo", repo, "err", err) // the watcher looks again
		}
	}
}

// looks are the repositories that are looked at because of hints, each with whether another hint has come.
type looks struct {
	mu   sync.Mutex
	list map[events.ID]bool
}

// begin reports whether nobody looks at a repository, and otherwise has it looked at again.
func (l *looks) begin(repo events.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, busy := l.list[repo]
	l.list[repo] = busy
	return !busy
}

// end reports whether to look at a repository again.
func (l *looks) end(repo events.ID) (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if again = l.list[repo]; again {
		l.list[repo] = false
	} else {
		delete(l.list, repo)
	}
	return again
}

// watchRepo makes the runs due of whose branch or pull request something has changed, and queues issues that got the
// repository's label.
func (s *Scheduler) watchRepo(ctx context.Context, workspace, id events.ID, list []watchedRun) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, watchTime)
	defer cancel()
	if deleted, err := s.Commands.IsDeleted(ctx, workspace); err != nil || deleted {
		return false, err
	}
	repo, token, err := s.Credentials.Reveal(ctx, workspace, id, events.WriteCredential)
	if _, paused := repo.Paused(); err != nil || paused || !repo.Connected() {
		return false, err
	}
	queued, labelsErr := s.queueLabelled(ctx, workspace, id, &repo, token)
	if list = slices.DeleteFunc(list, func(r watchedRun) bool { return r.Run.IsZero() }); len(list) == 0 {
		return queued, labelsErr
	}
	out, err := client.Do[client.WatchInput, client.WatchResult](ctx, s.Engine, client.StepWatch,
		stepFor(workspace, events.ID{}, id, &repo, token, watchTime),
		client.WatchInput{Folder: branchFolder}, nil, nil)
	if err != nil {
		return false, fmt.Errorf("watch repository %s: %w", id, err)
	}
	var marks []mark
	for _, r := range list {
		if out.Differs(r.Branch, r.Head, r.PR) {
			marks = append(marks, mark{Run: r.Run, Repo: r.Repo, Look: true})
		}
	}
	if len(marks) == 0 {
		return queued, labelsErr
	}
	err = s.table.mark(ctx, s.DB, workspace, marks)
	s.notify()
	return true, errors.Join(err, labelsErr)
}

// watched returns the active runs that have a branch, by repository, with a zero run of each repository that has a label.
func (t table) watched(ctx context.Context) ([]watchedRun, error) {
	rows, _ := t.db.Query(ctx, `
		select workspace_id, repo_id, run_id, branch, detail::jsonb ->> 'head' as head, pr_number from runs
		where active and branch <> ''
		union all select workspace_id, repo_id, '00000000-0000-0000-0000-000000000000', '', '', null from repos
		where status = 'active' and settings ->> 'label' <> ''
		order by workspace_id, repo_id`)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[watchedRun])
	return list, fault.Wrap(err, "read branches of active runs")
}

// watchedOf is watched for one repository.
func (t table) watchedOf(ctx context.Context, workspace, repo events.ID) ([]watchedRun, error) {
	rows, _ := t.db.Query(ctx, `
		select workspace_id, repo_id, run_id, branch, detail::jsonb ->> 'head' as head, pr_number from runs
		where workspace_id = $1 and repo_id = $2 and not tidied and active and branch <> ''`, workspace, repo)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[watchedRun])
	return list, fault.Wrap(err, "read branches of active runs of repository %s", repo)
}
