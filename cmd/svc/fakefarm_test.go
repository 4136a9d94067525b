package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"svc/config"
	"svc/farm/gateway"
	"svc/http/serve"
)

// fakeFarm has the routes of the farm that svc calls. Any certificate authenticates the runner,
// unless the test has revoked it until it is enrolled again.
func fakeFarm(mux *http.ServeMux) {
	var minted atomic.Bool
	reply := func(w http.ResponseWriter, status int, body any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	mux.HandleFunc("POST /api/auth/sign-in/email", func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "olivia", Path: "/"})
	})
	mux.HandleFunc("POST /api/auth/sign-out", func(w http.ResponseWriter, r *http.Request) {
		if c, err := r.Cookie("session"); err != nil || c.Value != "olivia" {
			reply(w, http.StatusUnauthorized, map[string]string{"code": "unauthenticated"})
		}
	})
	mux.HandleFunc("POST /api/v1/farm/enrollments", func(w http.ResponseWriter, r *http.Request) {
		c, err := r.Cookie("session")
		if err != nil || c.Value != "olivia" || r.Header.Get("X-Svc-Tenant") != "acme" || os.Getenv("SVC_TEST_MINT") == "refused" {
			reply(w, http.StatusForbidden, map[string]string{"code": "role_required"})
			return
		}
		minted.Store(true)
		reply(w, http.StatusCreated, map[string]string{"token": "enr_of_the_test"})
	})
	mux.HandleFunc("GET /api/v1/farm/runners", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{"items": []any{
			map[string]any{"name": "other", "sandboxes": []string{"none"}},
			map[string]any{"name": "make-run", "sandboxes": []string{"none", "bubblewrap"}},
		}})
	})
	fakeRepos(mux, reply)
	mux.HandleFunc("POST /api/v1/farm/runners/{id}/revoke", func(w http.ResponseWriter, r *http.Request) {
		_ = noteFarm("revoked " + r.PathValue("id"))
		reply(w, http.StatusOK, map[string]string{})
	})
	mux.HandleFunc("GET /api/v1/farm/registrations/self", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(certificateHeader) == "" || os.Getenv("SVC_TEST_REVOKED") != "" && !minted.Load() {
			reply(w, http.StatusForbidden, map[string]string{"code": "runner_revoked"})
			return
		}
		state := "enrolled"
		if text, err := os.ReadFile(os.Getenv("SVC_TEST_CALLS") + ".farm"); err == nil && strings.HasSuffix(string(text), "run\n") {
			state = "online"
		}
		reply(w, http.StatusOK, map[string]string{"name": "make-run", "state": state})
	})
}

// fakeRepos has the routes of repositories. One is paused, and one was at another address.
func fakeRepos(mux *http.ServeMux, reply func(http.ResponseWriter, int, any)) {
	mux.HandleFunc("GET /api/v1/repos", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{"items": []any{
			map[string]any{"id": "id-1", "name": "acme/units", "status": "paused", "webUrl": os.Getenv("SVC_OAUTH_URL") + "/acme/units"},
			map[string]any{"id": "id-2", "name": "acme/hello", "status": "active", "webUrl": "http://127.0.0.1:1/acme/hello"},
			map[string]any{"id": "id-3", "name": "acme/hello", "status": "disconnected", "webUrl": "http://127.0.0.1:2/acme/hello"},
		}})
	})
	mux.HandleFunc("DELETE /api/v1/repos/{id}", func(w http.ResponseWriter, r *http.Request) {
		_ = noteTo(".repos", r.PathValue("id")+" "+r.URL.Query().Get("name"))
		reply(w, http.StatusOK, map[string]string{})
	})
	mux.HandleFunc("POST /api/v1/repos", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		_ = noteTo(".repos", string(text))
		switch {
		case os.Getenv("SVC_TEST_REPOS") == "refused":
			reply(w, http.StatusUnprocessableEntity, map[string]string{"code": "repo_check_failed"})
		case strings.Contains(string(text), "acme/hello"):
			reply(w, http.StatusConflict, map[string]string{"code": "repo_already_connected"})
		default:
			reply(w, http.StatusCreated, map[string]string{})
		}
	})
}

// noteFarm records what happens to the runner.
func noteFarm(text string) error { return noteTo(".farm", text) }

func noteTo(file, text string) error {
	f, err := os.OpenFile(os.Getenv("SVC_TEST_CALLS")+file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintln(f, text)
	return err
}

// fakeGateway is the real gateway with its own configuration.
func fakeGateway() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.DiscardHandler)
	certificates, err := gateway.OpenCertificates(os.Getenv("SVC_GATEWAY_TLS_CERT"), os.Getenv("SVC_GATEWAY_TLS_KEY"), time.Now, log)
	if err != nil {
		return err
	}
	rest, err := config.ParseURL(os.Getenv("SVC_GATEWAY_REST_URL"))
	if err != nil {
		return err
	}
	ln, err := serve.Listen(ctx, "SVC_GATEWAY_ADDR", config.Addr(os.Getenv("SVC_GATEWAY_ADDR")))
	if err != nil {
		return err
	}
	g := gateway.New(rest.URL(), config.HeaderName(os.Getenv("SVC_FARM_CLIENT_CERT_HEADER")), gateway.Rules(1), log)
	defer g.Close()
	return serve.Server{Handler: g, Log: log}.Run(ctx, tls.NewListener(ln, certificates.TLS()))
}

// fakeRunner enrols with any certificate, and runs until it is stopped.
func fakeRunner() error {
	dir := os.Getenv("SVC_RUNNER_DATA_DIR")
	if os.Args[1] == "run" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		pid := []byte(strconv.Itoa(os.Getpid())) // its output may be read after svc's message that it runs
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "pid"), pid, 0o600), noteFarm("run")); err != nil {
			return err
		}
		exitIfRequested("SVC_TEST_RUNNER_EXIT")
		<-ctx.Done()
		return nil
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ContinueOnError)
	address, authority := flags.String("url", "", ""), flags.String("server-ca", "", "")
	flags.Int("capacity", 1, "")
	if err := flags.Parse(os.Args[2:]); err != nil {
		return err
	}
	if os.Getenv("SVC_ENROLL_TOKEN") != "enr_of_the_test" {
		return fmt.Errorf("the token did not arrive")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("what was there before: %w", err)
	}
	trusted, err := os.ReadFile(*authority)
	if err != nil {
		return err
	}
	identity, err := json.Marshal(identity{URL: *address, RunnerID: "id-1", NotAfter: time.Now().Add(time.Hour)})
	if err != nil {
		return err
	}
	credentials, err := selfSignedPEM()
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"server-ca.pem": trusted, "identity.json": identity, "credentials.pem": credentials} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return noteFarm("enrolled")
}

// selfSignedPEM returns a key and a self-signed certificate in one text.
func selfSignedPEM() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...), nil
}
