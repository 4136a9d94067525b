//go:build linux

package run

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/postgres"
)

// A stage is the service as operators run it: each program by itself, and two
// of svc-rest. Svc would stop them all when one dies.
type stage struct {
	t        *testing.T
	home     string
	address  string // of PostgreSQL
	server   *postgres.Server
	database string
	environ  []string
	engine   *process
	rest     [2]*replica
	owner    caller
}

// A replica is one svc-rest, whichever process it is at the moment.
type replica struct {
	process *process
	address atomic.Value // of its current process: http://127.0.0.1:port
}

func (r *replica) url() string { return r.address.Load().(string) }

// newStage starts everything on the demonstration data. PostgreSQL is durable:
// what it has confirmed survives its death.
func newStage(t *testing.T) *stage {
	t.Helper()
	site := seededSite(t)
	s := &stage{t: t, home: filepath.Join(site.home, "postgres"), address: freeAddress(t)}
	out, err := exec.Command("cp", "-a", site.file("postgres"), s.home).CombinedOutput()
	require.NoError(t, err, string(out))
	t.Cleanup(func() {
		if s.server != nil {
			require.NoError(t, s.server.Stop())
		}
	})
	s.startPostgres()
	s.database = s.server.URL("svc")

	const engineSecret = "the-secret-that-both-services-share"
	s.engine = start(t, nil, append(inherited(), "SVC_ENGINE_ADDR=127.0.0.1:0", "SVC_ENGINE_SHARED_SECRET="+engineSecret), "svc-engine")
	s.environ = append(inherited(),
		"SVC_REST_ADDR=127.0.0.1:0", "SVC_DATABASE_URL="+s.database, "SVC_ENGINE_URL="+listening(s.engine), "SVC_ENGINE_SHARED_SECRET="+engineSecret,
		"AUTH_URL=http://127.0.0.1", "AUTH_SECRET=the-secret-that-signs-the-cookies-of-tests", "SVC_VAULT_MASTER_KEY=the-key-that-seals-what-the-vault-holds",
		"SVC_DEV_SIGN_IN=true", "SVC_RATE_LIMIT=0")
	for i := range s.rest {
		s.rest[i] = &replica{}
		s.startRest(s.rest[i])
	}
	s.owner = signIn(t, s.rest[0].url(), site.dev().owner(t))
	return s
}

// startPostgres starts PostgreSQL where it was: in the same folder and at the
// same address.
func (s *stage) startPostgres() {
	s.t.Helper()
	server, err := postgres.Start(s.t.Context(), postgres.Config{Dir: s.home, Durable: true, Addr: s.address})
	require.NoError(s.t, err)
	s.server = server
}

func (s *stage) startRest(r *replica) {
	s.t.Helper()
	r.process = start(s.t, nil, s.environ, "svc-rest")
	r.address.Store(listening(r.process))
}

var listens = regexp.MustCompile(`listening.*(127\.0\.0\.1:\d+)`)

// listening waits until a service says where it listens.
func listening(p *process) string {
	p.t.Helper()
	return "http://" + listens.FindStringSubmatch(p.until(`listening`).out.String())[1]
}

// svcDB runs svc-db on the stage's database.
func (s *stage) svcDB(args ...string) string {
	s.t.Helper()
	code, text := start(s.t, nil, inherited(), "svc-db", append(args, "-url="+s.database)...).wait()
	require.Zero(s.t, code, text)
	return text
}

// stop stops the services as an operator does.
func (s *stage) stop() {
	s.t.Helper()
	for _, p := range []*process{s.rest[0].process, s.rest[1].process, s.engine} {
		require.NoError(s.t, p.cmd.Process.Signal(syscall.SIGTERM))
		code, text := p.wait()
		require.Zero(s.t, code, text)
	}
}

// connect connects to the database for the life of the test.
func (s *stage) connect() *pgx.Conn {
	s.t.Helper()
	c, err := pgx.Connect(s.t.Context(), s.database)
	require.NoError(s.t, err)
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		c.Close(ctx)
	})
	return c
}
