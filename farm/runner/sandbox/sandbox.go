// Package sandbox runs the steps of a job as processes, and leaves none of them behind.
//
// There are two kinds. None is the runner's own user, with a home of the job's own: it
// separates jobs from each other by folders alone. Bubblewrap is namespaces of Linux: a
// step sees its working directory, a home and a /tmp of the job, and /usr, and with
// network "none" only a loopback of its own.
//
// Whatever a step starts ends with it, though it has left the process group and the session:
// in bubblewrap, and as root, a PID namespace ends with its first process; otherwise the
// step's first process adopts orphans (PR_SET_CHILD_SUBREAPER) and all descendants are
// stopped and killed by a walk of /proc. When the process that runs the steps is killed
// itself, the kernel tells the step's first process (PR_SET_PDEATHSIG), which does the same.
//
// Memory and processors are limited by a control group of the job where the runner may make
// one: version 2 when systemd delegates it (Delegate=yes), version 1 as root. Where it may
// not, memory is limited for each process alone (RLIMIT_DATA), and processors are not.
//
// The program that uses this package answers the argument [InitCommand] by calling [Init].
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// The kinds.
const (
	None       = "none"
	Bubblewrap = "bubblewrap"
)

// InitCommand is the argument with which a step's first process is started.
const InitCommand = "step-init"

// Marker is a variable of all that belongs to a job: [Sweep] finds by it what a runner
// left that was killed.
const Marker = "SVC_RUNNER_JOB"

// A Config is what the steps of a job run in.
type Config struct {
	Name    string // of the job, no other has it
	Dir     string // the job's own folder; it is made, and must not exist
	Program string // this program, or one that answers InitCommand as it does
	Kind    string
	Network bool // that of the machine
	Limits  Limits
	Mounts  []string // folders that bubblewrap shows read-only, besides /usr
}

// Limits are what a job may take; 0 is no limit.
type Limits struct {
	MemoryBytes int64
	CPUs        float64
}

// A Job is the folder in which steps run one after the other.
type Job struct {
	Config
	group *group // nil if there is none
}

// The folders of a job, in Dir.
const (
	workFolder = "work"
	homeFolder = "home"
	tempFolder = "tmp"
)

// New makes the folder. [Job.Remove] has to be called.
func New(c Config) (*Job, error) {
	if c.Kind != None && c.Kind != Bubblewrap {
		return nil, fmt.Errorf("sandbox %q: %w", c.Kind, errors.ErrUnsupported)
	}
	for _, f := range []string{"", workFolder, homeFolder, tempFolder} {
		if err := os.Mkdir(filepath.Join(c.Dir, f), 0o700); err != nil {
			return nil, fmt.Errorf("make folder of the job: %w", err)
		}
	}
	if c.Kind == Bubblewrap {
		if err := writeAccounts(c.Dir); err != nil {
			return nil, err
		}
	}
	return &Job{Config: c, group: newGroup(c.Name, c.Limits)}, nil
}

// Work is the working directory of the steps, as it is outside of the sandbox.
func (j *Job) Work() string { return filepath.Join(j.Dir, workFolder) }

// Home is the home of the steps, as it is outside of the sandbox.
func (j *Job) Home() string { return filepath.Join(j.Dir, homeFolder) }

// Env are the variables that a step has besides its own: where it is.
func (j *Job) Env() []string {
	path := "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	if j.Kind == Bubblewrap {
		return []string{path, "HOME=/home/runner", "TMPDIR=/tmp", "USER=runner", "LOGNAME=runner", "LANG=C.UTF-8", Marker + "=" + j.Name}
	}
	if own := os.Getenv("PATH"); own != "" {
		path = "PATH=" + own
	}
	return []string{path, "HOME=" + j.Home(), "TMPDIR=" + filepath.Join(j.Dir, tempFolder), "LANG=C.UTF-8", Marker + "=" + j.Name}
}

// Remove ends what is still there of the job and removes its folder.
func (j *Job) Remove() error {
	j.group.remove()
	return RemoveAll(j.Dir)
}

// RemoveAll removes a folder, though steps have taken the right to write from folders in it.
func RemoveAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // a folder that is about to be removed
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove folder of the job: %w", err)
	}
	return nil
}

// A Command is a step.
type Command struct {
	Args   []string
	Env    []string // all of it: nothing is inherited
	Output io.Writer
	Plain  bool // in the kind None, though the job has another one: for the runner's own helpers
}

// A Result is how a step ended.
type Result struct {
	ExitCode int    // 128 and the signal's number if a signal ended it
	Signal   string // such as SIGTERM
	Stopped  *Stop  // the order that ended it, if one did
	OOM      bool   // the job has had more memory than it may
	CPU      time.Duration
	MaxRSS   int64 // bytes, of its largest process
}

// Taken is what a job has taken of the machine.
type Taken struct {
	CPU time.Duration // by those of its processes that are there, and those that they have waited for
	RSS int64         // bytes
}

// A Stop is the cause with which the context of a step is cancelled to end it politely.
type Stop struct {
	Reason string
	Grace  time.Duration // between SIGTERM and SIGKILL
}

func (s *Stop) Error() string { return "stopped: " + s.Reason }

// Run runs a step. When polite is done the step's processes get SIGTERM and, when the
// grace of the [Stop] that is its cause has passed, SIGKILL; when ctx is done they get that
// at once. Run returns when none of them is left and all that they wrote was passed on.
// The error says why the step did not run.
func (j *Job) Run(ctx, polite context.Context, c Command) (Result, error) {
	return j.run(ctx, polite, c)
}

// cause returns the order with which a context was cancelled.
func cause(ctx context.Context) *Stop {
	var s *Stop
	if errors.As(context.Cause(ctx), &s) {
		return s
	}
	return &Stop{Reason: "cancel"}
}
