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
	"svc/test/proxy"
)

// A fault is one kind of failure. strike injects it, waits until it has taken effect, and returns
// a function that heals it.
type fault struct {
	target, name string
	strike       func(*chaosTest) (heal func())
}

var faults = []fault{
	{"connections", "connections are cut", cutConnections},
	{"connections", "connections are slow", slowConnections},
	{"connections", "connections are stalled", stallConnections},
	{"replicas", "a replica is killed", killReplica},
	{"replicas", "a replica is paused", freezeReplica},
	{"PostgreSQL", "PostgreSQL restarts", restartPostgres},
	{"PostgreSQL", "PostgreSQL is aborted", abortPostgres},
	{"PostgreSQL", "PostgreSQL is killed", killPostgres},
	{"disk", "the disk is full", fillDisk},
	{"disk", "the disk is full under the write-ahead log", fillWAL},
	{"clock", "the clock jumps", stepClock},
	{"bus", "messages are redelivered", repeatMessages},
}

// cutConnections closes the connections of a replica or of the worker and accepts no new ones.
func cutConnections(c *chaosTest) func() {
	p := c.proxies[c.random.IntN(len(c.proxies))]
	require.Positive(c.t, c.countConnections(p.name))
	p.Set(proxy.Cut)
	c.eventually("connections are still open", func() bool { return c.countConnections(p.name) == 0 })
	c.countFault("connections cut")
	return func() { p.Set(proxy.Up) }
}

// slowConnections delays the connections of a replica by [proxy.Delay] in both directions.
func slowConnections(c *chaosTest) func() {
	i := c.random.IntN(len(c.rest))
	c.proxies[i].Set(proxy.Slow)
	began := time.Now()
	c.owner.expect(c.t, http.StatusOK, "GET", c.rest[i].url()+"/api/v1/workspace", nil)
	require.Greater(c.t, time.Since(began), proxy.Delay, "it is not slow")
	c.countFault("answers slowed")
	return func() { c.proxies[i].Set(proxy.Up) }
}

// stallConnections keeps the connections of a replica open and lets no byte through.
func stallConnections(c *chaosTest) func() {
	i := c.random.IntN(len(c.rest))
	c.proxies[i].Set(proxy.Stalled)
	c.awaitReadiness(i, http.StatusServiceUnavailable)
	c.countFault("replicas stalled")
	return func() {
		c.proxies[i].Set(proxy.Cut)
		c.proxies[i].Set(proxy.Up)
	}
}

func killReplica(c *chaosTest) func() {
	r := c.rest[c.random.IntN(len(c.rest))]
	r.process.kill()
	require.Equal(c.t, syscall.SIGKILL, r.process.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	c.countFault("replicas killed")
	return func() { c.startRest(r) }
}

// freezeReplica stops a process until the other replica leads everywhere. When it continues, it
// still believes that it leads.
func freezeReplica(c *chaosTest) func() {
	i := c.random.IntN(len(c.rest))
	require.NoError(c.t, syscall.Kill(c.rest[i].process.pid(), syscall.SIGSTOP))
	const leaderLease = 3 * time.Second
	beyond := time.Now().Add(leaderLease + 100*time.Millisecond)
	c.eventually("the other replica does not lead", func() bool {
		var others bool // leases that end after beyond were renewed after the stop
		err := c.withPostgres(func(conn *pgx.Conn) error {
			return conn.QueryRow(c.t.Context(), `select coalesce(bool_and(until > $1), false) from leases`, beyond).Scan(&others)
		})
		return err == nil && others
	})
	c.countFault("replicas paused")
	return func() { require.NoError(c.t, syscall.Kill(c.rest[i].process.pid(), syscall.SIGCONT)) }
}

func restartPostgres(c *chaosTest) func() {
	require.NoError(c.t, c.server.Stop())
	require.Positive(c.t, c.countInPostgresLog("received fast shutdown request"))
	c.countFault("PostgreSQL restarted")
	return c.startPostgres
}

// abortPostgres makes PostgreSQL shut down at once, without a checkpoint; its clients are told.
func abortPostgres(c *chaosTest) func() {
	c.signalPostgres(syscall.SIGQUIT)
	c.eventually("PostgreSQL does not stop", func() bool {
		select {
		case <-c.server.Done():
			return true
		default:
			return false
		}
	})
	require.NoError(c.t, c.server.Stop())
	require.Positive(c.t, c.countInPostgresLog("received immediate shutdown request"))
	c.countFault("PostgreSQL aborted")
	return c.startPostgres
}

func killPostgres(c *chaosTest) func() {
	require.NoError(c.t, c.server.Kill())
	require.Zero(c.t, c.countInPostgresLog("database system is shut down"))
	c.countFault("PostgreSQL killed")
	return func() {
		c.startPostgres()
		require.Positive(c.t, c.countInPostgresLog("was not properly shut down"))
	}
}

// fillDisk leaves PostgreSQL no space, so that it refuses writes.
func fillDisk(c *chaosTest) func() {
	before := c.countInPostgresLog(noSpace)
	c.eventually("PostgreSQL still finds space", func() bool {
		require.NoError(c.t, c.disk.fill()) // again, because PostgreSQL may have removed files
		return c.countInPostgresLog(noSpace) > before+20
	})
	return func() {
		c.counts["writes refused by a full disk"] += c.countInPostgresLog(noSpace) - before
		c.freeDisk()
	}
}

// fillWAL leaves no space for the write-ahead log, so that PostgreSQL ends and cannot start
// again.
func fillWAL(c *chaosTest) func() {
	c.eventually("PostgreSQL survives without a log", func() bool {
		require.NoError(c.t, c.disk.fill())
		_ = c.withPostgres(func(conn *pgx.Conn) error { // uses up preallocated segments
			_, err := conn.Exec(c.t.Context(), `select pg_switch_wal()`)
			return err
		})
		return c.countInPostgresLog("PANIC:") > 0
	})
	require.Positive(c.t, c.countInPostgresLog(noSpace))
	c.countFault("write-ahead logs without space")
	return c.freeDisk
}

const noSpace = "No space left on device"

// freeDisk makes space again, and restarts PostgreSQL if it has ended.
func (c *chaosTest) freeDisk() {
	c.t.Helper()
	require.NoError(c.t, c.disk.enlarge())
	c.eventually("PostgreSQL does not come back", func() bool {
		select {
		case <-c.server.Done():
			require.NoError(c.t, c.server.Stop())
			c.startPostgres()
			c.countFault("PostgreSQL ended by a full disk")
		default:
		}
		return c.withPostgres(func(conn *pgx.Conn) error { return conn.Ping(c.t.Context()) }) == nil
	})
}

// stepClock sets the worker's clock up to six hours off until the worker has stored an event.
func stepClock(c *chaosTest) func() {
	off := time.Duration(1+c.random.IntN(6)) * time.Hour
	if c.random.IntN(2) == 0 {
		off = -off
	}
	c.worker.clockOffset.Store(int64(off))
	c.eventually("the worker stores nothing at the changed time", func() bool {
		var id events.ID // contains the time
		err := c.withPostgres(func(conn *pgx.Conn) error {
			return conn.QueryRow(c.t.Context(), `
				select id from events where workspace_id = $1 and meta->>'requestId' like 'command-%' and meta->>'requestId' not like '%.%'
				order by seq desc limit 1`, c.worker.acme.Workspace).Scan(&id)
		})
		return err == nil && ulid.Time(ulid.ULID(id).Time()).Sub(time.Now().Add(off)).Abs() < time.Minute
	})
	c.countFault("clocks set")
	return func() { c.worker.clockOffset.Store(0) }
}

// repeatMessages drops acknowledgements, so that messages are redelivered, and restarts the worker's
// part on the bus.
func repeatMessages(c *chaosTest) func() {
	before := c.worker.redelivered.Load()
	c.worker.acksToLose.Store(5)
	c.eventually("no message is redelivered", func() bool { return c.worker.redelivered.Load() >= before+5 })
	c.worker.stopBus()
	c.counts["messages redelivered"] += int(c.worker.redelivered.Load() - before)
	return c.worker.startBus
}

// countFault counts a fault that has taken effect.
func (c *chaosTest) countFault(what string) { c.counts[what]++ }

// eventually waits until holds returns true; otherwise is the message if it never does.
func (c *chaosTest) eventually(otherwise string, holds func() bool) {
	c.t.Helper()
	require.Eventually(c.t, holds, waitLimit, 5*time.Millisecond, otherwise)
}

// awaitReadiness waits until a replica's readiness check answers with a status.
func (c *chaosTest) awaitReadiness(replica, status int) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("replica %d is not %d", replica, status), func() bool {
		a, err := caller{}.send("GET", c.rest[replica].url()+"/health/ready", nil)
		return err == nil && a.status == status
	})
}

// withPostgres runs a function with a direct connection to PostgreSQL, past the proxies.
func (c *chaosTest) withPostgres(ask func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(c.t.Context(), c.database+"&connect_timeout=20")
	if err != nil {
		return err
	}
	defer conn.Close(c.t.Context())
	return ask(conn)
}

// countConnections counts the connections with an application name.
func (c *chaosTest) countConnections(name string) int {
	c.t.Helper()
	return c.queryInt(`select count(*) from pg_stat_activity where application_name = $1`, name)
}

func (c *chaosTest) queryInt(sql string, args ...any) (n int) {
	c.t.Helper()
	require.NoError(c.t, c.withPostgres(func(conn *pgx.Conn) error { return conn.QueryRow(c.t.Context(), sql, args...).Scan(&n) }))
	return n
}

// countInPostgresLog counts the occurrences of a text in PostgreSQL's log since its last start.
func (c *chaosTest) countInPostgresLog(text string) int {
	c.t.Helper()
	log, err := os.ReadFile(filepath.Join(c.postgresDir(), "postgres.log"))
	require.NoError(c.t, err)
	return strings.Count(string(log), text)
}

func (c *chaosTest) signalPostgres(signal syscall.Signal) {
	c.t.Helper()
	file, err := os.ReadFile(filepath.Join(c.postgresDir(), "data", "postmaster.pid"))
	require.NoError(c.t, err)
	line, _, _ := strings.Cut(string(file), "\n")
	pid, err := strconv.Atoi(line)
	require.NoError(c.t, err)
	require.NoError(c.t, syscall.Kill(pid, signal))
}
