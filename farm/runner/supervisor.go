package runner

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"svc/farm/runner/sandbox"
	"svc/farm/wire"
)

// A Config is what a supervisor runs with.
type Config struct {
	Folder       Folder
	Program      string   // that runs jobs' processes: this one
	Capacity     int      // jobs at once; 0 is as enrolled
	Mounts       []string // folders that steps in bubblewrap see, read-only
	GitProtocols string   // that repositories are fetched by, with colons between
	MinDiskFree  int64    // bytes, or no job is taken; 0 is 2 GiB
	Log          *slog.Logger

	// Stop has an element for each signal: the first one drains, the second cancels jobs.
	Stop <-chan os.Signal

	// Backoff is how long to stay away after so many connections that failed. Nil is anything
	// up to a limit that doubles from a second to a minute.
	Backoff func(failures int) time.Duration

	// Boot is the time since the machine started, its sleep among it. Nil is the machine's clock.
	Boot func() time.Duration
}

// A Supervisor holds the connection and the jobs.
type Supervisor struct {
	cfg       Config
	identity  Identity
	link      *link
	sandboxes []string
	log       *slog.Logger
	wake      chan struct{} // there may be something to send
	changed   chan struct{} // closed and made anew when jobs or draining have changed
	uploads   chan struct{} // slots
	owned     sync.WaitGroup

	mu        sync.Mutex
	jobs      map[key]*job
	limits    wire.Limits
	lease     time.Duration
	drains    map[drainer]bool
	connected time.Time // zero: not
	lastError string
	ctx       context.Context // of the goroutines of jobs
}

// A drainer is who asked to take no more jobs.
type drainer string

const (
	drainedByService drainer = "the service"
	drainedHere      drainer = "svc-runner drain"
	drainedToStop    drainer = "a signal"
)

const uploadsAtOnce = 2

// NewSupervisor reads who the runner is and finds out which sandboxes work here.
func NewSupervisor(ctx context.Context, cfg Config) (*Supervisor, error) {
	dir, err := filepath.Abs(string(cfg.Folder)) // jobs' processes have another working directory
	if err != nil {
		return nil, fmt.Errorf("find data folder: %w", err)
	}
	cfg.Folder = Folder(dir)
	id, err := cfg.Folder.Identity()
	if err != nil {
		return nil, err
	}
	if cfg.Boot == nil {
		cfg.Boot = bootTime
	}
	if cfg.Backoff == nil {
		cfg.Backoff = backoff
	}
	if cfg.MinDiskFree == 0 {
		cfg.MinDiskFree = diskGuard
	}
	if cfg.Capacity == 0 {
		cfg.Capacity = max(id.Capacity, 1)
	}
	if cfg.GitProtocols == "" {
		cfg.GitProtocols = "https"
	}
	l, err := openLink(cfg.Folder, id)
	if err != nil {
		return nil, err
	}
	s := &Supervisor{
		cfg: cfg, identity: id, link: l, log: cfg.Log, jobs: map[key]*job{}, drains: map[drainer]bool{}, lease: wire.LeaseTime,
		wake: make(chan struct{}, 1), changed: make(chan struct{}), uploads: make(chan struct{}, uploadsAtOnce),
		limits: wire.Limits{
			LogBytesPerJob: wire.MaxLog, WindowMessages: wire.WindowMessages, WindowBytes: wire.WindowBytes, ArtifactMaxJobBytes: 256 << 20,
		},
	}
	limits := sandbox.Prepare()
	for kind, err := range Sandboxes(ctx, cfg.Folder, cfg.Program, cfg.Mounts) {
		if err == nil {
			s.sandboxes = append(s.sandboxes, kind)
		} else {
			s.log.Warn("sandbox is not offered", "kind", kind, "err", err)
		}
	}
	s.log.Info("svc-runner", "version", Version, "name", id.Name, "runner_id", id.RunnerID, "farm", id.URL,
		"sandboxes", strings.Join(s.sandboxes, ","), "capacity", cfg.Capacity, "limits", limits)
	return s, nil
}

// openLink is the link of a runner that is enrolled.
func openLink(f Folder, id Identity) (*link, error) {
	c, err := f.credentials()
	if err != nil {
		return nil, err
	}
	roots, err := f.authority()
	if err != nil {
		return nil, err
	}
	return newLink(id.URL, roots, c)
}

// Run connects, again and again, until it is stopped (nil), ctx ends, or the farm does not
// take the runner (an error that wraps [ErrRefused]).
func (s *Supervisor) Run(ctx context.Context) error {
	lock, err := s.cfg.Folder.lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	defer s.link.close()
	ctx, stop := context.WithCancel(ctx)
	defer s.owned.Wait()
	defer s.killAll()
	defer stop()
	s.ctx = ctx
	if err := s.recover(); err != nil {
		return err
	}
	control, err := s.listen(ctx)
	if err != nil {
		return err
	}
	defer control()
	for _, task := range []func(context.Context){s.fenceLoop, s.syncLoop, s.renewLoop, s.stopLoop, s.notifyLoop} {
		s.owned.Go(func() { task(ctx) })
	}
	return s.connectLoop(ctx)
}

// update changes what mu guards, and tells those who wait for a change.
func (s *Supervisor) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// poke has the writer look for something to send.
func (s *Supervisor) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// get returns a job that is held, or nil.
func (s *Supervisor) get(k key) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[k]
}

// list returns all jobs that are held.
func (s *Supervisor) list() (all []*job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		all = append(all, j)
	}
	return all
}

// drain takes no more jobs, or no longer because of that drainer.
func (s *Supervisor) drain(by drainer, on bool) {
	s.update(func() {
		if on {
			s.drains[by] = true
		} else {
			delete(s.drains, by)
		}
	})
}

func (s *Supervisor) draining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.drains) > 0
}

// leaving reports whether the supervisor is about to end, and has nothing left to say.
func (s *Supervisor) leaving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drains[drainedToStop] && len(s.jobs) == 0
}

// busy is how many jobs run, or are about to. One that has said its end has nothing left
// but a process that exits, and the service may send the next one at once.
func (s *Supervisor) busy() (n int) {
	for _, j := range s.list() {
		if j.runs() {
			n++
		}
	}
	return n
}

// syncLoop brings what was said of jobs to the disk.
func (s *Supervisor) syncLoop(ctx context.Context) {
	t := time.NewTicker(syncEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			for _, j := range s.list() {
				if err := j.spool.Sync(); err != nil {
					s.log.Error("spool", "job", j.name(), "err", err)
				}
			}
		}
	}
}

// fenceLoop kills jobs whose lease is about to end.
func (s *Supervisor) fenceLoop(ctx context.Context) {
	t := time.NewTicker(fenceEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			now := s.cfg.Boot()
			for _, j := range s.list() {
				if j.fenced(now) {
					s.log.Warn("the lease is about to end: killing the job", "job", j.name())
					j.order(order{Reason: becauseFenced, Now: true})
				}
			}
		}
	}
}
