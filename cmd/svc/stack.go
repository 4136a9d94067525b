package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"svc/config"
	"svc/dev/pgserver"
	"svc/engine/client"
	"svc/fault"
	"svc/http/serve"
)

const (
	startTimeout = time.Minute      // for a service to become ready
	stopTimeout  = 15 * time.Second // for a program to end before it is killed
)

// A stack is the whole service on this machine.
type stack struct {
	settings
	programs string          // folder of the programs
	force    <-chan struct{} // closed to kill programs instead of waiting for them
	out      *output
	log      *slog.Logger

	folder  *folder
	secrets secrets
	sockets sockets
	runner  registeredRunner // set once it is connected
	server  *pgserver.Server // nil if SVC_DATABASE_URL is set
	ended   func(error)      // stops the stack; the first reason counts
	stops   []func()
}

// run starts everything, and stops it when ctx is done or a program ends by itself. It returns the
// reason, and leaves no process behind.
func (s *stack) run(ctx context.Context) error {
	ctx, s.ended = context.WithCancelCause(ctx)
	s.ended(s.startAll(ctx))
	for _, stop := range slices.Backward(s.stops) {
		stop()
	}
	return context.Cause(ctx)
}

func (s *stack) onStop(stop func()) { s.stops = append(s.stops, stop) }

// startAll starts everything in order, and waits until ctx is done.
func (s *stack) startAll(ctx context.Context) (err error) {
	if err := s.checkPrograms(); err != nil {
		return err
	}
	if s.folder, err = openFolder(s.DataDir); err != nil {
		return err
	}
	s.onStop(s.folder.close)
	log, err := s.folder.openLog()
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	s.out.logTo(log)
	s.onStop(func() {
		s.out.logTo(nil)
		_ = log.Close()
	})
	if s.secrets, err = s.folder.secrets(); err != nil {
		return err
	}
	s.sockets, err = claim(ctx, listenAddr{"SVC_ENGINE_ADDR", &s.EngineAddr}, listenAddr{"SVC_REST_ADDR", &s.RestAddr},
		listenAddr{"SVC_UI_ADDR", &s.UIAddr}, listenAddr{"SVC_CODEHOST_ADDR", &s.CodeHostAddr}, listenAddr{"SVC_METRICS_ADDR", &s.MetricsAddr},
		listenAddr{"SVC_GATEWAY_ADDR", &s.GatewayAddr})
	if err != nil {
		return err
	}
	s.onStop(func() { s.sockets.close() })
	if err := s.startPostgres(ctx); err != nil {
		return err
	}
	db, err := s.database(ctx)
	if err != nil {
		return err
	}
	if err := s.startEngine(ctx); err != nil {
		return err
	}
	if err := s.startCodeHost(ctx); err != nil {
		return err
	}
	if err := s.packRelease(time.Now()); err != nil {
		return err
	}
	if err := s.makeCertificate(); err != nil {
		return err
	}
	if err := s.startRest(ctx, db); err != nil {
		return err
	}
	if err := s.startUI(ctx); err != nil {
		return err
	}
	if err := s.startGateway(ctx); err != nil {
		return err
	}
	d, err := s.demoOf(ctx, db)
	if err != nil {
		return err
	}
	if err := s.startRunner(ctx, d); err != nil {
		return err
	}
	s.joinDemo(ctx, d)
	if err := s.announce(ctx, db, d); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// withLog adds to an error where the log is.
func (s *stack) withLog(err error) error {
	return fmt.Errorf("%w (%s has all that was logged)", err, s.folder.file(logName))
}

// say prints what svc does.
func (s *stack) say(text string) { fmt.Fprintln(s.out.named("svc"), text) }

// programs are the programs that svc starts.
var programs = []string{"svc-db", "svc-engine", "svc-codehost", "svc-rest", "svc-ui", "svc-gateway", "svc-runner"}

// checkPrograms returns an error if a program is missing.
func (s *stack) checkPrograms() error {
	for _, name := range programs {
		_, err := os.Stat(filepath.Join(s.programs, name))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is not in %s beside svc: build it first", name, s.programs)
		}
	}
	return nil
}

func (s *stack) startEngine(ctx context.Context) error {
	u, err := config.ParseURL(s.engineURL())
	if err != nil {
		return err
	}
	return s.start(ctx, "svc-engine", client.Client{URL: u}.Health, []string{"SVC_ENGINE_ADDR"},
		"SVC_METRICS_ADDR=", // one address cannot be both services'
		"SVC_ENGINE_DIR="+s.folder.file(engineFolder),
		"SVC_ENGINE_ALLOW_LOCAL=true",
		"SVC_ENGINE_SHARED_SECRET="+s.secrets.EngineSharedSecret)
}

func (s *stack) startRest(ctx context.Context, db string) error {
	if err := os.MkdirAll(s.folder.file(artifactsFolder), 0o700); err != nil {
		return err
	}
	ready := func(ctx context.Context) error { return serve.Check(ctx, s.restURL()+"/health/ready") }
	return s.start(ctx, "svc-rest", ready, []string{"SVC_REST_ADDR", "SVC_METRICS_ADDR"},
		"SVC_DATABASE_URL="+db,
		"SVC_ENGINE_URL="+s.engineURL(),
		"SVC_ALLOW_LOCAL_CODE_HOSTS=true",
		"SVC_ENGINE_SHARED_SECRET="+s.secrets.EngineSharedSecret,
		"AUTH_URL="+s.appURL(),
		"SVC_TRUSTED_PROXIES=127.0.0.1/32,::1/128", // the web app
		"AUTH_SECRET="+s.secrets.AuthSecret,
		"SVC_VAULT_MASTER_KEY="+s.secrets.VaultMasterKey,
		"SVC_OAUTH_URL="+s.codeHostURL(),
		"SVC_OAUTH_CLIENT_ID="+clientID,
		"SVC_OAUTH_CLIENT_SECRET="+s.secrets.OAuthClientSecret,
		"SVC_DEV_SIGN_IN=true", "SVC_ALLOW_LOCAL_CODE_HOSTS=true",
		"SVC_FARM_PUBLIC_URL="+s.farmURL(),
		"SVC_FARM_CA_FILE="+s.folder.file(authorityFile),
		"SVC_FARM_RELEASES_DIR="+s.folder.file(releasesFolder),
		"SVC_FARM_RELEASE_KEYS=", // those in the folder
		"SVC_FARM_CLIENT_CERT_HEADER="+certificateHeader,
		"SVC_FARM_TRUSTED_PROXIES=127.0.0.1/32,::1/128",
		"SVC_ARTIFACT_STORE="+s.folder.file(artifactsFolder))
}

func (s *stack) startUI(ctx context.Context) error {
	ready := func(ctx context.Context) error { return serve.Check(ctx, s.appURL()+"/health/live") }
	return s.start(ctx, "svc-ui", ready, []string{"SVC_UI_ADDR"},
		"SVC_METRICS_ADDR=",    // one address cannot be both services'
		"SVC_TRUSTED_PROXIES=", // browsers connect by themselves
		"SVC_DEV_KIT=true",
		"SVC_REST_URL="+s.restURL(),
		"SVC_API_URL="+s.restURL(),
		"AUTH_URL="+s.appURL())
}

// certificateHeader is the header in which the gateway forwards runners' certificates.
const certificateHeader = "X-Svc-Client-Cert"

// makeCertificate makes the certificate of the gateway, and its authority.
func (s *stack) makeCertificate() error {
	host, _, err := net.SplitHostPort(strings.TrimPrefix(s.farmURL(), "https://"))
	if err != nil {
		return fmt.Errorf("SVC_GATEWAY_ADDR: %w", err)
	}
	return fault.Wrap(s.folder.gatewayCertificate(host, time.Now()), "make certificate of the gateway")
}

func (s *stack) startGateway(ctx context.Context) error {
	return s.start(ctx, "svc-gateway", s.checkGateway, []string{"SVC_GATEWAY_ADDR"},
		"SVC_METRICS_ADDR=", // one address cannot be both services'
		"SVC_GATEWAY_TLS_CERT="+s.folder.file(gatewayFile),
		"SVC_GATEWAY_TLS_KEY="+s.folder.file(gatewayKey),
		"SVC_GATEWAY_REST_URL="+s.restURL(),
		"SVC_FARM_CLIENT_CERT_HEADER="+certificateHeader)
}

// clientID is the OAuth client id of the REST service at the code host.
const clientID = "workspace-service"

func (s *stack) startCodeHost(ctx context.Context) error {
	ready := func(ctx context.Context) error { return serve.Check(ctx, s.codeHostURL()+"/healthz") }
	return s.start(ctx, "svc-codehost", ready, []string{"SVC_CODEHOST_ADDR"},
		"SVC_CODEHOST_CLIENT_ID="+clientID,
		"SVC_CODEHOST_CLIENT_SECRET="+s.secrets.OAuthClientSecret,
		"SVC_CODEHOST_CALLBACK="+s.appURL()+"/api/auth/callback/github",
		"SVC_CODEHOST_DIR="+s.folder.file(codeHostFolder),
		"SVC_CODEHOST_TOKEN="+s.secrets.CodeHostToken,
		"SVC_CODEHOST_READ_TOKEN="+s.secrets.CodeHostReadToken)
}

func (s *stack) codeHostURL() string { return serve.URL(s.CodeHostAddr) }
func (s *stack) farmURL() string {
	return "https" + strings.TrimPrefix(serve.URL(s.GatewayAddr), "http")
}
func (s *stack) engineURL() string  { return serve.URL(s.EngineAddr) }
func (s *stack) metricsURL() string { return serve.URL(s.MetricsAddr) + "/metrics" }
func (s *stack) restURL() string    { return serve.URL(s.RestAddr) }
func (s *stack) appURL() string     { return serve.URL(s.UIAddr) }

// start starts a program that listens at the addresses of the variables in listens, and returns
// once it is ready. The program is stopped with the stack.
func (s *stack) start(ctx context.Context, name string, ready func(context.Context) error, listens []string, environ ...string) error {
	s.say("starting " + name)
	cmd := s.command(name, nil, environ)
	s.sockets.inherit(cmd, listens...)
	c, err := launch(cmd, name, s.out.named(name), func(why error) { s.ended(s.withLog(why)) })
	s.sockets.close(listens...)
	if err != nil {
		return err
	}
	s.onStop(func() {
		s.say("stopping " + name)
		c.stop(stopTimeout, s.force)
	})
	return c.awaitReady(ctx, startTimeout, ready)
}

// command returns a command with svc's environment plus environ.
func (s *stack) command(name string, args, environ []string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), filepath.Join(s.programs, name), args...) // stop ends it, not a context
	cmd.Env = append(os.Environ(), environ...)
	return cmd
}
