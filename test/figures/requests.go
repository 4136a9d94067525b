package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/config"
	"svc/dev/pgserver"
	"svc/dev/seed"
	"svc/events"
	"svc/migrations"
	"svc/sessions"
	"svc/vault"
)

const (
	secret = "0123456789abcdef0123456789abcdef" // every secret of the services
	rounds = 8
	pause  = 300 * time.Millisecond // in which no request is made, to see what is entered without one
)

// A request is measured by the functions of the product that it enters before it is answered.
type request struct {
	name    string
	goal    string
	send    func(round int) error
	entered []string
}

// measureRequests sends requests to a svc-rest that counts what it enters. Another svc-rest runs beside it
// and leads the followers, so that what follows an event does not count.
func measureRequests(ctx context.Context) ([]request, error) {
	dir, err := os.MkdirTemp("", "figures-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "svc-rest")
	if err := build(ctx, dir, program); err != nil {
		return nil, err
	}
	server, err := pgserver.Start(ctx, pgserver.Config{Dir: filepath.Join(dir, "postgres")})
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	address := server.URL("postgres")
	demo, err := demonstration(ctx, address, filepath.Join(dir, "demo.json"))
	if err != nil {
		return nil, err
	}
	leading, err := start(ctx, program, dir, address)
	if err != nil {
		return nil, err
	}
	defer leading.stop()
	db, err := pgxpool.New(ctx, address)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if err := awaitLeader(ctx, db); err != nil {
		return nil, err
	}
	counted, err := start(ctx, program, dir, address)
	if err != nil {
		return nil, err
	}
	defer counted.stop()
	list, err := requests(ctx, db, counted, demo)
	if err != nil {
		return nil, err
	}
	idle := map[string]bool{}
	for range rounds {
		names, err := counted.entered(ctx, func() error { time.Sleep(pause); return nil })
		if err != nil {
			return nil, err
		}
		maps.Copy(idle, names)
	}
	for i := range list {
		if err := list[i].measure(ctx, counted, idle); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// build builds svc-rest with coverage of all packages but config, to which it adds counters.go.txt: cover reads
// packages from their folders.
func build(ctx context.Context, dir, program string) error {
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(here, "config/counters.go"): filepath.Join(here, "test/figures/counters.go.txt"),
	}})
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return err
	}
	packages, err := exec.CommandContext(ctx, "go", "list", "-deps", "-f",
		`{{with .Module}}{{if and .Main (ne $.ImportPath "svc/config")}}{{$.ImportPath}}{{end}}{{end}}`, "./cmd/svc-rest").Output()
	if err != nil {
		return fmt.Errorf("list packages: %w", err)
	}
	text, err := exec.CommandContext(ctx, "go", "build", "-cover", "-covermode=atomic",
		"-coverpkg="+strings.Join(strings.Fields(string(packages)), ","),
		"-overlay", file, "-o", program, "./cmd/svc-rest").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build svc-rest: %w: %s", err, text)
	}
	return nil
}

func demonstration(ctx context.Context, address, file string) (demo seed.Demo, err error) {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return demo, err
	}
	defer conn.Close(ctx)
	if err := migrations.Migrate(ctx, conn, io.Discard); err != nil {
		return demo, err
	}
	ring, err := vault.NewRing([]config.Secret{secret})
	if err != nil {
		return demo, err
	}
	if err := seed.Development(ctx, address, ring, file, time.Now()); err != nil {
		return demo, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return demo, err
	}
	return demo, json.Unmarshal(text, &demo)
}

// requests returns the requests that are measured: of a service account with a token, and of an Owner.
func requests(ctx context.Context, db *pgxpool.Pool, s *service, demo seed.Demo) ([]request, error) {
	reader := demo.ServiceAccounts[slices.IndexFunc(demo.ServiceAccounts, func(a seed.Account) bool { return a.Name == "reader" })]
	isOwner := func(p seed.Person) bool { return p.Role == events.Owner && p.WorkspaceID == reader.WorkspaceID }
	owner := demo.People[slices.IndexFunc(demo.People, isOwner)]
	var user, member events.ID
	if err := db.QueryRow(ctx, `select user_id from users where email = $1`, owner.Email).Scan(&user); err != nil {
		return nil, fmt.Errorf("find %s: %w", owner.Email, err)
	}
	err := db.QueryRow(ctx, `select member_id from members where workspace_id = $1 and role = 'Viewer' limit 1`, owner.WorkspaceID).
		Scan(&member)
	if err != nil {
		return nil, fmt.Errorf("find a viewer: %w", err)
	}
	people := &sessions.Store{DB: db, Secret: []byte(secret), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	session, err := people.Start(ctx, user, owner.WorkspaceID, "127.0.0.1", "figures")
	if err != nil {
		return nil, err
	}
	cookie := people.Cookie(session)
	roles := []events.Role{events.Maintainer, events.Viewer}
	return []request{
		{name: "a token's GET /runs", goal: "≤ 90", send: func(int) error {
			return s.send(ctx, "GET", "/api/v1/runs?status=active", "", func(r *http.Request) {
				r.Header.Set("Authorization", "Bearer "+reader.Token)
			})
		}},
		{name: "a role change", goal: "≤ 210", send: func(round int) error {
			body := fmt.Sprintf(`{"role":%q}`, roles[round%2])
			return s.send(ctx, "PATCH", "/api/v1/members/"+member.String(), body, func(r *http.Request) {
				r.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value})
				r.Header.Set("Content-Type", "application/json")
			})
		}},
	}, nil
}

// measure lists the functions that the request enters in every round, and an idle service does not.
func (r *request) measure(ctx context.Context, s *service, idle map[string]bool) error {
	if err := r.send(0); err != nil { // fills caches
		return fmt.Errorf("%s: %w", r.name, err)
	}
	times := map[string]int{}
	for round := range rounds {
		names, err := s.entered(ctx, func() error { return r.send(round + 1) })
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		for name := range names {
			times[name]++
		}
	}
	for name, n := range times {
		if n == rounds && !idle[name] {
			r.entered = append(r.entered, name)
		}
	}
	slices.Sort(r.entered)
	return nil
}

// A service is a svc-rest that counts.
type service struct {
	command  *exec.Cmd
	address  string
	counters string // address where it is asked for its counters
	dir      string
}

func start(ctx context.Context, program, dir, database string) (s *service, err error) {
	s = &service{dir: dir}
	if s.address, err = freeAddress(ctx); err != nil {
		return nil, err
	}
	if s.counters, err = freeAddress(ctx); err != nil {
		return nil, err
	}
	s.command = exec.CommandContext(ctx, program)
	s.command.Env = append(os.Environ(),
		"SVC_REST_ADDR="+s.address, "SVC_DATABASE_URL="+database, "SVC_ENGINE_URL=http://127.0.0.1:9", "SVC_ENGINE_SHARED_SECRET="+secret,
		"AUTH_URL=http://"+s.address, "AUTH_SECRET="+secret, "SVC_VAULT_MASTER_KEY="+secret,
		"SVC_LOG_LEVEL=error", "COUNTERS_ADDR="+s.counters, "GOCOVERDIR="+dir)
	var output bytes.Buffer
	s.command.Stdout, s.command.Stderr = &output, &output
	if err := s.command.Start(); err != nil {
		return nil, err
	}
	for from := time.Now(); s.send(ctx, "GET", "/health/live", "", func(*http.Request) {}) != nil; time.Sleep(50 * time.Millisecond) {
		if time.Since(from) > time.Minute {
			s.stop()
			return nil, fmt.Errorf("svc-rest is not ready: %s", &output)
		}
	}
	return s, nil
}

func (s *service) stop() {
	_ = s.command.Process.Signal(os.Interrupt)
	_ = s.command.Wait()
}

func (s *service) send(ctx context.Context, method, path, body string, with func(*http.Request)) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	with(r)
	return answer(r)
}

func answer(r *http.Request) error {
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", r.Method, r.URL.Path, res.Status, text)
	}
	return err
}

// functionPattern matches a line of go tool covdata func whose function was entered.
var functionPattern = regexp.MustCompile(`(?m)^svc/(\S+):\d+:\s+(\S+)\s+(\d+\.\d)%$`)

// entered returns the functions that the service enters while f runs.
func (s *service) entered(ctx context.Context, f func() error) (map[string]bool, error) {
	dir, err := os.MkdirTemp(s.dir, "counters-")
	if err != nil {
		return nil, err
	}
	if err := s.ask(ctx, "/clear"); err != nil {
		return nil, err
	}
	if err := f(); err != nil {
		return nil, err
	}
	if err := s.ask(ctx, "/write?dir="+url.QueryEscape(dir)); err != nil {
		return nil, err
	}
	text, err := exec.CommandContext(ctx, "go", "tool", "covdata", "func", "-i="+dir).Output()
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	names := map[string]bool{}
	for _, m := range functionPattern.FindAllStringSubmatch(string(text), -1) {
		if m[3] != "0.0" {
			names[m[1]+" "+m[2]] = true
		}
	}
	return names, nil
}

func (s *service) ask(ctx context.Context, path string) error {
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.counters+path, nil)
	if err != nil {
		return err
	}
	return answer(r)
}

// awaitLeader waits until the first service leads whatever one process does for all.
func awaitLeader(ctx context.Context, db *pgxpool.Pool) error {
	for from := time.Now(); time.Since(from) < time.Minute; time.Sleep(100 * time.Millisecond) {
		var held bool
		if err := db.QueryRow(ctx, `select count(*) > 0 and bool_and(until > now()) from leases`).Scan(&held); err != nil {
			return err
		}
		if held {
			return nil
		}
	}
	return errors.New("nobody leads the followers")
}

func freeAddress(ctx context.Context) (string, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
