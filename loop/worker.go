package loop

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/aggregates"
	"svc/commands"
	"svc/credentials"
	"svc/engine/client"
	"svc/events"
	"svc/farm/artifacts"
	"svc/farm/joblog"
	"svc/farm/queue"
	"svc/fault"
	"svc/loop/watch"
)

const (
	workers     = 16               // runs that a process moves at once
	pollEvery   = time.Second      // between looks for due runs that nobody announced
	maxMoves    = 100              // of a run in one claim
	stepTime    = 10 * time.Minute // of a step of the engine
	maxFailures = 300              // of a step in a row, a day at the longest pause
	minBackoff  = time.Second
	maxBackoff  = 5 * time.Minute
)

// Config configures a [Scheduler].
type Config struct {
	DB        *pgxpool.Pool
	Marker    *Marker
	Events    events.Streams // the log, which authenticates what it returns
	Commands  *commands.Handler
	Engine    client.Client
	Queue     queue.Queue
	Artifacts artifacts.Store // nil if artifacts are off
	Logs      *joblog.Logs

	Credentials credentials.Store

	// Secrets returns the values of job secrets by name.
	Secrets func(ctx context.Context, workspace events.ID, names []string) (map[string]string, error)

	Origin         string  // of the web app, for links in pull requests
	MaxActive      int     // runs of a workspace that are active at once
	CentsPerMinute float64 // of a runner
	Leads          func(name string) bool
	Ready          func() bool // false while the process must not act, such as while the vault is closed
	Now            func() time.Time
	Log            *slog.Logger
}

// A Scheduler moves runs. Any number of processes may run one.
type Scheduler struct {
	Config
	table    table
	holder   events.ID // in claims
	wake     chan struct{}
	policies policies
	watcher  *watch.Watcher
}

// New returns a scheduler that does nothing until Run is called.
func New(c Config) *Scheduler {
	s := &Scheduler{Config: c, table: table{c.DB}, holder: events.NewID(c.Now()), wake: make(chan struct{}, workers), policies: newPolicies()}
	s.watcher = watch.New(watch.Config{
		DB: c.DB, Commands: c.Commands, Credentials: c.Credentials, Engine: c.Engine, Folder: branchFolder, Moved: s.moved,
		Leads: func() bool { return c.Leads(MarkerName) }, Ready: c.Ready, Now: c.Now, Log: c.Log,
	})
	s.Marker.marked = s.notify
	return s
}

// notify wakes a worker.
func (s *Scheduler) notify() {
	select {
	case s.wake <- struct{}{}:
	default: // all of them will look
	}
}

// Run moves runs until ctx ends. Then it lets go of those that it holds.
func (s *Scheduler) Run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { s.Marker.run(ctx) })
	for range workers {
		group.Go(func() { s.work(ctx) })
	}
	group.Go(func() { s.watcher.Run(ctx) })
	group.Go(func() { s.poll(ctx) })
	group.Wait()
}

// Look looks at a repository now, since its code host has told of a change.
func (s *Scheduler) Look(ctx context.Context, workspace, repo events.ID) {
	s.watcher.Look(ctx, workspace, repo)
}

// moved makes runs due that have to look at their branch and pull request.
func (s *Scheduler) moved(ctx context.Context, workspace, repo events.ID, runs []events.ID) error {
	var marks []mark
	for _, run := range runs {
		marks = append(marks, mark{Run: run, Repo: repo, Look: true})
	}
	err := s.table.mark(ctx, s.DB, workspace, marks)
	s.notify()
	return err
}

// poll wakes a worker now and then, which wakes others if there is work.
func (s *Scheduler) poll(ctx context.Context) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.notify()
		}
	}
}

// work moves one due run after the other.
func (s *Scheduler) work(ctx context.Context) {
	for ctx.Err() == nil {
		if s.Ready() && s.round(ctx) {
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.wake:
		}
	}
}

// round moves one run of each workspace that has due ones, and reports whether there was any.
func (s *Scheduler) round(ctx context.Context) (found bool) {
	list, err := s.table.workspaces(ctx, workers)
	if err != nil {
		s.warn(ctx, "find due runs", err)
		return false
	}
	for _, workspace := range list {
		d, err := s.table.claim(ctx, workspace, s.holder)
		if err != nil {
			s.warn(ctx, "claim a run", err)
			return false
		}
		if d != nil {
			found = true
			s.notify() // there may be more
			s.hold(ctx, d)
		}
	}
	return found
}

// hold moves a claimed run while it renews the claim.
func (s *Scheduler) hold(ctx context.Context, d *due) {
	moving, stop := context.WithCancel(ctx)
	var renewal sync.WaitGroup
	renewal.Go(func() { s.renew(moving, stop, d) })
	next := s.move(moving, d)
	stop()
	renewal.Wait()
	s.letGo(context.WithoutCancel(ctx), d, next)
}

// renew renews a claim until ctx ends, and calls lost if somebody else has it.
func (s *Scheduler) renew(ctx context.Context, lost func(), d *due) {
	ticker := time.NewTicker(claimTime / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if held, err := s.table.renew(ctx, d, s.holder); err == nil && !held {
				lost()
				return
			}
		}
	}
}

// letGo ends a claim.
func (s *Scheduler) letGo(ctx context.Context, d *due, next after) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var err error
	if next.done {
		err = s.table.remove(ctx, d, s.holder)
	}
	if err == nil {
		err = s.table.release(ctx, d, s.holder, next.wait, next.code, next.attempt)
	}
	if err != nil {
		s.warn(ctx, "let go of a run", err, "run", d.Run) // its claim expires
	}
}

// An after says when a run is due next: after wait, or with 0 when something happens to it.
type after struct {
	done    bool
	wait    time.Duration
	code    events.WaitCode
	attempt int // failures in a row
}

// move moves a run as far as it goes.
func (s *Scheduler) move(ctx context.Context, d *due) after {
	r := &runner{Scheduler: s, workspace: d.Workspace, run: d.Run, attempt: d.Attempt, wantsLook: d.Look}
	defer func() { d.Look = r.wantsLook || ctx.Err() != nil && d.Look }() // it has still to look
	for range maxMoves {
		next, err := r.once(ctx)
		switch {
		case ctx.Err() != nil:
			return after{wait: time.Millisecond, attempt: d.Attempt} // another process goes on
		case errors.Is(err, commands.ErrRunMoved):
			continue // it was decided by an older state
		case err != nil:
			return r.failed(ctx, err)
		case next != nil:
			return *next
		}
		r.attempt = 0
	}
	return after{wait: minBackoff}
}

// backoff returns how long to wait after the n-th failure in a row: exponential, with full jitter.
func backoff(n int) time.Duration {
	most := min(minBackoff<<min(n, 16), maxBackoff)
	return most/2 + rand.N(most/2)
}

func (s *Scheduler) warn(ctx context.Context, what string, err error, more ...any) {
	if ctx.Err() == nil {
		s.Log.WarnContext(ctx, "moving runs failed", append(more, "at", what, "err", err)...)
	}
}

// A runner moves one run.
type runner struct {
	*Scheduler
	workspace, run events.ID
	attempt        int  // failures in a row
	wantsLook      bool // something has changed at the code host
	movedAt        int  // version at which a step found the branch elsewhere

	// Of the present move.
	p     *aggregates.Progress
	repo  Repo
	issue aggregates.Issue
	from  aggregates.Repo
	known bool // the repository was connected at some time
}

// meta is who moves runs.
func (r *runner) meta() commands.Meta {
	return commands.Meta{
		Workspace: r.workspace,
		Envelope:  events.Envelope{Actor: commands.LoopOf(r.p.Repo.ID), Origin: events.FromSystem},
	}
}

// once decides the next move and makes it. It returns when the run is due next, or nil if it can
// be decided again at once.
func (r *runner) once(ctx context.Context) (*after, error) {
	in, err := r.look(ctx)
	if err != nil {
		return nil, err
	}
	if r.p.Status == "" || !r.known { // there is no such run, or nobody ever connected its repository
		return &after{done: true}, nil
	}
	m := Next(r.p, in)
	switch {
	case m.Done:
		return &after{done: true}, nil
	case m.Wait != nil:
		return r.wait(ctx, *m.Wait, 0)
	case m.Do != nil || m.Start != nil:
		deleted, err := r.Commands.IsDeleted(ctx, r.workspace)
		if err != nil || deleted {
			return &after{done: true}, err // the sweep finds it again if the workspace is restored
		}
	}
	err = r.carryOut(ctx, m)
	if errors.Is(err, commands.ErrRunMoved) && in.Look != nil {
		r.wantsLook = true // nothing came of what it saw
	}
	return nil, err
}

// wait records what the run waits for, if that is new, and returns when it is due next. A code of "" ends an earlier
// wait.
func (r *runner) wait(ctx context.Context, w Wait, attempt int) (*after, error) {
	next := &after{wait: w.For, code: w.Code, attempt: attempt}
	var was events.RunWaiting
	if r.p.Wait != nil {
		was = *r.p.Wait
	}
	if r.p.Over() || w.Code == was.Code && (w.Detail == was.Detail || attempt > 0) { // the words of failures may change each time
		return next, nil
	}
	return next, r.record(ctx, events.RunWaiting{Code: w.Code, Detail: w.Detail})
}

// failed returns when to try again after an error, and records that the run waits if it failed
// before, too.
func (r *runner) failed(ctx context.Context, err error) after {
	if w, ok := errors.AsType[*waiting](err); ok { // nothing has failed
		next, err := r.wait(ctx, Wait{w.code, w.detail, recheck}, 0)
		if err == nil {
			return *next
		}
		return after{wait: minBackoff, code: w.code}
	}
	r.attempt++
	w, note := r.waitFor(err)
	endless := w.Code == events.WaitHostRule || w.Code == events.WaitBackoff
	if endless && r.attempt > maxFailures && r.p != nil && !r.p.Over() {
		if err = r.record(ctx, r.givenUp(w.Detail)...); err == nil {
			return after{wait: time.Millisecond}
		}
	}
	if note {
		r.warn(ctx, "move a run", err, "run", r.run, "workspace", r.workspace)
	}
	if r.p == nil || r.p.Over() || r.attempt < 2 && w.Code != events.WaitEngine {
		return after{wait: w.For, code: w.Code, attempt: r.attempt}
	}
	next, err := r.wait(ctx, w, r.attempt)
	if err != nil {
		r.warn(ctx, "record that a run waits", err, "run", r.run)
	}
	return *next
}

// givenUp ends a run one of whose steps has failed for too long.
func (r *runner) givenUp(why string) []events.Event {
	if r.p.Status == events.RunStatusMerging {
		return r.unmergeable(why)
	}
	return failed(r.p, events.FailDeadline, "It was tried for a day. "+clean(why))
}

// waitFor returns what to wait for after an error, and whether operators should know of it.
func (r *runner) waitFor(err error) (w Wait, note bool) {
	pause := backoff(r.attempt)
	f, _ := errors.AsType[*client.Failure](err)
	switch {
	case errors.Is(err, client.ErrKey), errors.Is(err, client.ErrUnavailable):
		return Wait{events.WaitEngine, "The engine is not available right now.", min(pause, 30*time.Second)}, r.attempt == 1
	case f != nil && f.Code == client.CodeEngine:
		return Wait{events.WaitBackoff, "The engine could not finish the step. Its log says why.", pause}, r.attempt == 1
	case f != nil && f.Class == client.Transient:
		if f.RetryAfter > 0 {
			pause = time.Duration(f.RetryAfter) * time.Second
		}
		return Wait{hostWait(f.Code), f.Message, pause}, false
	case f != nil:
		return Wait{events.WaitPaused, f.Message, recheck}, false
	case errors.Is(err, queue.ErrFull):
		return Wait{events.WaitFarm, "The queue of the build farm is full.", 30 * time.Second}, false
	case fault.As(err) != nil && fault.As(err).Kind == fault.Busy:
		return Wait{events.WaitBackoff, "The service is busy.", pause}, false
	}
	return Wait{events.WaitBackoff, "Something failed that should not. The service tries again.", pause}, true
}

func hostWait(code string) events.WaitCode {
	switch code {
	case client.CodeHostLimited:
		return events.WaitHostLimit
	case client.CodeHostLag:
		return events.WaitHostLag
	case client.CodeHostRule:
		return events.WaitHostRule
	case client.CodeHostAway:
		return events.WaitHost
	}
	return events.WaitBackoff
}
