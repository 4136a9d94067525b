// Command svc runs the whole service on one machine, for development. It is what make run starts.
//
// It starts the programs beside its own file, each as a process, in the order of their
// dependencies: PostgreSQL (unless SVC_DATABASE_URL names a database), svc-db, svc-engine,
// svc-codehost, svc-rest, svc-ui, svc-gateway, svc-runner. It stops them in reverse order on Ctrl-C
// and when one of them ends by itself, and at once on a second Ctrl-C. If svc is killed, they end
// as well.
//
// It keeps everything in the data folder, see [folder]. Its environment is described by [settings];
// the programs inherit what svc does not set for them.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"svc/config"
)

// settings is the environment of svc.
type settings struct {
	// The folder is only accessible to its user; see folder.
	DataDir string `env:"SVC_DATA_DIR" envDefault:".svc" doc:"Folder for the database, secrets and addresses of a local service."`

	// The log has it in any case.
	Verbose bool `env:"SVC_VERBOSE" envDefault:"false" doc:"Whether to show everything that the programs log, instead of warnings and errors."`

	// Without it, a private PostgreSQL runs in the data folder.
	DatabaseURL config.URL `env:"SVC_DATABASE_URL" schemes:"postgres,postgresql" doc:"An existing PostgreSQL database to use instead of a private one."`

	// Unlike in a deployment, other machines cannot reach the services.
	EngineAddr config.Addr `env:"SVC_ENGINE_ADDR" envDefault:"127.0.0.1:4001" doc:"Address of the engine."`
	RestAddr   config.Addr `env:"SVC_REST_ADDR" envDefault:"127.0.0.1:4000" doc:"Address of the REST service."`

	// People open it in a browser.
	UIAddr config.Addr `env:"SVC_UI_ADDR" envDefault:"127.0.0.1:3000" doc:"Address of the web app."`

	// Only the REST service has metrics here.
	MetricsAddr config.Addr `env:"SVC_METRICS_ADDR" envDefault:"127.0.0.1:4009" doc:"Address of the Prometheus metrics, at /metrics."`

	// The gateway's certificate comes from a private authority.
	GatewayAddr config.Addr `env:"SVC_GATEWAY_ADDR" envDefault:"127.0.0.1:4443" doc:"Address of the farm gateway."`

	// People sign in with it as they would with GitHub, and runs work on its repositories.
	CodeHostAddr config.Addr `env:"SVC_CODEHOST_ADDR" envDefault:"127.0.0.1:4010" doc:"Address of the development code host."`
}

func main() { os.Exit(run()) }

// run returns the exit status: 0 also if svc was stopped by a signal.
func run() int {
	flags := flag.NewFlagSet("svc", flag.ContinueOnError)
	if status, done := config.ParseArguments(flags, os.Args[1:], settings{}, os.Stdout, os.Stderr); done {
		return status
	}
	out := newOutput(os.Stdout)
	ctx, force, release := stopSignals()
	defer release()
	err := start(ctx, force, out)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(out.named("svc"), "stopped")
	case err != nil:
		fmt.Fprintln(out.named("svc"), err)
		return 1
	}
	return 0
}

func start(ctx context.Context, force <-chan struct{}, out *output) error {
	cfg, err := config.Parse[settings](os.Environ())
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	out.quiet = !cfg.Verbose
	s := stack{settings: cfg, programs: filepath.Dir(self), force: force, out: out, log: out.logger("svc")}
	config.LimitMemory(ctx, s.log, 0)
	return s.run(ctx)
}

// stopSignals returns a context that the first Ctrl-C cancels, and a channel that the second one
// closes. release restores the default behaviour of signals.
func stopSignals() (_ context.Context, _ <-chan struct{}, release func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(context.Background())
	force, released := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for _, do := range []func(){cancel, func() { close(force) }} {
			select {
			case <-signals:
				do()
			case <-released:
				return
			}
		}
	})
	return ctx, force, func() {
		signal.Stop(signals)
		close(released)
		group.Wait()
		cancel()
	}
}
