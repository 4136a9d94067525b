package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// An initSpec tells a step's first process what to do. It is passed in a memory file: an argument
// is limited to 128 KiB, and a script takes up to six times its size in JSON.
type initSpec struct {
	Args   []string `json:"args"`
	Env    []string `json:"env"`              // of Args; its own has nothing of the step
	Groups []string `json:"groups,omitempty"` // cgroup.procs files of the control groups to enter
	Data   uint64   `json:"data,omitempty"`   // RLIMIT_DATA in bytes
	Procs  uint64   `json:"procs,omitempty"`  // RLIMIT_NPROC
	Reap   bool     `json:"reap,omitempty"`   // start Args and reap orphans, instead of exec
	Mount  bool     `json:"mount,omitempty"`  // mount /proc for a new PID namespace
}

const (
	niceness = 5        // keeps the runner's heartbeats on time
	specFD   = 3        // file descriptor of the spec in the new process
	maxSpec  = 64 << 20 // bytes, many times the size of the largest job
)

// file returns a memory file with the spec, to be passed as descriptor specFD.
func (spec initSpec) file() (*os.File, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode spec of step: %w", err)
	}
	return memoryFile("spec", text)
}

// memoryFile returns a file with text that is nowhere on disk, to be read from its beginning.
func memoryFile(name string, text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(text)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", name, err), f.Close())
	}
	return f, nil
}

// readSpec reads the spec and closes its file, so that the step does not inherit it.
func readSpec() (spec initSpec, err error) {
	f := os.NewFile(specFD, "spec")
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, 0, maxSpec)) // the file offset is shared with the writer
	if err != nil {
		return spec, fmt.Errorf("read spec of step: %w", err)
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		return spec, fmt.Errorf("read spec of step: %w", err)
	}
	return spec, nil
}

// Init is the main function of a step's first process. It returns the exit status.
func Init(args []string) int {
	spec, err := readSpec()
	if err != nil || len(args) != 0 || len(spec.Args) == 0 {
		fmt.Fprintln(os.Stderr, "step-init is a part of svc-runner and not for people")
		return 2
	}
	err = spec.enter()
	if err == nil && spec.Reap {
		var status int
		if status, err = spec.reap(); err == nil {
			return status
		}
	} else if err == nil {
		err = spec.execArgs()
	}
	fmt.Fprintln(os.Stderr, "svc-runner:", err)
	return 127
}

func (spec initSpec) enter() error {
	for _, file := range spec.Groups {
		if err := os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
			return fmt.Errorf("enter control group: %w", err)
		}
	}
	if !spec.Mount {
		return nil
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// execArgs replaces this process by Args.
func (spec initSpec) execArgs() error {
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, niceness) // fails if its niceness is higher already
	limits := map[int]uint64{unix.RLIMIT_CORE: 0}
	if spec.Data > 0 {
		limits[unix.RLIMIT_DATA] = spec.Data
	}
	if spec.Procs > 0 {
		limits[unix.RLIMIT_NPROC] = spec.Procs
	}
	path, err := spec.lookPath()
	if err != nil {
		return fmt.Errorf("run %s: %w", spec.Args[0], err)
	}
	for what, most := range limits {
		var now unix.Rlimit
		if unix.Getrlimit(what, &now) == nil {
			most = min(most, now.Max) // only root may raise it
		}
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("set limit %d: %w", what, err)
		}
	}
	return fmt.Errorf("run %s: %w", path, syscall.Exec(path, spec.Args, spec.Env))
}

// lookPath finds the program of Args on the PATH of Env.
func (spec initSpec) lookPath() (string, error) {
	for _, v := range spec.Env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			if err := os.Setenv("PATH", path); err != nil {
				return "", fmt.Errorf("set PATH: %w", err)
			}
		}
	}
	return exec.LookPath(spec.Args[0])
}

// reap runs Args and adopts orphans. When Args have ended, or SIGTERM says that the runner has
// died, it kills what is left.
func (spec initSpec) reap() (int, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("adopt orphans: %w", err)
	}
	over := make(chan os.Signal, 1)
	signal.Notify(over, syscall.SIGTERM)
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP)
	spec.Reap, spec.Mount, spec.Groups = false, false, nil // done, or inherited from this process
	file, err := spec.file()
	if err != nil {
		return 0, err
	}
	main, err := syscall.ForkExec("/proc/self/exe", []string{os.Args[0], InitCommand}, //nolint:gosec // this program, as its parent says
		&syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2, file.Fd()}})
	_ = file.Close() // the step has its own
	if err != nil {
		return 0, fmt.Errorf("start step: %w", err)
	}
	go func() {
		<-over
		killDescendants(os.Getpid())
		os.Exit(128 + int(syscall.SIGKILL))
	}()
	status := waitFor(main)
	killDescendants(os.Getpid())
	return status, nil
}

// waitFor reaps children until main has ended, and returns its exit status.
func waitFor(main int) int {
	for {
		var s syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &s, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 127
		case pid == main && s.Signaled():
			return 128 + int(s.Signal())
		case pid == main && s.Exited():
			return s.ExitStatus()
		}
	}
}
