// Command svc-rest is the REST service: the API, sign-in and the views behind them. Its environment
// is described by Config.
package main

import (
	"context"
	"io"

	"svc/cmd/internal/program"
	"svc/config"
	"svc/http/rest"
	"svc/http/serve"
	"svc/metrics"
)

func main() {
	program.Server{
		Name: "svc-rest", Version: rest.Version, Config: Config{}, Run: run, Actions: []program.Action{
			program.Healthcheck("SVC_REST_ADDR", "/health/live", func(e address) config.Addr { return e.Addr }),
			{Flag: "openapi", Usage: "print the description of the API that people and scripts use, as JSON", Do: describe},
		},
	}.Main()
}

// An address is the part of [Config] that -healthcheck needs.
type address struct {
	Addr config.Addr `env:"SVC_REST_ADDR" envDefault:":4000" doc:"As in Config."`
}

func describe(_ context.Context, _ []string, w io.Writer) error { return rest.Describe(w) }

// run serves until ctx is done.
func run(ctx context.Context, environ []string, out io.Writer) error {
	cfg, err := config.Parse[Config](environ)
	if err != nil {
		return err
	}
	if err := cfg.check(); err != nil {
		return err
	}
	log := program.Text.New(out, cfg.LogLevel)
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
	program.CollectLess()
	return serve.Server{Handler: service.handler, Log: log}.Run(ctx, ln)
}
