// Command svc-ui is the web app. Its environment is described by ui.Config.
package main

import (
	"context"
	"io"
	"net/netip"
	"time"

	"svc/cmd/internal/program"
	"svc/config"
	"svc/http/middleware"
	"svc/http/serve"
	"svc/metrics"
	"svc/ui"
)

func main() {
	program.Server{
		Name: "svc-ui", Version: config.Version, Config: ui.Config{}, Run: run, Actions: []program.Action{
			program.Healthcheck("SVC_UI_ADDR", "/health/live", func(e address) config.Addr { return e.Addr }),
		},
	}.Main()
}

// An address is the part of [ui.Config] that -healthcheck needs.
type address struct {
	Addr config.Addr `env:"SVC_UI_ADDR" envDefault:":3000" doc:"As in ui.Config."`
}

// run serves until ctx is done.
func run(ctx context.Context, environ []string, out io.Writer) error {
	cfg, err := config.Parse[ui.Config](environ)
	if err != nil {
		return err
	}
	if err := cfg.Check(); err != nil {
		return err
	}
	log := program.Text.New(out, cfg.LogLevel)
	config.Print(log, cfg)
	config.LimitMemory(ctx, log, 0)
	ln, err := serve.Listen(ctx, "SVC_UI_ADDR", cfg.Addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	m := metrics.New("svc-ui", config.Version)
	stop, err := m.Serve(ctx, cfg.MetricsAddr, log)
	if err != nil {
		return err
	}
	defer stop()
	program.CollectLess()
	app := ui.New(cfg, time.Now, ctx.Done(), log)
	defer app.Close()
	handler := middleware.Measured(m.Request, middleware.Traced(log, app.Handler()))
	trusted := func(peer netip.Addr) bool { return cfg.TrustedProxies.Contains(peer) }
	return serve.Server{Handler: middleware.Forwarded(trusted, handler), Log: log}.Run(ctx, ln)
}
