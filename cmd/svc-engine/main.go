// Command svc-engine is the engine: an internal service to which the REST service delegates work.
// Its environment is described by engine.Config.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"svc/config"
	"svc/engine"
	"svc/http/middleware"
	"svc/http/serve"
	"svc/metrics"
)

// version is set by the linker.
var version = "dev"

func main() {
	flags := flag.NewFlagSet("svc-engine", flag.ContinueOnError)
	check := flags.Bool("healthcheck", false, "ask the running engine whether it is well, and exit 0 or 1")
	show := flags.Bool("version", false, "print the version")
	if status, done := config.ParseArguments(flags, os.Args[1:], engine.Config{}, os.Stdout, os.Stderr); done {
		os.Exit(status)
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log := logger(os.Stdout, slog.LevelInfo)
	var err error
	switch {
	case *show:
		fmt.Println("svc-engine", version)
	case *check:
		err = healthcheck(ctx, os.Environ())
	default:
		err = run(ctx, os.Environ(), os.Stdout)
	}
	if err != nil {
		log.Error("svc-engine", "err", err)
		os.Exit(1)
	}
}

func logger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(middleware.Logger{Handler: slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})})
}

// run serves until ctx is done.
func run(ctx context.Context, environ []string, out io.Writer) error {
	cfg, err := config.Parse[engine.Config](environ)
	if err != nil {
		return err
	}
	log := logger(out, cfg.LogLevel)
	config.Print(log, cfg)
	config.LimitMemory(ctx, log, 0)
	ln, err := serve.Listen(ctx, "SVC_ENGINE_ADDR", cfg.Addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	m := metrics.New("svc-engine", version)
	stop, err := m.Serve(ctx, cfg.MetricsAddr, log)
	if err != nil {
		return err
	}
	defer stop()
	handler := middleware.Measured(m.Request, engine.NewHandler(cfg.SharedSecret, version, log))
	return serve.Server{Handler: handler, Log: log}.Run(ctx, ln)
}

// healthcheck needs only the address, so it works without the secret.
func healthcheck(ctx context.Context, environ []string) error {
	cfg, err := config.Parse[struct {
		Addr config.Addr `env:"SVC_ENGINE_ADDR" envDefault:":4001" doc:"As in engine.Config."`
	}](environ)
	if err != nil {
		return err
	}
	return serve.Healthcheck(ctx, "SVC_ENGINE_ADDR", cfg.Addr, "/healthz")
}
