package runner

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"svc/farm/runner/executor"
	"svc/farm/runner/identity"
	"svc/farm/runner/sandbox"
	"svc/farm/wire"
)

// A Config configures a supervisor.
type Config struct {
	Folder       identity.Folder
	Program      string   // path of this program, which is started for each job; on Linux only its name
	Capacity     int      // jobs at once; 0 is the capacity given at enrollment
	Mounts       []string // folders that steps in bubblewrap can read
	Environ      []string // variables of this program, whose proxies and authorities git and steps get
	GitProtocols string   // protocols to fetch repositories by, separated by colons
	MinDiskFree  int64    // bytes that must be free to take a job; 0 is 2 GiB
	MaxJobDisk   int64    // bytes that a job may take up in its folder and its spool; 0 is no limit
	MaxProcesses int      // processes and threads of a job at once; 0 is sandbox.DefaultProcesses
	Adopt        bool     // whether this process adopts and kills orphans; all its children are then jobs
	Log          *slog.Logger

	// Stop receives signals: the first one drains, the second cancels the jobs.
	Stop <-chan os.Signal

	// Backoff returns the pause after a number of failed connections in a row. The default is
	// exponential from a second to a minute, with full jitter.
	Backoff func(failures int) time.Duration

	ackTimeout time.Duration // see waitUntilIdle; 0 is 30 seconds

	// BootTime returns the time since the machine booted, including sleep. The default is the
	// machine's clock.
	BootTime func() time.Duration
}

// A Supervisor holds the connection to the farm and runs the jobs.
type Supervisor struct {
	cfg       Config
	identity  identity.Identity
	farm      *identity.Client // nil before Run
	sandboxes []string
	log       *slog.Logger
	wake      chan struct{} // has a value when there may be something to send
	changed   chan struct{} // closed and replaced when anything under mu changes
	uploads   chan struct{} // semaphore for uploads of artifacts
	children  sandbox.Children

	// inBackground runs a task in a goroutine. Run sets it, ends the context of tasks when it is told
	// to end, and waits for them.
	inBackground func(task func(context.Context))

	mu         sync.Mutex
	jobs       map[attemptKey]*job
	limits     wire.Limits
	lease      time.Duration
	drains     map[drainer]bool
	cancelling bool      // a second signal has cancelled the jobs
	connected  time.Time // zero if not connected
	lastError  string
	lost       []time.Time // when connections were cut by neither side, the last maxLost
}

// A drainer is a source of the wish to take no more jobs.
type drainer string

const (
	drainedByService drainer = "the service"
	drainedHere      drainer = "svc-runner drain"
	drainedToStop    drainer = "a signal"
)

const uploadsAtOnce = 2

// NewSupervisor reads the runner's identity and probes which sandboxes work on this machine.
func NewSupervisor(ctx context.Context, cfg Config) (*Supervisor, error) {
	dir, err := filepath.Abs(string(cfg.Folder)) // jobs' processes run in another directory
	if err != nil {
		return nil, fmt.Errorf("find data folder: %w", err)
	}
	cfg.Folder = identity.Folder(dir)
	id, err := cfg.Folder.Identity()
	if err != nil {
		return nil, err
	}
	if cfg.BootTime == nil {
		cfg.BootTime = executor.BootTime
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
	if cfg.ackTimeout == 0 {
		cfg.ackTimeout = ackTimeout
	}
	if cfg.GitProtocols == "" {
		cfg.GitProtocols = "https"
	}
	s := &Supervisor{
		cfg: cfg, identity: id, log: cfg.Log, jobs: map[attemptKey]*job{}, drains: map[drainer]bool{}, lease: wire.LeaseTime,
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
	if cfg.Adopt { // after the probes, which start processes
		if err := s.children.Adopt(); err != nil {
			return nil, err
		}
	}
	s.log.Info("svc-runner", "version", Version, "name", id.Name, "runner_id", id.RunnerID, "farm", id.URL,
		"sandboxes", strings.Join(s.sandboxes, ","), "capacity", cfg.Capacity, "limits", limits)
	return s, nil
}

// Run connects, again and again, until it is stopped (nil), ctx ends, or the farm refuses the
// runner (an error that wraps [ErrRefused]).
func (s *Supervisor) Run(ctx context.Context) error {
	lock, err := s.cfg.Folder.Lock()
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if err := s.readIdentity(); err != nil {
		return err
	}
	defer s.farm.Close()
	ctx, stop := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	s.inBackground = func(task func(context.Context)) { tasks.Go(func() { task(ctx) }) }
	defer s.logLeft()
	defer tasks.Wait()
	defer s.killAll()
	defer stop()
	if err := identity.UseRenewed(ctx, s.cfg.Folder, s.farm); err != nil {
		return err
	}
	if err := s.recoverJobs(); err != nil {
		return err
	}
	control, err := s.serveControl(ctx)
	if err != nil {
		return err
	}
	defer control()
	for _, task := range []func(context.Context){s.fenceLoop, s.syncLoop, s.renewLoop, s.stopLoop, s.notifyLoop} {
		s.inBackground(task)
	}
	return s.connectLoop(ctx)
}

// readIdentity reads who the runner is, now that the folder is locked: another process may have renewed
// the certificate, or enrolled the machine anew, since the supervisor was made.
func (s *Supervisor) readIdentity() error {
	id, err := s.cfg.Folder.Identity()
	if err != nil {
		return err
	}
	s.update(func() { s.identity = id })
	s.farm, err = identity.OpenClient(s.cfg.Folder, id)
	return err
}

// update changes what mu guards, and wakes all who wait on changed.
func (s *Supervisor) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// wakeWriter makes the connection's writer look for messages to send.
func (s *Supervisor) wakeWriter() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// heldJob returns a held job, or nil.
func (s *Supervisor) heldJob(k attemptKey) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[k]
}

// heldJobs returns all held jobs.
func (s *Supervisor) heldJobs() (all []*job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		all = append(all, j)
	}
	return all
}

// jobsToList returns all held jobs in the order in which hellos and heartbeats list them, which have room for
// [wire.MaxHeld]: first those without an end, which are not many more than run at once.
func (s *Supervisor) jobsToList() []*job {
	var unended, unacknowledged, others []*job
	for _, j := range s.heldJobs() {
		switch {
		case !j.inHeartbeats(): // only its artifacts are left
			others = append(others, j)
		case j.hasEnd():
			unacknowledged = append(unacknowledged, j)
		default:
			unended = append(unended, j)
		}
	}
	return slices.Concat(unended, unacknowledged, others)
}

// drain starts or ends a drain by one source. Jobs are taken while no source drains.
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

// leaving reports whether the supervisor is about to exit and has nothing left to send.
func (s *Supervisor) leaving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drains[drainedToStop] && len(s.jobs) == 0
}

// runningJobs returns how many jobs run or are about to. A job that has reported its end does not
// count, since the service may send the next one at once.
func (s *Supervisor) runningJobs() (n int) {
	for _, j := range s.heldJobs() {
		if j.isRunning() {
			n++
		}
	}
	return n
}

// syncLoop syncs the spools to disk periodically.
func (s *Supervisor) syncLoop(ctx context.Context) {
	t := time.NewTicker(syncEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			for _, j := range s.heldJobs() {
				if err := j.spool.Sync(); err != nil {
					s.log.Error("sync spool", "job", j.name(), "err", err)
				}
			}
		}
	}
}

// fenceLoop kills jobs whose lease is about to expire.
func (s *Supervisor) fenceLoop(ctx context.Context) {
	t := time.NewTicker(executor.FenceEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			now := s.cfg.BootTime()
			for _, j := range s.heldJobs() {
				if j.fenceDue(now) {
					s.log.Warn("the lease is about to end: killing the job", "job", j.name())
					j.sendOrder(executor.StopOrder{Reason: executor.ReasonFenced, Kill: true})
				}
			}
		}
	}
}
