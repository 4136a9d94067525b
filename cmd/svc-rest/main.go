// Command svc-rest is the REST service: the API, sign-in and the views behind them. Its environment
// is described by Config.
package main

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
	"svc/http/rest"
	"svc/http/serve"
	"svc/metrics"
)

func main() {
	flags := flag.NewFlagSet("svc-rest", flag.ContinueOnError)
	check := flags.Bool("healthcheck", false, "ask the running service whether it is alive, and exit 0 or 1")
	show := flags.Bool("version", false, "print the version")
	describe := flags.Bool("openapi", false, "print the description of the API that people and scripts use, as JSON")
	if status, done := config.ParseArguments(flags, os.Args[1:], Config{}, os.Stdout, os.Stderr); done {
		os.Exit(status)
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log := logger(os.Stdout, slog.LevelInfo)
	var err error
	switch {
	case *show:
		fmt.Println("svc-rest", rest.Version)
	case *describe:
		err = rest.Describe(os.Stdout)
	case *check:
		err = healthcheck(ctx, os.Environ())
	default:
		err = run(ctx, os.Environ(), os.Stdout)
	}
	if err != nil {
		log.Error("svc-rest", "err", err)
		os.Exit(1)
	}
}

func logger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(middleware.Logger{Handler: slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})})
}

// gcPercent is the GC percentage. The heap is small and requests leave much short-lived garbage: with
// Go's default of 100, an eighth of the time under load goes into collection.
const gcPercent = 400

// run serves until ctx is done.
func run(ctx context.Context, environ []string, out io.Writer) error {
	cfg, err := config.Parse[Config](environ)
	if err != nil {
		return err
	}
	if err := cfg.check(); err != nil {
		return err
	}
	log := logger(out, cfg.LogLevel)
	config.Print(log, cfg)
	cfg.Farm.warn(log)
	config.LimitMemory(ctx, log, 0)
	ln, err := serve.Listen(ctx, "SVC_REST_ADDR", cfg.Addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	m := metrics.New("svc-rest", rest.Version)
	service, err := newService(ctx, cfg, m, log)
	if err != nil {
		return err
	}
	defer service.close()
	stop, err := m.Serve(ctx, cfg.MetricsAddr, log)
	if err != nil {
		return err
	}
	defer stop()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	return serve.Server{Handler: service.handler, Log: log}.Run(ctx, ln)
}

// healthcheck needs only the address, so it works without the secrets.
func healthcheck(ctx context.Context, environ []string) error {
	cfg, err := config.Parse[struct {
		Addr config.Addr `env:"SVC_REST_ADDR" envDefault:":4000" doc:"As in Config."`
	}](environ)
	if err != nil {
		return err
	}
	return serve.Healthcheck(ctx, "SVC_REST_ADDR", cfg.Addr, "/health/live")
}
