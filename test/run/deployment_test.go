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

// A deployment is the service as operators run it: each program by itself, with two replicas
// of svc-rest. The program svc would stop all of them when one dies.
type deployment struct {
	t            *testing.T
	installation *installation
	address      string // of PostgreSQL
	server       *pgserver.Server
	postgresVia  [2]string // address at which each replica reaches PostgreSQL, if not address
	database     string
	environ      []string
	engineAddr   string
	engine       *process
	rest         [2]*replica
	owner        caller
}

// A replica is one of the svc-rest, across restarts.
type replica struct {
	process  *process
	database string
	address  atomic.Value // of its current process: http://127.0.0.1:port
}

func (r *replica) url() string { return r.address.Load().(string) }

// newDeployment starts all programs on the demonstration data. PostgreSQL is durable: what it
// has confirmed survives its death.
func newDeployment(t *testing.T) *deployment {
	t.Helper()
	s := unstartedDeployment(t)
	s.start()
	return s
}

// unstartedDeployment returns a deployment that start has yet to start.
func unstartedDeployment(t *testing.T) *deployment {
	t.Helper()
	return &deployment{t: t, installation: newSeededInstallation(t), address: address.Free(t), engineAddr: address.Free(t)}
}

// postgresDir is the folder of the deployment's PostgreSQL.
func (s *deployment) postgresDir() string { return filepath.Join(s.installation.home, "postgres") }

// engineDir is the folder of the engine's copies of repositories.
func (s *deployment) engineDir() string { return filepath.Join(s.installation.home, "engine") }

// start copies the demonstration data and starts PostgreSQL, the engine and both replicas.
func (s *deployment) start(environ ...string) {
	s.t.Helper()
	require.NoError(s.t, os.MkdirAll(s.postgresDir(), 0o700))
	out, err := exec.Command("cp", "-a", s.installation.file("postgres")+"/.", s.postgresDir()).CombinedOutput()
	require.NoError(s.t, err, string(out))
	s.t.Cleanup(func() {
		if s.server != nil {
			require.NoError(s.t, s.server.Stop())
		}
	})
	s.startPostgres()
	s.database = s.server.URL("svc")

	s.startEngine()
	s.environ = append(cleanEnviron(),
		"SVC_REST_ADDR=127.0.0.1:0", "SVC_ENGINE_URL="+listenURL(s.engine), "SVC_ENGINE_SHARED_SECRET="+engineSecret,
		"AUTH_URL=http://127.0.0.1", "AUTH_SECRET=the-secret-that-signs-the-cookies-of-tests",
		"SVC_VAULT_MASTER_KEY="+s.installation.secrets()["vaultMasterKey"], // decrypts the key that signs checkpoints
		"SVC_DEV_SIGN_IN=true", "SVC_RATE_LIMIT=0")
	s.environ = append(s.environ, environ...)
	for i := range s.rest {
		s.rest[i] = &replica{database: databaseURL(s.database, cmp.Or(s.postgresVia[i], s.address), fmt.Sprintf("rest-%d", i))}
		s.startRest(s.rest[i])
	}
	s.owner = signIn(s.t, s.rest[0].url(), s.installation.dev().owner(s.t))
}

// databaseURL returns the URL of a database with another address, such as that of a proxy,
// and with an application name by which pg_stat_activity tells connections apart.
func databaseURL(database, address, name string) string {
	u, err := url.Parse(database)
	if err != nil {
		panic(err) // the URL is valid
	}
	u.Host = address
	q := u.Query()
	q.Set("application_name", name)
	u.RawQuery = q.Encode()
	return u.String()
}

// startPostgres starts PostgreSQL, in the same folder and at the same address each time.
func (s *deployment) startPostgres() {
	s.t.Helper()
	server, err := pgserver.Start(s.t.Context(), pgserver.Config{Dir: s.postgresDir(), Durable: true, Addr: s.address})
	require.NoError(s.t, err)
	s.server = server
}

const engineSecret = "the-secret-that-both-services-share"

// startEngine starts the engine, in the same folder and at the same address each time.
func (s *deployment) startEngine(environ ...string) {
	s.t.Helper()
	s.engine = start(s.t, nil, append(append(cleanEnviron(), "SVC_ENGINE_ADDR="+s.engineAddr, "SVC_ENGINE_ALLOW_LOCAL=true",
		"SVC_ENGINE_DIR="+s.engineDir(), "SVC_ENGINE_SHARED_SECRET="+engineSecret), environ...), "svc-engine")
	s.engine.waitForOutput("listening")
}

func (s *deployment) startRest(r *replica) {
	s.t.Helper()
	r.process = start(s.t, nil, append(s.environ[:len(s.environ):len(s.environ)], "SVC_DATABASE_URL="+r.database), "svc-rest")
	r.address.Store(listenURL(r.process))
}

var listenLine = regexp.MustCompile(`listening.*(127\.0\.0\.1:\d+)`)

// listenURL waits until a service logs its address, and returns its URL.
func listenURL(p *process) string {
	p.t.Helper()
	return "http://" + listenLine.FindStringSubmatch(p.waitForOutput(`listening`).out.String())[1]
}

// svcDB runs svc-db on the deployment's database and returns its output.
func (s *deployment) svcDB(args ...string) string {
	s.t.Helper()
	code, text := start(s.t, nil, cleanEnviron(), "svc-db", append(args, "-url="+s.database)...).wait()
	require.Zero(s.t, code, text)
	return text
}

// stop stops the services by SIGTERM.
func (s *deployment) stop() {
	s.t.Helper()
	for _, p := range []*process{s.rest[0].process, s.rest[1].process, s.engine} {
		require.NoError(s.t, p.cmd.Process.Signal(syscall.SIGTERM))
		code, text := p.wait()
		require.Zero(s.t, code, text)
	}
}

// connect connects to the database until the test ends.
func (s *deployment) connect() *pgx.Conn {
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
