// Package sandbox runs the steps of a job as processes, and leaves none of them behind.
//
// There are two kinds. None runs steps as the runner's own user with a home of the job's own, so
// jobs are separated only by folders. Bubblewrap uses Linux namespaces: a step sees the job's
// working directory, home and /tmp, and /usr; with network "none" it has only a loopback device.
//
// Everything that a step starts ends with it, even processes that left its process group and
// session. In bubblewrap, and as root, the kernel ends a PID namespace with its first process.
// Otherwise the step's first process adopts orphans (PR_SET_CHILD_SUBREAPER), and all descendants
// found in /proc are stopped and killed. If the process that runs the steps is killed, the kernel
// signals the step's first process (PR_SET_PDEATHSIG), which then does the same.
//
// Memory, processors and the number of processes are limited by a control group of the job where the
// runner may create one: version 2 if systemd delegates it (Delegate=yes), version 1 as root. The
// job is then also killed as a group. Otherwise memory is limited per process (RLIMIT_DATA),
// processes by those that the user has in all (RLIMIT_NPROC, without effect as root), and processors
// are not limited.
//
// Programs that run outside of bubblewrap for a step, and bwrap itself, get neither the step's
// variables nor its working directory: a step could otherwise choose what they load or run.
//
// A program that uses this package must call [Init] when its argument is [InitCommand].
package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Kinds of sandboxes.
const (
	None       = "none"
	Bubblewrap = "bubblewrap"
)

// InitCommand is the argument that starts a step's first process.
const InitCommand = "step-init"

// Marker is an environment variable of all processes of a job. [Sweep] finds by it the processes
// that a killed runner left behind.
const Marker = "SVC_RUNNER_JOB"

// A Config describes the sandbox of a job.
type Config struct {
	Name        string // of the job, unique on this machine
	Dir         string // the job's folder, which New creates
	Program     string // name for this program as a step's first process
	Kind        string
	HostNetwork bool // whether steps use the machine's network
	Limits      Limits
	Mounts      []string // folders mounted read-only in bubblewrap, besides /usr
	Authorities []string // files and folders of certificate authorities, which bubblewrap shows too
	Input       []byte   // of the file that steps find as $SVC_IN/task.json; nil is none
}

// Limits limit the resources of a job; 0 is no limit, except of Processes.
type Limits struct {
	MemoryBytes int64
	CPUs        float64
	Processes   int // processes and threads at once; 0 is [DefaultProcesses]
}

// DefaultProcesses is far below what a machine can have, so that a job with too many does not stop
// the runner from starting processes.
const DefaultProcesses = 4096

// A Job is a sandbox in which steps run one after the other.
type Job struct {
	Config
	group      *group // nil if there is none
	bubblewrap string // absolute path of bwrap, if it is used
}

// The folders of a job, in Dir.
const (
	workFolder = "work"
	homeFolder = "home"
	tempFolder = "tmp"
	shmFolder  = "shm" // only of bubblewrap
	inFolder   = "in"  // only of a job with an input
)

const inputFile = "task.json"

// New creates the job's folder and control group. The caller must call [Job.Remove]. The error
// wraps [errors.ErrUnsupported] for an unknown kind.
func New(c Config) (*Job, error) {
	if c.Kind != None && c.Kind != Bubblewrap {
		return nil, fmt.Errorf("sandbox %q: %w", c.Kind, errors.ErrUnsupported)
	}
	c.Limits.Processes = cmp.Or(c.Limits.Processes, DefaultProcesses)
	j := &Job{Config: c}
	if c.Kind == Bubblewrap {
		var err error
		if j.bubblewrap, err = exec.LookPath("bwrap"); err != nil { // on the runner's own PATH
			return nil, fmt.Errorf("find bubblewrap: %w", err)
		}
	}
	for _, f := range []string{"", workFolder, homeFolder, tempFolder} {
		if err := os.Mkdir(filepath.Join(c.Dir, f), 0o700); err != nil {
			return nil, fmt.Errorf("make folder of the job: %w", err)
		}
	}
	if c.Kind == Bubblewrap {
		if err := os.Mkdir(filepath.Join(c.Dir, shmFolder), 0o700); err != nil {
			return nil, fmt.Errorf("make folder of the job: %w", err)
		}
		if err := writeAccounts(c.Dir); err != nil {
			return nil, err
		}
	}
	if c.Input != nil {
		if err := writeInput(filepath.Join(c.Dir, inFolder), c.Input); err != nil {
			return nil, err
		}
	}
	j.group = newGroup(c.Name, c.Limits)
	return j, nil
}

// writeInput writes the job's input into a folder of its own, which bubblewrap shows read-only.
func writeInput(dir string, input []byte) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, inputFile), input, 0o400)
	}
	if err != nil {
		return fmt.Errorf("write the job's input: %w", err)
	}
	return nil
}

// Work returns the steps' working directory, as a path outside of the sandbox.
func (j *Job) Work() string { return filepath.Join(j.Dir, workFolder) }

// InWork returns the path of a file in the working directory, as steps see it.
func (j *Job) InWork(name string) string {
	if j.Kind == Bubblewrap {
		return filepath.Join("/work", name)
	}
	return filepath.Join(j.Work(), name)
}

// Home returns the steps' home, as a path outside of the sandbox.
func (j *Job) Home() string { return filepath.Join(j.Dir, homeFolder) }

const systemPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Env returns the variables that the sandbox gives to each step.
func (j *Job) Env() []string {
	path, in := systemPath, filepath.Join(j.Dir, inFolder)
	var env []string
	if j.Kind == Bubblewrap {
		in = "/in"
		env = []string{"HOME=/home/runner", "TMPDIR=/tmp", "USER=runner", "LOGNAME=runner"}
	} else {
		if own := os.Getenv("PATH"); own != "" {
			path = "PATH=" + own
		}
		// Git looks for a repository no further up, where the runner's folder may be in somebody's clone.
		env = []string{"HOME=" + j.Home(), "TMPDIR=" + filepath.Join(j.Dir, tempFolder), "GIT_CEILING_DIRECTORIES=" + j.Dir}
	}
	if j.Input != nil {
		env = append(env, "SVC_IN="+in)
	}
	return append(env, path, "LANG=C.UTF-8", Marker+"="+j.Name)
}

// Remove kills what is left of the job and removes its folder.
func (j *Job) Remove() error {
	j.group.remove()
	return RemoveAll(j.Dir)
}

// A Command is a command to run in the sandbox.
type Command struct {
	Args        []string
	Env         []string // complete; nothing is inherited, and the last of equal names wins
	Output      io.Writer
	Unsandboxed bool // run as in kind None, whatever the job's kind; for the runner's own helpers
}

// A Result says how a command ended.
type Result struct {
	ExitCode int    // 128 plus the signal's number if a signal ended it
	Signal   string // such as SIGTERM
	Stopped  *Stop  // the stop that ended it, nil if none did
	OOM      bool   // the job exceeded its memory limit
	CPU      time.Duration
	MaxRSS   int64 // bytes, of the largest process
}

// Resources is the resource usage of a job.
type Resources struct {
	CPU time.Duration // of the running processes, and of the children that they have waited for
	RSS int64         // bytes
}

// A Stop is the cause of cancelling a step's context.
type Stop struct {
	Reason string
	Grace  time.Duration // between SIGTERM and SIGKILL
}

func (s *Stop) Error() string { return "stopped: " + s.Reason }

// Run runs a command. When graceful is done, the processes get SIGTERM, and SIGKILL after the grace
// period of the [Stop] that is its cause. When ctx is done they get SIGKILL at once. Run returns
// when no process is left and all output was passed on. An error says that the command did not run,
// that its output was lost, or that processes survived.
func (j *Job) Run(ctx, graceful context.Context, c Command) (Result, error) {
	return j.run(ctx, graceful, c)
}

// stopCause returns the Stop that cancelled a context.
func stopCause(ctx context.Context) *Stop {
	var s *Stop
	if errors.As(context.Cause(ctx), &s) {
		return s
	}
	return &Stop{Reason: "cancel"}
}
