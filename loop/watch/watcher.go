// Package watch looks at code hosts for what has changed in repositories on which runs work: their branches and pull requests,
// and issues that got the label by which they are queued. It asks each host once for all runs of a repository.
package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/aggregates"
	"svc/commands"
	"svc/config"
	"svc/credentials"
	"svc/engine/client"
	"svc/events"
	"svc/fault"
	"svc/lru"
)

const (
	watchTick  = 5 * time.Second
	watchSoon  = 15 * time.Second // between looks at a repository in which something moves
	watchLater = 2 * time.Minute
	watchTime  = time.Minute // of a look
	hintTime   = 15 * time.Second
)

// Config configures a [Watcher].
type Config struct {
	DB          *pgxpool.Pool
	Commands    *commands.Handler
	Credentials credentials.Store
	Engine      client.Client
	Folder      string // of the branches of runs

	// Moved makes runs of a repository due of whose branch or pull request something has changed.
	Moved func(ctx context.Context, workspace, repo events.ID, runs []events.ID) error

	Leads func() bool // of the processes that watch
	Ready func() bool
	Now   func() time.Time
	Log   *slog.Logger
}

// A Watcher watches the repositories of all workspaces.
type Watcher struct {
	Config
	looks  looks
	labels *labels
}

// New returns a watcher that does nothing until it is asked to.
func New(c Config) *Watcher {
	return &Watcher{Config: c, looks: looks{list: map[events.ID]bool{}}, labels: lru.New[labelOf, map[int]time.Time](rememberLabels)}
}

// A watched is a repository whose branches and pull requests are looked at.
type watched struct {
	due   time.Time
	every time.Duration
}

// A Run is how a run's branch and pull request are, as far as the run knows.
type Run struct {
	Workspace events.ID `db:"workspace_id"`
	Repo      events.ID `db:"repo_id"`
	Run       events.ID `db:"run_id"`
	Branch    string    `db:"branch"`
	Head      string    `db:"head"`
	PR        *int      `db:"pr_number"`
}

// Run looks at all repositories now and then, until ctx ends. One process of all does.
func (s *Watcher) Run(ctx context.Context) {
	ticker := time.NewTicker(watchTick)
	defer ticker.Stop()
	seen := map[events.ID]*watched{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !s.Leads() || !s.Ready() {
			continue
		}
		list, err := s.watched(ctx)
		if err != nil {
			if ctx.Err() == nil {
				s.Log.WarnContext(ctx, "find branches to watch", "err", err)
			}
			continue
		}
		s.watchRepos(ctx, seen, list)
	}
}

// watchRepos looks at the repositories that are due. Those of the list that are adjacent are the same.
func (s *Watcher) watchRepos(ctx context.Context, seen map[events.ID]*watched, list []Run) {
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
			changed, err := s.Repo(ctx, list[0].Workspace, repo, list[:n])
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
func (s *Watcher) Look(ctx context.Context, workspace, repo events.ID) {
	if !s.Ready() || !s.looks.begin(repo) {
		return
	}
	for again := true; again && ctx.Err() == nil; again = s.looks.end(repo) {
		within, cancel := context.WithTimeout(ctx, hintTime)
		list, err := s.watchedOf(within, workspace, repo)
		if err == nil {
			_, err = s.Repo(within, workspace, repo, list)
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

// Repo makes the runs due of whose branch or pull request something has changed, and queues issues that got the
// repository's label.
func (s *Watcher) Repo(ctx context.Context, workspace, id events.ID, list []Run) (changed bool, err error) {
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
	if list = slices.DeleteFunc(list, func(r Run) bool { return r.Run.IsZero() }); len(list) == 0 {
		return queued, labelsErr
	}
	out, err := client.Do[client.WatchInput, client.WatchResult](ctx, s.Engine, client.StepWatch,
		Step(workspace, events.ID{}, id, &repo, token, watchTime),
		client.WatchInput{Folder: s.Folder}, nil, nil)
	if err != nil {
		return false, fmt.Errorf("watch repository %s: %w", id, err)
	}
	var moved []events.ID
	for _, r := range list {
		if out.Differs(r.Branch, r.Head, r.PR) {
			moved = append(moved, r.Run)
		}
	}
	if len(moved) == 0 {
		return queued, labelsErr
	}
	return true, errors.Join(s.Moved(ctx, workspace, id, moved), labelsErr)
}

// watched returns the active runs that have a branch, by repository, with a zero run of each repository that has a label.
func (s *Watcher) watched(ctx context.Context) ([]Run, error) {
	rows, _ := s.DB.Query(ctx, `
		select workspace_id, repo_id, run_id, branch, detail::jsonb ->> 'head' as head, pr_number from runs
		where active and branch <> ''
		union all select workspace_id, repo_id, '00000000-0000-0000-0000-000000000000', '', '', null from repos
		where status = 'active' and settings ->> 'label' <> ''
		order by workspace_id, repo_id`)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Run])
	return list, fault.Wrap(err, "read branches of active runs")
}

// watchedOf is watched for one repository.
func (s *Watcher) watchedOf(ctx context.Context, workspace, repo events.ID) ([]Run, error) {
	rows, _ := s.DB.Query(ctx, `
		select workspace_id, repo_id, run_id, branch, detail::jsonb ->> 'head' as head, pr_number from runs
		where workspace_id = $1 and repo_id = $2 and not tidied and active and branch <> ''`, workspace, repo)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Run])
	return list, fault.Wrap(err, "read branches of active runs of repository %s", repo)
}

// Step returns a step in a repository, without its input.
func Step(workspace, run, id events.ID, repo *aggregates.Repo, token string, most time.Duration) client.Step {
	host := repo.Host()
	step := client.Step{
		Protocol: client.Protocol, Workspace: workspace.String(), Seconds: int(most / time.Second),
		Repository: client.Repository{
			ID: id.String(), Kind: string(host.Kind), Name: repo.Name(), API: host.API, Clone: host.Clone, HostID: host.ID,
			Credential: client.Credential{Token: config.Secret(token)},
		},
	}
	if !run.IsZero() {
		step.Run = run.String()
	}
	return step
}
