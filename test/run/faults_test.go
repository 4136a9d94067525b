//go:build linux

package run

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"svc/events"
)

// A fault is something that goes wrong. To strike is also to see that it has gone
// wrong; what that returns sets it right again.
type fault struct {
	of, name string
	strike   func(*chaos) (heal func())
}

var faults = []fault{
	{"connections", "connections are cut", cutConnections},
	{"connections", "connections are slow", slowConnections},
	{"connections", "connections are silent", silenceConnections},
	{"replicas", "a replica is killed", killReplica},
	{"replicas", "a replica stands still", freezeReplica},
	{"PostgreSQL", "PostgreSQL restarts", restartPostgres},
	{"PostgreSQL", "PostgreSQL stops at once", abortPostgres},
	{"PostgreSQL", "PostgreSQL is killed", killPostgres},
	{"disk", "the disk is full", fillDisk},
	{"disk", "the disk is full under the write-ahead log", fillLog},
	{"clock", "the clock jumps", stepClock},
	{"bus", "messages come again", repeatMessages},
}

// cutConnections ends somebody's connections and lets no new one through.
func cutConnections(c *chaos) func() {
	w := c.wires[c.random.IntN(len(c.wires))]
	require.Positive(c.t, c.connections(w.name))
	w.cut()
	c.until("connections that were cut are there", func() bool { return c.connections(w.name) == 0 })
	c.count("connections cut")
	return w.mend
}

// slowConnections makes a replica take half a second for what takes none.
func slowConnections(c *chaos) func() {
	i := c.random.IntN(len(c.rest))
	heal := c.wires[i].slow(150)
	began := time.Now()
	c.owner.must(c.t, http.StatusOK, "GET", c.rest[i].url()+"/api/v1/workspace", nil)
	require.Greater(c.t, time.Since(began), 150*time.Millisecond, "it is not slow")
	c.count("answers slowed")
	return heal
}

// silenceConnections leaves somebody's connections open and lets nothing through.
func silenceConnections(c *chaos) func() {
	i := c.random.IntN(len(c.rest))
	heal := c.wires[i].silence()
	c.untilReady(i, http.StatusServiceUnavailable)
	c.count("replicas that heard nothing")
	return heal
}

func killReplica(c *chaos) func() {
	r := c.rest[c.random.IntN(len(c.rest))]
	r.process.kill()
	require.Equal(c.t, syscall.SIGKILL, r.process.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	c.count("replicas killed")
	return func() { c.startRest(r) }
}

// freezeReplica stops a process until others have taken all that it led: it goes
// on believing that it leads.
func freezeReplica(c *chaos) func() {
	i := c.random.IntN(len(c.rest))
	require.NoError(c.t, syscall.Kill(c.rest[i].process.pid(), syscall.SIGSTOP))
	const lasts = 3 * time.Second // a lease
	beyond := time.Now().Add(lasts + 100*time.Millisecond)
	c.until("the other replica does not lead", func() bool {
		var others bool // those that last so long were renewed since
		err := c.direct(func(conn *pgx.Conn) error {
			return conn.QueryRow(c.t.Context(), `select coalesce(bool_and(until > $1), false) from leases`, beyond).Scan(&others)
		})
		return err == nil && others
	})
	c.count("replicas that stood still")
	return func() { require.NoError(c.t, syscall.Kill(c.rest[i].process.pid(), syscall.SIGCONT)) }
}

func restartPostgres(c *chaos) func() {
	require.NoError(c.t, c.server.Stop())
	require.Positive(c.t, c.postgresSaid("received fast shutdown request"))
	c.count("PostgreSQL restarted")
	return c.startPostgres
}

// abortPostgres has it end without a checkpoint, and tell its clients so.
func abortPostgres(c *chaos) func() {
	c.signalPostgres(syscall.SIGQUIT)
	c.until("PostgreSQL does not stop", func() bool {
		select {
		case <-c.server.Done():
			return true
		default:
			return false
		}
	})
	require.NoError(c.t, c.server.Stop())
	require.Positive(c.t, c.postgresSaid("received immediate shutdown request"))
	c.count("PostgreSQL stopped at once")
	return c.startPostgres
}

func killPostgres(c *chaos) func() {
	require.NoError(c.t, c.server.Kill())
	require.Zero(c.t, c.postgresSaid("database system is shut down"))
	c.count("PostgreSQL killed")
	return func() {
		c.startPostgres()
		require.Positive(c.t, c.postgresSaid("was not properly shut down"))
	}
}

// fillDisk leaves PostgreSQL no room: it refuses to write.
func fillDisk(c *chaos) func() {
	before := c.postgresSaid(noSpace)
	c.until("there is room still", func() bool {
		require.NoError(c.t, c.disk.fill()) // once more: something may have been removed
		return c.postgresSaid(noSpace) > before+20
	})
	return func() {
		c.counts["writes refused by a full disk"] += c.postgresSaid(noSpace) - before
		c.freeDisk()
	}
}

// fillLog has PostgreSQL find no room for its write-ahead log: it ends itself,
// and cannot come back.
func fillLog(c *chaos) func() {
	c.until("PostgreSQL goes on without a log", func() bool {
		require.NoError(c.t, c.disk.fill())
		_ = c.direct(func(conn *pgx.Conn) error { // uses up what was prepared for later
			_, err := conn.Exec(c.t.Context(), `select pg_switch_wal()`)
			return err
		})
		return c.postgresSaid("PANIC:") > 0
	})
	require.Positive(c.t, c.postgresSaid(noSpace))
	c.count("write-ahead logs without room")
	return c.freeDisk
}

const noSpace = "No space left on device"

func (c *chaos) freeDisk() {
	c.t.Helper()
	require.NoError(c.t, c.disk.free())
	c.until("PostgreSQL does not come back", func() bool {
		select {
		case <-c.server.Done():
			require.NoError(c.t, c.server.Stop())
			c.startPostgres()
			c.count("PostgreSQL ended by a full disk")
		default:
		}
		return c.direct(func(conn *pgx.Conn) error { return conn.Ping(c.t.Context()) }) == nil
	})
}

// stepClock sets the clerk's clock hours off, until something was stored by it.
func stepClock(c *chaos) func() {
	off := time.Duration(1+c.random.IntN(6)) * time.Hour
	if c.random.IntN(2) == 0 {
		off = -off
	}
	c.clerk.ahead.Store(int64(off))
	c.until("nothing is stored by the clock that was set", func() bool {
		var id events.ID // has the time in it
		err := c.direct(func(conn *pgx.Conn) error {
			return conn.QueryRow(c.t.Context(), `
				select id from events where workspace_id = $1 and meta->>'requestId' like 'deed-%' and meta->>'requestId' not like '%.%'
				order by seq desc limit 1`, c.clerk.acme.Workspace).Scan(&id)
		})
		return err == nil && ulid.Time(ulid.ULID(id).Time()).Sub(time.Now().Add(off)).Abs() < time.Minute
	})
	c.count("clocks set")
	return func() { c.clerk.ahead.Store(0) }
}

// repeatMessages loses acknowledgements and ends the clerk's work on the bus in
// the middle.
func repeatMessages(c *chaos) func() {
	before := c.clerk.again.Load()
	c.clerk.lose.Store(5)
	c.until("no message comes again", func() bool { return c.clerk.again.Load() >= before+5 })
	c.clerk.ends()
	c.counts["messages acted upon again"] += int(c.clerk.again.Load() - before)
	return c.clerk.listen
}

// count notes that something went wrong.
func (c *chaos) count(what string) { c.counts[what]++ }

// until waits until something holds.
func (c *chaos) until(otherwise string, holds func() bool) {
	c.t.Helper()
	require.Eventually(c.t, holds, patience, 5*time.Millisecond, otherwise)
}

// untilReady waits for what a replica says of its health.
func (c *chaos) untilReady(replica, status int) {
	c.t.Helper()
	c.until(fmt.Sprintf("replica %d is not %d", replica, status), func() bool {
		a, err := caller{}.send("GET", c.rest[replica].url()+"/health/ready", nil)
		return err == nil && a.status == status
	})
}

// direct asks PostgreSQL by no wire.
func (c *chaos) direct(ask func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(c.t.Context(), c.database+"&connect_timeout=20")
	if err != nil {
		return err
	}
	defer conn.Close(c.t.Context())
	return ask(conn)
}

// connections counts those that somebody has.
func (c *chaos) connections(name string) int {
	c.t.Helper()
	return c.number(`select count(*) from pg_stat_activity where application_name = $1`, name)
}

func (c *chaos) number(sql string, args ...any) (n int) {
	c.t.Helper()
	require.NoError(c.t, c.direct(func(conn *pgx.Conn) error { return conn.QueryRow(c.t.Context(), sql, args...).Scan(&n) }))
	return n
}

// postgresSaid counts a text in what PostgreSQL has said since its last start.
func (c *chaos) postgresSaid(text string) int {
	c.t.Helper()
	log, err := os.ReadFile(filepath.Join(c.home(), "postgres.log"))
	require.NoError(c.t, err)
	return strings.Count(string(log), text)
}

func (c *chaos) signalPostgres(signal syscall.Signal) {
	c.t.Helper()
	file, err := os.ReadFile(filepath.Join(c.home(), "data", "postmaster.pid"))
	require.NoError(c.t, err)
	line, _, _ := strings.Cut(string(file), "\n")
	pid, err := strconv.Atoi(line)
	require.NoError(c.t, err)
	require.NoError(c.t, syscall.Kill(pid, signal))
}
