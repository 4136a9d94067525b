// Svc-db migrates the database to the schema of this build, rebuilds and verifies its contents, and
// exits. Its exit status is the result.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"svc/cmd/internal/program"
	"svc/config"
)

// memoryLimit is the soft memory limit in bytes, unless the container's is lower.
const memoryLimit = 1 << 30

func main() {
	program.CollectLess() // a rebuild makes a lot of garbage and keeps little
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	config.LimitMemory(ctx, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), memoryLimit)
	status := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run returns the exit status: 0 for success, 1 for failure, 2 for a wrong command line.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args)
	if errors.Is(err, flag.ErrHelp) {
		_, _ = io.WriteString(stdout, help)
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "%v\n\n%s", err, usage)
		return 2
	}
	err = o.do(ctx, environ, stdout)
	if err == nil {
		return 0
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("interrupted: %w", err)
	}
	fmt.Fprintln(stderr, "ERROR:", err)
	return 1
}

func (o options) do(ctx context.Context, environ []string, out io.Writer) error {
	env, err := config.Parse[environment](environ)
	if err != nil {
		return err
	}
	if o.export != "" {
		return verifyExport(ctx, invocation{options: o, out: out}) // needs no database
	}
	url, err := o.address(env)
	if err != nil {
		return err
	}
	keys, err := o.keys(env)
	if err != nil {
		return err
	}
	return subcommands[o.command].run(ctx, invocation{options: o, url: url, vaultKeys: keys, out: out})
}
