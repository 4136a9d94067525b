// Command svc-ui is the web app. Its environment is described by ui.Config.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"svc/config"
	"svc/http/middleware"
	"svc/http/serve"
	"svc/metrics"
	"svc/ui"
)

// version is set by the linker.
var version = "dev"

func main() {
	flags := flag.NewFlagSet("svc-ui", flag.ContinueOnError)
	check := flags.Bool("healthcheck", false, "ask the running app whether it is alive, and exit 0 or 1")
	show := flags.Bool("version", false, "print the version")
	if status, done := config.ParseArguments(flags, os.Args[1:], ui.Config{}, os.Stdout, os.Stderr); done {
		os.Exit(status)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case *show:
		fmt.Println("svc-ui", version)
	case *check:
		err = healthcheck(ctx, os.Environ())
	default:
		err = run(ctx, os.Environ(), os.Stdout)
	}
	if err != nil {
		logger(os.Stdout, slog.LevelInfo).Error("svc-ui", "err", err)
		os.Exit(1)
	}
}

func logger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(middleware.Logger{Handler: slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})})
}

// gcPercent is the GC percentage: as in svc-rest the heap is small, and each page leaves some
// garbage.
const gcPercent = 400

// run serves until ctx is done.
func run(ctx context.Context, environ []string, out io.Writer) error {
	cfg, err := config.Parse[ui.Config](environ)
	if err != nil {
		return err
	}
	if err := cfg.Check(); err != nil {
		return err
	}
	log := logger(out, cfg.LogLevel)
	config.Print(log, cfg)
	config.LimitMemory(ctx, log, 0)
	ln, err := serve.Listen(ctx, "SVC_UI_ADDR", cfg.Addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	m := metrics.New("svc-ui", version)
	stop, err := m.Serve(ctx, cfg.MetricsAddr, log)
	if err != nil {
		return err
	}
	defer stop()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	app := ui.New(cfg, time.Now, ctx.Done(), log)
	defer app.Close()
	handler := middleware.Measured(m.Request, middleware.Traced(log, app.Handler()))
	trusted := func(peer netip.Addr) bool { return cfg.TrustedProxies.Contains(peer) }
	return serve.Server{Handler: middleware.Forwarded(trusted, handler), Log: log}.Run(ctx, ln)
}

// healthcheck needs only the address, so it works without the other variables.
func healthcheck(ctx context.Context, environ []string) error {
	cfg, err := config.Parse[struct {
		Addr config.Addr `env:"SVC_UI_ADDR" envDefault:":3000" doc:"As in ui.Config."`
	}](environ)
	if err != nil {
		return err
	}
	return serve.Healthcheck(ctx, "SVC_UI_ADDR", cfg.Addr, "/health/live")
}
