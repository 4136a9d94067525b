package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"time"

	"svc/filelock"
)

// runnerName is the name of this machine's runner.
const runnerName = "make-run"

// drainTimeout is how long the runner may continue its jobs after Ctrl-C before it cancels them.
const drainTimeout = 2 * time.Second

// An identity is what svc-runner stores about its identity.
type identity struct {
	URL      string    `json:"url"`
	RunnerID string    `json:"runnerId"`
	NotAfter time.Time `json:"notAfter"`
}

// A registeredRunner is the runner as the farm sees it.
type registeredRunner struct {
	Name  string `json:"name"`
	State string `json:"state"`

	Sandboxes []string `json:"sandboxes"` // as people see them
}

// startRunner enrolls this machine if necessary and starts its runner. If that fails, the service
// runs without a runner.
func (s *stack) startRunner(ctx context.Context, d demo) error {
	if len(d.People) == 0 {
		return nil // nobody can enroll it
	}
	if _, err := exec.LookPath("git"); err != nil {
		s.say("git is not on the PATH: the farm runs jobs, but none that names a repository")
	}
	err := s.enrollOnce(ctx, d)
	if err == nil {
		err = s.runRunner(ctx)
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("there is no runner", "why", err)
		return nil
	}
	return err
}

// enrollOnce keeps a valid enrollment. It makes a new one if the runner was revoked, its certificate
// has expired, or the gateway's address or authority has changed.
func (s *stack) enrollOnce(ctx context.Context, d demo) error {
	var old identity
	found, err := s.folder.read("runner/identity.json", &old)
	if err != nil {
		return err
	}
	if found && old.URL == s.farmURL() && old.NotAfter.After(time.Now()) && s.sameAuthority() {
		err := s.getRunner(ctx, &registeredRunner{})
		refused, ok := errors.AsType[*apiError](err)
		if !ok || refused.Status != http.StatusUnauthorized && refused.Status != http.StatusForbidden {
			return err
		}
	}
	s.say("enrolling this machine as the runner " + runnerName)
	o, err := signInAs(ctx, s.restURL(), d.People[0])
	if err != nil {
		return err
	}
	if found {
		err := o.post(ctx, "/api/v1/farm/runners/"+old.RunnerID+"/revoke", map[string]string{}, nil)
		if refused, ok := errors.AsType[*apiError](err); err != nil && !ok {
			return err
		} else if ok {
			s.log.Info("the old runner stays as it is", "why", refused)
		}
	}
	var minted struct {
		Token string `json:"token"`
	}
	if err := o.post(ctx, "/api/v1/farm/enrollments", map[string]any{"name": runnerName, "ttlSeconds": 300}, &minted); err != nil {
		return err
	}
	if err := o.post(ctx, "/api/auth/sign-out", map[string]string{}, nil); err != nil { // leaves no session behind
		return err
	}
	if err := os.RemoveAll(s.folder.file("runner")); err != nil {
		return err
	}
	return s.svcRunner(ctx, []string{"SVC_ENROLL_TOKEN=" + minted.Token},
		"enroll", "-url="+s.farmURL(), "-server-ca="+s.folder.file(authorityFile), "-capacity=2")
}

// sameAuthority reports whether the runner trusts the authority of the gateway's certificate.
func (s *stack) sameAuthority() bool {
	ours, err := os.ReadFile(s.folder.file(authorityFile))
	trusted, err2 := os.ReadFile(s.folder.file("runner/server-ca.pem"))
	return err == nil && err2 == nil && string(ours) == string(trusted)
}

// svcRunner runs svc-runner until it exits, and returns an error unless it exits with 0.
func (s *stack) svcRunner(ctx context.Context, environ []string, args ...string) error {
	c, err := launch(s.runnerCommand(environ, args...), "svc-runner", s.out.named("svc-runner"), func(error) {})
	if err != nil {
		return err
	}
	defer c.stop(stopTimeout, s.force)
	return c.wait(ctx)
}

func (s *stack) runnerCommand(environ []string, args ...string) *exec.Cmd {
	return s.command("svc-runner", args, append(environ, "SVC_RUNNER_DATA_DIR="+s.folder.file("runner")))
}

// runRunner starts the runner with a restarter, and returns once the farm reports it as connected.
func (s *stack) runRunner(ctx context.Context) error {
	s.say("starting svc-runner")
	// The code host of the demonstration speaks http.
	k, c, err := s.startRestarting(ctx, "svc-runner", func() *exec.Cmd {
		return s.runnerCommand(nil, "run", "-git-protocols=http,https", "-min-disk-mib=512")
	})
	if err != nil {
		return err
	}
	s.onStop(func() {
		s.say("stopping svc-runner")
		k.stop()
	})
	return c.awaitReady(ctx, startTimeout, func(ctx context.Context) error {
		if err := s.getRunner(ctx, &s.runner); err != nil {
			return err
		}
		if s.runner.State != "online" && s.runner.State != "draining" {
			return fmt.Errorf("it is %s", s.runner.State)
		}
		return nil
	})
}

// getRunner asks the farm about the runner, through the gateway and with the runner's certificate.
func (s *stack) getRunner(ctx context.Context, who *registeredRunner) error {
	lock, err := filelock.Share(s.folder.file("runner")) // svc-runner does not replace the certificate meanwhile
	if err != nil {
		return fmt.Errorf("keep the runner's certificate: %w", err)
	}
	defer lock.Unlock()
	credentials := s.folder.file("runner/credentials.pem")
	pair, err := tls.LoadX509KeyPair(credentials, credentials)
	if err != nil {
		return fmt.Errorf("read %s: %w", credentials, err)
	}
	return s.getFarm(ctx, "/api/v1/farm/registrations/self", &pair, who)
}

// getFarm calls the gateway.
func (s *stack) getFarm(ctx context.Context, path string, by *tls.Certificate, out any) error {
	text, err := os.ReadFile(s.folder.file(authorityFile))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s holds no certificate", s.folder.file(authorityFile))
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	if by != nil {
		trust.Certificates = []tls.Certificate{*by}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.farmURL()+path, nil)
	if err != nil {
		return err
	}
	return call(&http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: trust}, Timeout: callTimeout}, req, out)
}

// checkGateway returns nil once the gateway answers, which it does with 404 to this path.
func (s *stack) checkGateway(ctx context.Context) error {
	err := s.getFarm(ctx, "/", nil, nil)
	if refused, ok := errors.AsType[*apiError](err); ok && refused.Status == http.StatusNotFound {
		return nil
	}
	return fmt.Errorf("the gateway: %w", err)
}
