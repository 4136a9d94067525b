// Command svc-codehost is a code host for development, with which people sign in where there is no
// GitHub. Its environment is described by Config.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"svc/config"
	"svc/dev/codehost"
	"svc/http/limit"
	"svc/http/middleware"
	"svc/http/serve"
)

// version is set by the linker.
var version = "dev"

// requestsPerMinute limits the requests of each address. It is more than a browser and a service need, and
// stops a runaway loop.
const requestsPerMinute = 3000

func main() {
	flags := flag.NewFlagSet("svc-codehost", flag.ContinueOnError)
	check := flags.Bool("healthcheck", false, "ask the running code host whether it is well, and exit 0 or 1")
	show := flags.Bool("version", false, "print the version")
	if status, done := config.ParseArguments(flags, os.Args[1:], Config{}, os.Stdout, os.Stderr); done {
		os.Exit(status)
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log := logger(os.Stdout, slog.LevelInfo)
	var err error
	switch {
	case *show:
		fmt.Println("svc-codehost", version)
	case *check:
		err = healthcheck(ctx, os.Environ())
	default:
		err = run(ctx, os.Environ(), os.Stdout)
	}
	if err != nil {
		log.Error("svc-codehost", "err", err)
		os.Exit(1)
	}
}

func logger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(middleware.Logger{Handler: slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})})
}

// run serves until ctx is done.
func run(ctx context.Context, environ []string, out io.Writer) error {
	cfg, err := config.Parse[Config](environ)
	if err != nil {
		return err
	}
	log := logger(out, cfg.LogLevel)
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

// healthcheck needs only the address, so it works without the secrets.
func healthcheck(ctx context.Context, environ []string) error {
	cfg, err := config.Parse[struct {
		Addr config.Addr `env:"SVC_CODEHOST_ADDR" envDefault:"127.0.0.1:4010" doc:"As in Config."`
	}](environ)
	if err != nil {
		return err
	}
	return serve.Healthcheck(ctx, "SVC_CODEHOST_ADDR", cfg.Addr, "/healthz")
}
