// Command svc-runner is the agent on a build machine. It enrolls as a runner of a farm with a token,
// connects to it, and runs its jobs. See its help.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"svc/config"
	"svc/farm/runner"
	"svc/farm/runner/executor"
	"svc/farm/runner/sandbox"
)

// environment has the variables; flags override them.
type environment struct {
	DataDir  string        `env:"SVC_RUNNER_DATA_DIR" envDefault:"/var/lib/svc-runner" doc:"Folder of the runner."`
	Token    config.Secret `env:"SVC_ENROLL_TOKEN" doc:"Token to enroll with, instead of -token."`
	LogLevel slog.Level    `env:"SVC_LOG_LEVEL" envDefault:"info" doc:"Least level that is logged."`
}

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] { // processes that a supervisor starts
		case sandbox.InitCommand:
			os.Exit(sandbox.Init(os.Args[2:]))
		case runner.ExecCommand:
			os.Exit(execute())
		}
	}
	keepOpenFiles()
	ctx := context.Background()
	p := program{in: os.Stdin, out: os.Stdout, environ: os.Environ()}
	if len(os.Args) > 1 && os.Args[1] == "run" { // it handles signals itself
		p.signals = make(chan os.Signal, 2)
		signal.Notify(p.signals, syscall.SIGINT, syscall.SIGTERM)
	} else {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
		defer stop()
	}
	os.Exit(p.main(ctx, os.Args[1:], os.Stderr))
}

// keepOpenFiles keeps the files that whoever started this program had open, such as keys, from the processes of jobs.
func keepOpenFiles() {
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		return // this system does not list them
	}
	for _, f := range open {
		if n, err := strconv.Atoi(f.Name()); err == nil && n > 2 {
			syscall.CloseOnExec(n)
		}
	}
}

// execute is the main function of a job's process. It ignores signals, which the supervisor
// handles.
func execute() int {
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM)
	if err := executor.Execute(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "svc-runner:", err)
		return 1
	}
	return 0
}

// A program is svc-runner with its inputs and outputs.
type program struct {
	in      io.Reader
	out     io.Writer
	environ []string
	signals chan os.Signal
	env     environment
}

// errUnwell is a failure that was already printed.
var errUnwell = errors.New("not well")

// main returns the exit status: 0 for success, also of a runner that has done its jobs, 1 for failure, 2 for a wrong
// command line, 78 if the farm refused the runner.
func (p program) main(ctx context.Context, args []string, stderr io.Writer) int {
	var err error
	if p.env, err = config.Parse[environment](p.environ); err == nil {
		err = p.do(ctx, args)
	}
	var wrong usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "svc-runner: %v\nTry svc-runner help%s.\n", err, topicOf(args))
		return 2
	case errors.Is(err, errUnwell):
		return 1
	case errors.Is(err, runner.ErrRetired):
		fmt.Fprintln(stderr, "svc-runner:", err)
		return 0
	case errors.Is(err, runner.ErrRefused):
		fmt.Fprintln(stderr, "svc-runner:", err)
		return runner.ExitRefused
	}
	fmt.Fprintln(stderr, "svc-runner:", err)
	return 1
}

// A usageError describes a wrong command line. It quotes no value.
type usageError string

func (u usageError) Error() string { return string(u) }
