//go:build linux

package run

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/dev/pgserver"
	"svc/test/address"
)

// A stage is the service as operators run it: each program by itself, and two
// of svc-rest. Svc would stop them all when one dies.
type stage struct {
	t        *testing.T
	site     *site
	address  string // of PostgreSQL
	server   *pgserver.Server
	via      [2]string // where each replica finds PostgreSQL, if not at address
	database string
	environ  []string
	engine   *process
	rest     [2]*replica
	owner    caller
}

// A replica is one svc-rest, whichever process it is at the moment.
type replica struct {
	process  *process
	database string
	address  atomic.Value // of its current process: http://127.0.0.1:port
}

func (r *replica) url() string { return r.address.Load().(string) }

// newStage starts everything on the demonstration data. PostgreSQL is durable:
// what it has confirmed survives its death.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := emptyStage(t)
	s.open()
	return s
}

// emptyStage is a stage on which nothing is yet.
func emptyStage(t *testing.T) *stage {
	t.Helper()
	return &stage{t: t, site: seededSite(t), address: address.Free(t)}
}

// home is the folder of its PostgreSQL.
func (s *stage) home() string { return filepath.Join(s.site.home, "postgres") }

func (s *stage) open(environ ...string) {
	s.t.Helper()
	require.NoError(s.t, os.MkdirAll(s.home(), 0o700))
	out, err := exec.Command("cp", "-a", s.site.file("postgres")+"/.", s.home()).CombinedOutput()
	require.NoError(s.t, err, string(out))
	s.t.Cleanup(func() {
		if s.server != nil {
			require.NoError(s.t, s.server.Stop())
		}
	})
	s.startPostgres()
	s.database = s.server.URL("svc")

	const engineSecret = "the-secret-that-both-services-share"
	s.engine = start(s.t, nil, append(inherited(), "SVC_ENGINE_ADDR=127.0.0.1:0", "SVC_ENGINE_SHARED_SECRET="+engineSecret), "svc-engine")
	s.environ = append(inherited(),
		"SVC_REST_ADDR=127.0.0.1:0", "SVC_ENGINE_URL="+listening(s.engine), "SVC_ENGINE_SHARED_SECRET="+engineSecret,
		"AUTH_URL=http://127.0.0.1", "AUTH_SECRET=the-secret-that-signs-the-cookies-of-tests",
		"SVC_VAULT_MASTER_KEY="+s.site.secrets()["vaultMasterKey"], // which sealed the key of the checkpoints
		"SVC_DEV_SIGN_IN=true", "SVC_RATE_LIMIT=0")
	s.environ = append(s.environ, environ...)
	for i := range s.rest {
		s.rest[i] = &replica{database: at(s.database, cmp.Or(s.via[i], s.address), fmt.Sprintf("rest-%d", i))}
		s.startRest(s.rest[i])
	}
	s.owner = signIn(s.t, s.rest[0].url(), s.site.dev().owner(s.t))
}

// at is the address of a database by another way, under a name by which
// PostgreSQL knows who came.
func at(database, address, name string) string {
	u, err := url.Parse(database)
	if err != nil {
		panic(err) // it is ours
	}
	u.Host = address
	q := u.Query()
	q.Set("application_name", name)
	u.RawQuery = q.Encode()
	return u.String()
}

// startPostgres starts PostgreSQL where it was: in the same folder and at the
// same address.
func (s *stage) startPostgres() {
	s.t.Helper()
	server, err := pgserver.Start(s.t.Context(), pgserver.Config{Dir: s.home(), Durable: true, Addr: s.address})
	require.NoError(s.t, err)
	s.server = server
}

func (s *stage) startRest(r *replica) {
	s.t.Helper()
	r.process = start(s.t, nil, append(s.environ[:len(s.environ):len(s.environ)], "SVC_DATABASE_URL="+r.database), "svc-rest")
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
