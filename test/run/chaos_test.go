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
	"github.com/stretchr/testify/require"

	"svc/test/natsserver"
	"svc/test/proxy"
)

// A chaosTest is a deployment into which faults are injected.
type chaosTest struct {
	*deployment
	t       *testing.T
	random  *rand.Rand
	proxies [3]namedProxy // of the replicas and the worker
	disk    *disk         // nil where mounting is forbidden
	writers *writers
	worker  *localWorker
	counts  map[string]int // effects of faults, by description
	long    bool           // faults last for seconds
}

// A namedProxy is between PostgreSQL and the connections with an application name.
type namedProxy struct {
	*proxy.Proxy
	name string
}

// TestNothingAcknowledgedIsEverLost runs sixteen writers and a local worker while faults
// strike: first each fault by itself, then each once more, in which PostgreSQL may fail during
// another fault. The order derives from a printed seed; SVC_CHAOS_SEED repeats it. With
// SVC_CHAOS_SECONDS it runs that long, half of the time with NATS as the bus.
func TestNothingAcknowledgedIsEverLost(t *testing.T) {
	t.Parallel()
	seconds, _ := strconv.Atoi(os.Getenv("SVC_CHAOS_SECONDS"))
	long := time.Duration(seconds) * time.Second
	buses := map[string]func(*testing.T) string{"PostgreSQL": func(*testing.T) string { return "" }}
	if seconds > 0 {
		buses["NATS"] = func(t *testing.T) string { return natsserver.Start(t, natsserver.Config{}).URL }
	}
	for bus, start := range buses {
		t.Run(bus, func(t *testing.T) {
			if inOwnProcess(t) {
				runChaos(t, start(t), long/time.Duration(len(buses)))
			}
		})
	}
}

// runChaos injects faults in two rounds, or until long has passed, and then checks all data.
func runChaos(t *testing.T, bus string, long time.Duration) {
	c := newChaosTest(t, bus)
	c.long = long > 0
	after := int64(c.queryInt(`select head from logs where workspace_id = (select workspace_id from workspaces where slug = 'acme')`))
	c.writers = startWriters(t, c.deployment, 16)
	c.worker = startLocalWorker(t, c.deployment, c.writers, databaseURL(c.database, c.proxies[2].Address(), c.proxies[2].name), bus)
	until := time.Now().Add(long)
	for round := 0; round < 2 || time.Now().Before(until); round++ {
		for _, i := range c.random.Perm(len(faults)) {
			if c.long && round > 0 && time.Now().After(until) {
				break // in the first round each fault strikes
			}
			c.requireProgress()
			c.injectFault(faults[i], round > 0)
		}
	}
	c.requireProgress()
	for _, what := range slices.Sorted(maps.Keys(c.counts)) {
		t.Logf("%s: %d", what, c.counts[what])
	}

	c.worker.stopWriting()
	sent := c.writers.finish(t)
	for i := range c.rest {
		c.awaitReadiness(i, 200)
	}
	requireEachCommandOnce(t, c.deployment, sent)
	c.worker.requireEachEventHandledOnce(t, c.deployment, after)
	requireNoGaps(t, c.deployment)
	requireCaughtUp(t, c.deployment)
	requireSigned(t, c.deployment)
	requireViewsAsRebuilt(t, c.deployment)
	requireLastTokensWork(t, c.deployment, sent) // last, because it appends uses of old tokens to the log
	c.stop()
}

// newChaosTest starts a deployment whose replicas reach PostgreSQL through proxies.
func newChaosTest(t *testing.T, bus string) *chaosTest {
	t.Helper()
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("SVC_CHAOS_SEED"), strconv.FormatUint(rand.Uint64(), 10)), 10, 64)
	require.NoError(t, err, "SVC_CHAOS_SEED")
	t.Logf("SVC_CHAOS_SEED=%d", seed)
	c := &chaosTest{deployment: unstartedDeployment(t), t: t, random: rand.New(rand.NewPCG(seed, 0)), counts: map[string]int{}}
	c.disk = newDisk(t, filepath.Join(c.postgresDir(), "data"))
	for i, name := range []string{"rest-0", "rest-1", "worker"} {
		c.proxies[i] = namedProxy{proxy.New(t, c.address), name}
	}
	c.postgresVia = [2]string{c.proxies[0].Address(), c.proxies[1].Address()}
	c.start("SVC_BUS_URL=" + bus)
	// A stalled connection that has not authenticated would delay a shutdown of PostgreSQL for
	// the default authentication_timeout of a minute.
	for _, sql := range []string{`alter system set authentication_timeout = '5s'`, `select pg_reload_conf()`} {
		require.NoError(t, c.withPostgres(func(conn *pgx.Conn) error {
			_, err := conn.Exec(t.Context(), sql)
			return err
		}))
	}
	return c
}

// injectFault lets a fault strike and heals it. With nested, PostgreSQL may fail in addition while
// connections or a replica fail.
func (c *chaosTest) injectFault(f fault, nested bool) {
	c.t.Helper()
	if f.target == "disk" && c.disk == nil {
		return
	}
	began := time.Now()
	heal := f.strike(c)
	if c.long {
		<-time.After(time.Duration(c.random.Int64N(int64(time.Second << c.random.IntN(4))))) // the duration of the fault
	}
	if nested && (f.target == "connections" || f.target == "replicas") && c.random.IntN(2) == 0 {
		at := slices.IndexFunc(faults, func(f fault) bool { return f.target == "PostgreSQL" })
		c.injectFault(faults[at+c.random.IntN(3)], false)
	}
	heal()
	c.t.Logf("%s: %s", f.name, time.Since(began).Round(time.Millisecond))
}

// requireProgress waits until the worker and both replicas have acknowledged more commands.
func (c *chaosTest) requireProgress() {
	c.t.Helper()
	before := c.worker.acks.Load()
	c.writers.requireProgress(c.t)
	c.eventually("the worker makes no progress", func() bool { return c.worker.acks.Load() > before })
}

// requireProgress waits until each replica has acknowledged ten more commands.
func (w *writers) requireProgress(t *testing.T) {
	t.Helper()
	var before [2]int64
	for i := range w.acks {
		before[i] = w.acks[i].Load()
	}
	require.Eventually(t, func() bool {
		return w.acks[0].Load() >= before[0]+10 && w.acks[1].Load() >= before[1]+10
	}, waitLimit, time.Millisecond, "the writers make no progress")
}
