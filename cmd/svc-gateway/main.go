// Command svc-gateway is the reference gateway of the build farm, which terminates TLS between
// runners and the REST service. Its environment is described by gateway.Config.
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
	"time"

	"svc/config"
	"svc/farm/gateway"
	"svc/http/middleware"
	"svc/http/serve"
	"svc/metrics"
)

// version is set by the linker.
var version = "dev"

func main() {
	flags := flag.NewFlagSet("svc-gateway", flag.ContinueOnError)
	show := flags.Bool("version", false, "print the version")
	if status, done := config.ParseArguments(flags, os.Args[1:], gateway.Config{}, os.Stdout, os.Stderr); done {
		os.Exit(status)
	}
	if *show {
		fmt.Println("svc-gateway", version)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Environ(), os.Stdout); err != nil {
		logger(os.Stdout, slog.LevelInfo).Error("svc-gateway", "err", err)
		os.Exit(1)
	}
}

func logger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(middleware.Logger{Handler: slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})})
}

// run serves until ctx is done.
func run(ctx context.Context, environ []string, out io.Writer) error {
	cfg, err := config.Parse[gateway.Config](environ)
	if err != nil {
		return err
	}
	if err := cfg.Check(); err != nil {
		return err
	}
	log := logger(out, cfg.LogLevel)
	config.Print(log, cfg)
	config.LimitMemory(ctx, log, 0)
	certificates, err := gateway.OpenCertificates(cfg.CertFile, cfg.KeyFile.Reveal(), time.Now, log)
	if err != nil {
		return fmt.Errorf("SVC_GATEWAY_TLS_CERT, SVC_GATEWAY_TLS_KEY: %w", err)
	}
	ln, err := serve.Listen(ctx, "SVC_GATEWAY_ADDR", cfg.Addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	m := metrics.New("svc-gateway", version)
	stop, err := m.Serve(ctx, cfg.MetricsAddr, log)
	if err != nil {
		return err
	}
	defer stop()
	g := gateway.New(cfg.RestURL.URL(), cfg.ClientCertHeader, gateway.Rules(cfg.ArtifactMaxJobBytes), log)
	defer g.Close()
	handler := middleware.Measured(m.Request, middleware.Traced(log, g))
	bounded := gateway.NewListener(ln, certificates.TLS(), cfg.Bounds(), log)
	defer bounded.Close()
	m.Connections(func() metrics.ConnectionUsage { return metrics.ConnectionUsage(bounded.Usage()) })
	return serve.Server{Handler: handler, Log: log, StopLimit: uploadTimeout, HTTP2: gateway.HTTP2()}.Run(ctx, bounded)
}

// uploadTimeout is how long running uploads may take when the gateway stops. Runners resume the others.
const uploadTimeout = 20 * time.Second
