// Command svc-codehost is a code host for development, with which people sign in and on which runs work
// where there is no GitHub. Its environment is described by Config.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"svc/atomicfile"
	"svc/cmd/internal/program"
	"svc/config"
	"svc/dev/codehost"
	"svc/dev/codehost/hooks"
	"svc/dev/codehost/oauth"
	"svc/http/limit"
	"svc/http/serve"
)

// requestsPerMinute limits the requests of each address. It is more than browsers and services need, and
// stops a runaway loop.
const requestsPerMinute = 6000

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
	remove, err := cfg.openFolder()
	if err != nil {
		return err
	}
	defer remove()
	sender := hooks.NewSender(log)
	handler, err := newHandler(ctx, cfg, sender, log)
	if err != nil {
		return err
	}
	ln, err := listen(ctx, cfg.Addr)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	defer group.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group.Go(func() { sender.Run(ctx) })
	return serve.Server{Handler: handler, Log: log}.Run(ctx, ln)
}

// openFolder makes a temporary folder if none is named, and returns what removes it.
func (c *Config) openFolder() (remove func(), err error) {
	if c.Dir != "" {
		if c.Dir, err = filepath.Abs(c.Dir); err == nil {
			err = atomicfile.MkdirAll(c.Dir, 0o700)
		}
	} else if c.Dir, err = os.MkdirTemp("", "svc-codehost-"); err == nil {
		return func() { _ = os.RemoveAll(c.Dir) }, nil
	}
	if err != nil {
		return nil, fmt.Errorf("SVC_CODEHOST_DIR: %w", err)
	}
	return func() {}, nil
}

// tokens returns the tokens of the configuration.
func (c *Config) tokens() (list []codehost.Token) {
	if c.Token != "" {
		list = append(list, codehost.Token{Token: c.Token, Login: "svc-bot", Push: true, NoWorkflows: !c.Workflows})
	}
	if c.ReadToken != "" {
		list = append(list, codehost.Token{Token: c.ReadToken, Login: "svc-reader"})
	}
	return list
}

func newHandler(ctx context.Context, cfg Config, sender *hooks.Sender, log *slog.Logger) (http.Handler, error) {
	list, err := readPeople(cfg.People)
	if err != nil {
		return nil, err
	}
	requests, err := limit.PerMinute(requestsPerMinute)
	if err != nil {
		return nil, err
	}
	return codehost.New(ctx, codehost.Config{
		Clients: []oauth.Client{{ID: cfg.ClientID, Secret: cfg.ClientSecret, Callback: cfg.Callback.Reveal()}},
		People:  list, Dir: cfg.Dir, Repos: repositories(), Hooks: sender, Tokens: cfg.tokens(), Faults: cfg.Faults, Limit: requests,
		Now: time.Now, Log: log,
	})
}
