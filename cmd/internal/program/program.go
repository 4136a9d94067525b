// Package program is what the programs of the service have in common: the command line of a server,
// the end on a signal, the log, and memory.
package program

//go:generate ../../../tools/configuration

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"svc/config"
	"svc/http/middleware"
	"svc/http/serve"
)

// A Server is a program that serves until it is told to end, and takes everything but a few flags
// from the environment.
type Server struct {
	Name, Version string
	Config        any                                                            // as read from the environment, for -help
	Run           func(ctx context.Context, environ []string, w io.Writer) error // serves until ctx is done
	Log           LogFormat
	Actions       []Action
}

// An Action is what a server does instead of serving if a flag is given.
type Action struct {
	Flag, Usage string
	Do          func(ctx context.Context, environ []string, w io.Writer) error
}

// Main runs the server with the arguments and the environment of the process, and exits with 0, with
// 1 after an error, or with 2 for a wrong command line. It ends on SIGINT and SIGTERM.
func (s Server) Main() {
	os.Exit(s.main(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

func (s Server) main(args, environ []string, stdout, stderr io.Writer) (status int) {
	flags := flag.NewFlagSet(s.Name, flag.ContinueOnError)
	do := s.Run
	for _, a := range append(s.Actions, s.version()) {
		flags.BoolFunc(a.Flag, a.Usage, func(text string) error {
			if text != "true" {
				return fmt.Errorf("-%s takes no value", a.Flag)
			}
			do = a.Do
			return nil
		})
	}
	if status, done := config.ParseArguments(flags, args, s.Config, stdout, stderr); done {
		return status
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := do(ctx, environ, stdout); err != nil {
		s.Log.New(stdout, slog.LevelInfo).Error("ended by an error", "program", s.Name, "err", err)
		return 1
	}
	return 0
}

func (s Server) version() Action {
	return Action{"version", "print the version", func(_ context.Context, _ []string, w io.Writer) error {
		_, err := fmt.Fprintln(w, s.Name, s.Version)
		return err
	}}
}

// Healthcheck returns the action -healthcheck, which asks path at the address that the running server
// listens on. E has only that variable, so that the action needs no secret.
func Healthcheck[E any](variable, path string, address func(E) config.Addr) Action {
	return Action{"healthcheck", "ask the running service whether it is alive, and exit 0 or 1",
		func(ctx context.Context, environ []string, _ io.Writer) error {
			env, err := config.Parse[E](environ)
			if err != nil {
				return err
			}
			return serve.Healthcheck(ctx, variable, address(env), path)
		},
	}
}

// A LogFormat is the form of the lines of a log.
type LogFormat int

// The formats.
const (
	Text LogFormat = iota
	JSON
)

// New returns a logger that writes lines of at least a level. They have the id of the request that a
// context belongs to.
func (f LogFormat) New(w io.Writer, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if f == JSON {
		return slog.New(middleware.Logger{Handler: slog.NewJSONHandler(w, options)})
	}
	return slog.New(middleware.Logger{Handler: slog.NewTextHandler(w, options)})
}

// gcPercent is the GC percentage of programs whose heap is small and whose work leaves much
// short-lived garbage: with Go's default of 100, an eighth of the time under load goes into collection.
const gcPercent = 400

// CollectLess lets the garbage collector run less often, unless GOGC says how often.
func CollectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
