package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/commands"
	"svc/dev/codehost"
	"svc/events"
	"svc/farm/release"
	"svc/farm/wire"
	"svc/sessions"
)

// A loopStack is every program that moves runs, each a process of its own, with an Owner who is signed in.
type loopStack struct {
	dir      string
	db       *pgxpool.Pool
	team     *workspace
	cookie   *http.Cookie
	rest     *serviceProcess
	engine   *serviceProcess
	codeHost string      // address
	gateway  string      // address
	answered []events.ID // decisions
	stops    []func()
}

// Tokens of the code host: one that may push and merge, and one that may only read.
const (
	pushToken = "push-" + secret
	readToken = "read-" + secret
)

// newLoopStack starts a code host with repositories, the engine and the service, and signs an Owner in.
func (s *suite) newLoopStack(ctx context.Context, repos []codehost.Repository) (l *loopStack, err error) {
	l = &loopStack{answered: []events.ID{}}
	defer func() {
		if err != nil {
			l.stop()
		}
	}()
	if l.dir, err = os.MkdirTemp("", "loop-"); err != nil {
		return l, err
	}
	l.onStop(func() { _ = os.RemoveAll(l.dir) })
	if err := l.startCodeHost(ctx, repos); err != nil {
		return l, err
	}
	if l.engine, err = l.start(ctx, "svc-engine", "SVC_ENGINE_ADDR",
		"SVC_ENGINE_DIR="+l.file("engine"), "SVC_ENGINE_ALLOW_LOCAL=true", "SVC_ENGINE_SHARED_SECRET="+secret); err != nil {
		return l, err
	}
	if l.db, err = s.database(ctx); err != nil {
		return l, err
	}
	l.onStop(l.db.Close)
	if err := l.signIn(ctx); err != nil {
		return l, err
	}
	return l, l.startRest(ctx, s)
}

func (l *loopStack) onStop(stop func()) { l.stops = append(l.stops, stop) }

func (l *loopStack) stop() {
	for _, stop := range slices.Backward(l.stops) {
		stop()
	}
}

func (l *loopStack) file(name string) string { return filepath.Join(l.dir, name) }

// start starts a program on a free address, which a variable names.
func (l *loopStack) start(ctx context.Context, name, variable string, env ...string) (*serviceProcess, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	command := exec.Command(filepath.Join("bin", name))
	command.Env = append(append(os.Environ(), variable+"="+addr, "SVC_LOG_LEVEL=error"), env...)
	p, err := startProcess(ctx, command, addr)
	if err == nil {
		l.onStop(p.stop)
	}
	return p, err
}

// startCodeHost imports repositories, which svc-codehost finds in its folder.
func (l *loopStack) startCodeHost(ctx context.Context, repos []codehost.Repository) error {
	dir := l.file("codehost")
	_, err := codehost.New(ctx, codehost.Config{Dir: dir, Repos: repos, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	p, err := l.start(ctx, "svc-codehost", "SVC_CODEHOST_ADDR", "SVC_CODEHOST_DIR="+dir, "SVC_CODEHOST_TOKEN="+pushToken,
		"SVC_CODEHOST_READ_TOKEN="+readToken, "SVC_CODEHOST_CLIENT_ID=bench", "SVC_CODEHOST_CLIENT_SECRET="+secret,
		"SVC_CODEHOST_CALLBACK=http://127.0.0.1/api/auth/callback/github")
	if err == nil {
		l.codeHost = p.addr
	}
	return err
}

// signIn makes a workspace, and signs its Owner in.
func (l *loopStack) signIn(ctx context.Context) (err error) {
	log := newLog(l.db, notifyNobody)
	defer log.Close()
	if l.team, err = newWorkspace(ctx, commands.New(log, time.Now)); err != nil {
		return err
	}
	people := &sessions.Store{DB: l.db, Secret: []byte(secret), Now: time.Now, Log: slog.Default()}
	session, err := people.Start(ctx, l.team.owner.ID, l.team.id, "203.0.113.7", "bench")
	if err == nil {
		l.cookie = people.Cookie(session)
	}
	return err
}

// startRest starts the service, with the farm.
func (l *loopStack) startRest(ctx context.Context, s *suite) error {
	gateway, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	if err := l.packRelease(); err != nil {
		return err
	}
	l.rest, err = s.startRest(ctx, l.db.Config().ConnString(), "SVC_ENGINE_URL=http://"+l.engine.addr, "SVC_LOG_LEVEL=error",
		"SVC_ALLOW_LOCAL_CODE_HOSTS=true", "SVC_MAX_ACTIVE_RUNS=2000", "SVC_FARM_PUBLIC_URL=https://"+gateway,
		"SVC_FARM_RELEASES_DIR="+l.file("releases"), "SVC_FARM_CLIENT_CERT_HEADER="+certificateHeader,
		"SVC_FARM_TRUSTED_PROXIES=127.0.0.1/32", "SVC_OAUTH_URL=http://"+l.codeHost, "SVC_OAUTH_CLIENT_ID=bench",
		"SVC_OAUTH_CLIENT_SECRET="+secret)
	if err != nil {
		return err
	}
	l.onStop(l.rest.stop)
	return l.startGateway(ctx, gateway)
}

// packRelease packs svc-runner, without which no machine can be enrolled.
func (l *loopStack) packRelease() error {
	key, err := release.OpenKey(l.file("release.key"))
	if err != nil {
		return err
	}
	latest := release.Latest{Version: release.Version, MinProtocol: wire.Version, NotBefore: time.Now()}
	return release.Repack(l.file("releases"), latest,
		[]release.Build{{OS: runtime.GOOS, Arch: runtime.GOARCH, Path: filepath.Join("bin", "svc-runner")}}, key)
}

// startGateway starts the farm's gateway, with a certificate of its own.
func (l *loopStack) startGateway(ctx context.Context, addr string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	self := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, self, self, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	err = errors.Join(
		os.WriteFile(l.file("gateway.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(l.file("gateway.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	if err != nil {
		return err
	}
	command := exec.Command(filepath.Join("bin", "svc-gateway"))
	command.Env = append(os.Environ(), "SVC_GATEWAY_ADDR="+addr, "SVC_LOG_LEVEL=error", "SVC_GATEWAY_TLS_CERT="+l.file("gateway.pem"),
		"SVC_GATEWAY_TLS_KEY="+l.file("gateway.key"), "SVC_GATEWAY_REST_URL=http://"+l.rest.addr,
		"SVC_FARM_CLIENT_CERT_HEADER="+certificateHeader)
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		return err
	}
	l.gateway = addr
	l.onStop((&serviceProcess{command: command}).stop)
	return awaitListener(ctx, addr)
}

// awaitListener waits until somebody listens at an address.
func awaitListener(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		if ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// startRunner enrolls and starts svc-runner with a number of slots.
func (l *loopStack) startRunner(ctx context.Context, slots int) error {
	var minted struct{ Token string }
	if err := l.call(ctx, "POST", "/api/v1/farm/enrollments", map[string]any{"name": "bench", "ttlSeconds": 300}, &minted); err != nil {
		return err
	}
	runner := func(args ...string) *exec.Cmd {
		c := exec.Command(filepath.Join("bin", "svc-runner"), args...)
		c.Env = append(os.Environ(), "SVC_RUNNER_DATA_DIR="+l.file("runner"), "SVC_ENROLL_TOKEN="+minted.Token, "SVC_LOG_LEVEL=error")
		c.Stderr = os.Stderr
		return c
	}
	err := runner("enroll", "-url=https://"+l.gateway, "-server-ca="+l.file("gateway.pem"), fmt.Sprintf("-capacity=%d", slots)).Run()
	if err != nil {
		return fmt.Errorf("svc-runner enroll: %w", err)
	}
	p := &serviceProcess{command: runner("run", "-git-protocols=http,https", "-min-disk-mib=64")}
	if err := p.command.Start(); err != nil {
		return err
	}
	l.onStop(p.stop)
	return nil
}

// call calls the service as the Owner.
func (l *loopStack) call(ctx context.Context, method, path string, in, out any) error {
	return callJSON(ctx, method, "http://"+l.rest.addr+path, http.Header{"Cookie": {l.cookie.Name + "=" + l.cookie.Value}}, in, out)
}

// callJSON sends in, unless it is nil, and decodes the answer into out, unless that is nil.
func callJSON(ctx context.Context, method, address string, header http.Header, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return err
	}
	r.Header = header.Clone()
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return err
	case res.StatusCode >= 300:
		return fmt.Errorf("%s %s: %d %s", method, address, res.StatusCode, text)
	case out == nil:
		return nil
	}
	return json.Unmarshal(text, out)
}

// connect connects a repository whose runs need one job, and returns its id.
func (l *loopStack) connect(ctx context.Context, name string, active int, job string) (string, error) {
	var repo struct{ ID string }
	err := l.call(ctx, "POST", "/api/v1/repos", map[string]any{
		"url": "http://" + l.codeHost + "/" + name, "credential": pushToken, "readCredential": readToken,
		"settings": map[string]any{
			"maxActive": active, "maxFiles": 1000, "maxLines": 10000,
			"requiredJobs": []any{map[string]any{"name": "test", "steps": []any{map[string]any{"name": "test", "run": job}}}},
		},
	}, &repo)
	return repo.ID, err
}

// queue queues an issue and returns its run.
func (l *loopStack) queue(ctx context.Context, repo string, issue int) (string, error) {
	var run struct{ ID string }
	err := l.call(ctx, "POST", "/api/v1/backlog/queue", map[string]any{"repoId": repo, "issueNumber": issue}, &run)
	return run.ID, err
}

// finish approves merges as soon as the inbox has them, until n runs of the workspace are tidied up. It reads the views, so
// that waiting costs little.
func (l *loopStack) finish(ctx context.Context, n int) error {
	for {
		at, err := l.progress(ctx)
		switch {
		case err != nil:
			return err
		case at.Other > 0:
			return fmt.Errorf("%d runs were not merged", at.Other)
		case at.Tidied >= n:
			return nil
		}
		for i, id := range at.Decisions {
			err := l.call(ctx, "POST", "/api/v1/inbox/"+id.String()+"/answer",
				map[string]any{"action": "approve_and_merge", "expectedHead": at.Heads[i]}, nil)
			if err != nil {
				return err
			}
			l.answered = append(l.answered, id)
		}
		if err := wait(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// A progress is how the runs of the workspace stand, with the merges that wait for approval.
type progress struct {
	Tidied, Other int // Other were not merged
	Decisions     []events.ID
	Heads         []string
}

func (l *loopStack) progress(ctx context.Context) (progress, error) {
	rows, _ := l.db.Query(ctx, `
		select (select count(*) from runs where workspace_id = $1 and tidied),
			(select count(*) from runs where workspace_id = $1 and not active and status <> 'merged'),
			coalesce(array_agg(decision_id), '{}'), coalesce(array_agg(head), '{}')
		from decisions where workspace_id = $1 and status = 'open' and decision_id <> all($2)`, l.team.id, l.answered)
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[progress])
}

// patched returns an issue whose patch adds a file.
func patched(number int) codehost.Issue {
	return codehost.Issue{
		Number: number, Title: fmt.Sprintf("Add page %d", number), Author: "svc-bot", At: time.Now(),
		Body: fmt.Sprintf("It is missing.\n\n```diff\ndiff --git a/pages/p%[1]d.txt b/pages/p%[1]d.txt\nnew file mode 100644\n"+
			"--- /dev/null\n+++ b/pages/p%[1]d.txt\n@@ -0,0 +1,2 @@\n+page %[1]d\n+end\n```\n", number),
	}
}

// newRepository returns a repository with a few files and issues from 1 to n.
func newRepository(name string, n int) codehost.Repository {
	r := codehost.Repository{
		Name: name, Author: "Bench <bench@example.org>", At: time.Now(), Message: "Begin", Writers: []string{"svc-bot"},
		Files: map[string][]byte{},
	}
	for i := range 20 {
		r.Files[fmt.Sprintf("src/f%d.txt", i)] = bytes.Repeat([]byte("line\n"), 50)
	}
	for i := range n {
		r.Issues = append(r.Issues, patched(i+1))
	}
	return r
}
