// Command svc-codehost is a code host for development, with which people sign in where there is no
// GitHub. Its environment is described by Config.
package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"svc/cmd/internal/program"
	"svc/config"
	"svc/dev/codehost"
	"svc/http/limit"
	"svc/http/serve"
)

// requestsPerMinute limits the requests of each address. It is more than a browser and a service need, and
// stops a runaway loop.
const requestsPerMinute = 3000

const logFormat = program.JSON

func main() {
	program.Server{
		Name: "svc-codehost", Version: config.Version, Config: Config{}, Run: run, Log: logFormat, Actions: []program.Action{
			program.Healthcheck("SVC_CODEHOST_ADDR", "/healthz", func(e address) config.Addr { return e.Addr }),
		},
	}.Main()
}

// An address is the part of [Config] that -healthcheck needs.
type address struct {
	Addr config.Addr `env:"SVC_CODEHOST_ADDR" envDefault:"127.0.0.1:4010" doc:"As in Config."`
}

// run serves until ctx is done.
func run(ctx context.Context, environ []string, out io.Writer) error {
	cfg, err := config.Parse[Config](environ)
	if err != nil {
		return err
	}
	log := logFormat.New(out, cfg.LogLevel)
	config.Print(log, cfg)
	config.LimitMemory(ctx, log, 0)
	handler, err := newHandler(cfg, log)
	if err != nil {
		return err
	}
	ln, err := listen(ctx, cfg.Addr)
	if err != nil {
		return err
	}
	return serve.Server{Handler: handler, Log: log}.Run(ctx, ln)
}

func newHandler(cfg Config, log *slog.Logger) (http.Handler, error) {
	list, err := people(cfg.People)
	if err != nil {
		return nil, err
	}
	requests, err := limit.PerMinute(requestsPerMinute)
	if err != nil {
		return nil, err
	}
	return codehost.New(codehost.Config{
		Clients: []codehost.Client{{ID: cfg.ClientID, Secret: cfg.ClientSecret, Callback: cfg.Callback.Reveal()}},
		People:  list, Repos: repositories(), Limit: requests, Now: time.Now, Log: log,
	})
}
