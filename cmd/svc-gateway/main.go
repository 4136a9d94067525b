// Command svc-gateway is the reference gateway of the build farm, which terminates TLS between
// runners and the REST service. Its environment is described by gateway.Config.
package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"svc/cmd/internal/program"
	"svc/config"
	"svc/farm/gateway"
	"svc/http/middleware"
	"svc/http/serve"
	"svc/metrics"
)

func main() {
	program.Server{Name: "svc-gateway", Version: config.Version, Config: gateway.Config{}, Run: run}.Main()
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
	log := program.Text.New(out, cfg.LogLevel)
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
	m := metrics.New("svc-gateway", config.Version)
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
