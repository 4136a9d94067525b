package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"svc/config"
	"svc/dev/seed"
	"svc/engine"
	"svc/http/serve"
	"svc/projections"
	"svc/proof"
	"svc/test/pgtest"
)

// TestMain runs svc, or a fake for one of the other programs if a test starts this binary by
// that name. A fake first records its process id.
func TestMain(m *testing.M) {
	fakes := map[string]func() error{
		"svc-db": fakeDB, "svc-engine": fakeEngine, "svc-codehost": fakeCodeHost, "svc-rest": fakeRest,
		"svc-ui": fakeUI, "svc-gateway": fakeGateway, "svc-runner": fakeRunner,
	}
	name := cmp.Or(os.Getenv("SVC_TEST_PROGRAM"), filepath.Base(os.Args[0]))
	switch {
	case name == "svc":
		main()
	case fakes[name] != nil:
		fmt.Println("pid", os.Getpid())
		if err := fakes[name](); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	default:
		pgtest.Main(m)
	}
}

// exitIfRequested ends a fake with the exit code that the test requires.
func exitIfRequested(variable string) {
	if code, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		os.Exit(code)
	}
}

const demoWorkspace = "0190a0b0-0000-7000-8000-000000000001"

// fakeDB records its call and, if it is to seed, creates one workspace.
func fakeDB() error {
	address := flag.String("url", "", "")
	seeds := flag.String("seed", "", "")
	file := flag.String("seed-file", "", "")
	flag.Parse()
	ctx := context.Background()
	cfg, err := pgx.ParseConfig(*address)
	if err != nil {
		return err
	}
	if strings.Contains(*address, os.Getenv("SVC_DB_PASSWORD")) {
		return fmt.Errorf("the password shows in the list of processes")
	}
	cfg.Password = os.Getenv("SVC_DB_PASSWORD")
	if *seeds != "" && len(os.Getenv("SVC_VAULT_MASTER_KEY")) < 32 {
		return fmt.Errorf("what it would append could not be signed")
	}
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	if err := note(fmt.Sprintf("%s%s\n", *seeds, cfg.Database)); err != nil {
		return err
	}
	_, err = c.Exec(ctx, `
		create table if not exists logs (workspace_id uuid primary key, head bigint not null default 1);
		create table if not exists checkpoints (workspace_id uuid, view text, seq bigint);
		create table if not exists parked (view text);
		create table if not exists users (email text unique)`)
	if err != nil || *seeds == "" {
		return err
	}
	if _, err := c.Exec(ctx, `insert into logs values ($1) on conflict do nothing`, demoWorkspace); err != nil {
		return err
	}
	if _, err := c.Exec(ctx, `insert into users values ($1) on conflict do nothing`, seed.People()[0].Email); err != nil {
		return err
	}
	exitIfRequested("SVC_TEST_SEED_EXIT")
	return os.WriteFile(*file, []byte(`{
		"people": [{"name": "Olivia", "email": "olivia@example.com", "password": "it's a demo", "role": "Owner",
			"workspaceId": "`+demoWorkspace+`", "workspaceSlug": "acme"}],
		"serviceAccounts": [
			{"name": "builder", "token": "tok_svc_builder", "scopes": ["farm.submit"], "workspaceSlug": "acme"},
			{"name": "reader", "token": "tok_svc_reader", "scopes": ["api.read"], "workspaceSlug": "acme"}]}`), 0o600)
}

func note(call string) error {
	f, err := os.OpenFile(os.Getenv("SVC_TEST_CALLS"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(call)
	return err
}

// fakeEngine is the real engine with its own configuration.
func fakeEngine() error {
	secret := config.Secret(os.Getenv("SVC_ENGINE_SHARED_SECRET"))
	return serveFake("SVC_ENGINE_ADDR", engine.NewHandler(secret, "test", nil, slog.New(slog.DiscardHandler)))
}

// fakeCodeHost is ready at once.
func fakeCodeHost() error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	return serveFake("SVC_CODEHOST_ADDR", mux)
}

// fakeRest is ready at once, and exposes its environment. It advances the views' checkpoints
// unless the test does.
func fakeRest() error {
	exitIfRequested("SVC_TEST_REST_EXIT")
	if os.Getenv("SVC_TEST_BEHIND") == "" {
		if err := advanceCheckpoints(context.Background(), os.Getenv("SVC_DATABASE_URL"), "%"); err != nil {
			return err
		}
	}
	if os.Getenv("SVC_TEST_STUBBORN") != "" {
		signal.Ignore(syscall.SIGTERM)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health/ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /environment", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(os.Environ())
	})
	fakeFarm(mux)
	return serveFake("SVC_REST_ADDR", mux)
}

// fakeUI is ready at once.
func fakeUI() error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health/live", func(http.ResponseWriter, *http.Request) {})
	return serveFake("SVC_UI_ADDR", mux)
}

// advanceCheckpoints advances the checkpoints of the views with matching names to the heads of all logs.
func advanceCheckpoints(ctx context.Context, database, like string) error {
	c, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	views := []string{proof.FollowerName}
	for _, v := range projections.Followed() {
		views = append(views, v.Name())
	}
	_, err = c.Exec(ctx, `insert into checkpoints select workspace_id, v, head from logs cross join unnest($1::text[]) v where v like $2`,
		views, like)
	return err
}

func serveFake(variable string, h http.Handler) error {
	ctx := context.Background()
	if os.Getenv("SVC_TEST_STUBBORN") == "" {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGTERM)
		defer stop()
	}
	ln, err := serve.Listen(ctx, variable, config.Addr(os.Getenv(variable)))
	if err != nil {
		return err
	}
	return serve.Server{Handler: h, Log: slog.New(slog.DiscardHandler)}.Run(ctx, ln)
}
