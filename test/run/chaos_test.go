//go:build linux

package run

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// A chaos is a stage on which things go wrong.
type chaos struct {
	*stage
	t       *testing.T
	random  *rand.Rand
	wires   [3]*wire // of the replicas, and the clerk's
	disk    *disk    // nil where none may be mounted
	writers *writers
	clerk   *clerk
	counts  map[string]int // what went wrong how often
	long    bool           // faults last a while
}

// TestNothingAcknowledgedIsEverLost has sixteen writers and a clerk go on while
// everything goes wrong: each fault by itself, and then once more, when PostgreSQL
// may go away during another fault. The order comes from a seed that is printed;
// SVC_CHAOS_SEED repeats it. With SVC_CHAOS_SECONDS it goes on for so long, and half
// of the time the bus is NATS.
func TestNothingAcknowledgedIsEverLost(t *testing.T) {
	t.Parallel()
	seconds, _ := strconv.Atoi(os.Getenv("SVC_CHAOS_SECONDS"))
	long := time.Duration(seconds) * time.Second
	buses := map[string]func(*testing.T) string{"PostgreSQL": func(*testing.T) string { return "" }}
	if seconds > 0 {
		buses["NATS"] = natsServer
	}
	for bus, start := range buses {
		t.Run(bus, func(t *testing.T) {
			if alone(t) {
				wreak(t, start(t), long/time.Duration(len(buses)))
			}
		})
	}
}

func wreak(t *testing.T, bus string, long time.Duration) {
	c := openChaos(t, bus)
	c.long = long > 0
	after := int64(c.number(`select head from logs where workspace_id = (select workspace_id from workspaces where slug = 'acme')`))
	c.writers = startWriters(t, c.stage, 16)
	c.clerk = startClerk(t, c.stage, c.writers, at(c.database, c.wires[2].address(), c.wires[2].name), bus)
	until := time.Now().Add(long)
	for round := 0; round < 2 || time.Now().Before(until); round++ {
		for _, i := range c.random.Perm(len(faults)) {
			if c.long && round > 0 && time.Now().After(until) {
				break // each was there once
			}
			c.requireProgress()
			c.suffer(faults[i], round > 0)
		}
	}
	c.requireProgress()
	for _, what := range slices.Sorted(maps.Keys(c.counts)) {
		t.Logf("%s: %d", what, c.counts[what])
	}

	c.clerk.stop()
	deeds := c.writers.end(t)
	for i := range c.rest {
		c.untilReady(i, 200)
	}
	requireEachDeedOnce(t, c.stage, deeds)
	c.clerk.requireActedOnce(t, c.stage, after)
	requireWholeLogs(t, c.stage)
	requireCaughtUp(t, c.stage)
	requireSigned(t, c.stage)
	requireViewsAsRebuilt(t, c.stage)
	requireTokensOf(t, c.stage, deeds) // last: the use of old tokens is noted in the log
	c.stop()
}

func openChaos(t *testing.T, bus string) *chaos {
	t.Helper()
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("SVC_CHAOS_SEED"), strconv.FormatUint(rand.Uint64(), 10)), 10, 64)
	require.NoError(t, err, "SVC_CHAOS_SEED")
	t.Logf("SVC_CHAOS_SEED=%d", seed)
	c := &chaos{stage: emptyStage(t), t: t, random: rand.New(rand.NewPCG(seed, 0)), counts: map[string]int{}}
	c.disk = newDisk(t, filepath.Join(c.home(), "data"))
	for i, name := range []string{"rest-0", "rest-1", "clerk"} {
		c.wires[i] = newWire(t, name, c.address)
	}
	c.via = [2]string{c.wires[0].address(), c.wires[1].address()}
	c.open("SVC_BUS_URL=" + bus)
	// A server that stops waits for whoever has connected meanwhile and says
	// nothing, as silent connections do: a minute, if it is not told otherwise.
	for _, sql := range []string{`alter system set authentication_timeout = '5s'`, `select pg_reload_conf()`} {
		require.NoError(t, c.direct(func(conn *pgx.Conn) error {
			_, err := conn.Exec(t.Context(), sql)
			return err
		}))
	}
	return c
}

// suffer has a fault strike and heal. PostgreSQL may go away while connections or
// a replica fail.
func (c *chaos) suffer(f fault, more bool) {
	c.t.Helper()
	if f.of == "disk" && c.disk == nil {
		return
	}
	began := time.Now()
	heal := f.strike(c)
	if c.long {
		<-time.After(time.Duration(c.random.Int64N(int64(time.Second << c.random.IntN(4))))) // how long it lasts
	}
	if more && (f.of == "connections" || f.of == "replicas") && c.random.IntN(2) == 0 {
		at := slices.IndexFunc(faults, func(f fault) bool { return f.of == "PostgreSQL" })
		c.suffer(faults[at+c.random.IntN(3)], false)
	}
	heal()
	c.t.Logf("%s: %s", f.name, time.Since(began).Round(time.Millisecond))
}

// requireProgress waits until everybody has stored more.
func (c *chaos) requireProgress() {
	c.t.Helper()
	before := c.clerk.acks.Load()
	c.writers.requireProgress(c.t)
	c.until("the clerk stores nothing any more", func() bool { return c.clerk.acks.Load() > before })
}

// requireProgress waits until both replicas have acknowledged more.
func (w *writers) requireProgress(t *testing.T) {
	t.Helper()
	var before [2]int64
	for i := range w.acks {
		before[i] = w.acks[i].Load()
	}
	require.Eventually(t, func() bool {
		return w.acks[0].Load() >= before[0]+10 && w.acks[1].Load() >= before[1]+10
	}, patience, time.Millisecond, "nothing is acknowledged any more")
}

// natsServer is a NATS server with JetStream in this process.
func natsServer(t *testing.T) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(patience))
	return s.ClientURL()
}
