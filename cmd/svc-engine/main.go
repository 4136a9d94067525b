// Command svc-engine is the engine: an internal service to which the REST service delegates work.
// Its environment is described by engine.Config.
package main

import (
	"context"
	"io"
	"sync"

	"svc/cmd/internal/program"
	"svc/config"
	"svc/engine"
	"svc/http/middleware"
	"svc/http/serve"
	"svc/metrics"
)

// logFormat is what the specification asks for: a JSON object per line.
const logFormat = program.JSON

func main() {
	program.Server{
		Name: "svc-engine", Version: config.Version, Config: engine.Config{}, Run: run, Log: logFormat, Actions: []program.Action{
			program.Healthcheck("SVC_ENGINE_ADDR", "/healthz", func(e address) config.Addr { return e.Addr }),
		},
	}.Main()
}

// An address is the part of [engine.Config] that -healthcheck needs.
type address struct {
	Addr config.Addr `env:"SVC_ENGINE_ADDR" envDefault:":4001" doc:"As in engine.Config."`
}

// run serves until ctx is done.
func run(ctx context.Context, environ []string, out io.Writer) error {
	cfg, err := config.Parse[engine.Config](environ)
	if err != nil {
		return err
	}
	log := logFormat.New(out, cfg.LogLevel)
	config.Print(log, cfg)
	config.LimitMemory(ctx, log, 0)
	steps, err := engine.OpenSteps(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer steps.Close()
	running, end := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { steps.Run(running) })
	defer func() { end(); background.Wait() }()
	ln, err := serve.Listen(ctx, "SVC_ENGINE_ADDR", cfg.Addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	m := metrics.New("svc-engine", config.Version)
	stop, err := m.Serve(ctx, cfg.MetricsAddr, log)
	if err != nil {
		return err
	}
	defer stop()
	handler := middleware.Measured(m.Request, engine.NewHandler(cfg.SharedSecret, config.Version, steps, log))
	return serve.Server{Handler: handler, Log: log}.Run(ctx, ln)
}
