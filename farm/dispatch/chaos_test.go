package dispatch_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/dispatch"
)

// Size of a job, length of a lease, and how long before its end a machine kills the job.
const (
	chaosChunks = 100
	chaosLease  = 6 * time.Second
	chaosMargin = 2 * time.Second
)

// drainLimit is how long the remaining jobs may take after the last fault.
const drainLimit = 3 * time.Minute

// chaosSize returns the size of the test and how long faults are injected at most. Make chaos sets
// SVC_CHAOS_SECONDS for a larger one.
func chaosSize(t *testing.T) (runners, jobs int, limit time.Duration) {
	t.Helper()
	text := os.Getenv("SVC_CHAOS_SECONDS")
	if text == "" {
		return 12, 60, 45 * time.Second
	}
	seconds, err := strconv.Atoi(text)
	require.NoError(t, err)
	return 50, 1000, time.Duration(seconds) * time.Second
}

// chaos is a farm in which connections are cut, replicas restart, and agents freeze for longer than
// a lease.
type chaos struct {
	*site
	mu                sync.Mutex
	replicas          []*replica
	holder            map[events.ID]holder // of each job at the moment
	twice             []string
	over              chan struct{}
	maxConnectionLife time.Duration
	noFaults          atomic.Bool // no more faults, so that slow machines finish too
}

func (c *chaos) anyReplica() *replica {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.replicas[rand.IntN(len(c.replicas))]
}

// A holder is a machine that runs a job. It kills the job at a time of its clock, which is in force
// even if the goroutine of the machine is late.
type holder struct {
	who   string
	until time.Time
}

// hold notes that a machine runs a job until a time, and release that it has stopped before.
func (c *chaos) hold(job events.ID, who string, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.After(until) {
		return
	}
	if other, ok := c.holder[job]; ok && other.who != who && now.Before(other.until) {
		c.twice = append(c.twice, fmt.Sprintf("%s: %s and %s", job, other.who, who))
	}
	c.holder[job] = holder{who, until}
}

func (c *chaos) release(job events.ID, who string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holder[job].who == who {
		delete(c.holder, job)
	}
}

// Every job ends with exactly one finished event, runs on one machine at a time, and has a log
// without gaps.
func TestEveryJobEndsOnce(t *testing.T) {
	t.Parallel()
	c := &chaos{site: newSite(t), holder: map[events.ID]holder{}, over: make(chan struct{})}
	begin := func() *replica {
		return c.replica(func(d *dispatch.Config) {
			d.LeaseTime, d.OfflineAfter, d.RefreshEvery, d.SweepEvery = chaosLease, 3*time.Second, 500*time.Millisecond, 200*time.Millisecond
			d.Leads = func(string) bool { return true } // both lead: nothing depends on a single leader
		})
	}
	c.replicas = []*replica{begin(), begin()}
	runners, most, limit := chaosSize(t)
	c.maxConnectionLife = time.Duration(runners) * 150 * time.Millisecond // so that as many connections are cut per second
	var jobs []events.ID
	for range most {
		jobs = append(jobs, c.submit(c.replicas[0], func(j *events.JobSpec) { j.Retry.MaxAttempts = 10 }))
	}
	var working sync.WaitGroup
	for i := range runners {
		m := &machine{c: c, id: c.enrol(c.replicas[0], fmt.Sprintf("m%d", i), 2, 0), jobs: map[attempt]*work{}}
		working.Go(m.run)
	}
	restart := time.NewTicker(2 * time.Second)
	defer restart.Stop()
	for end := time.Now().Add(limit); ; {
		<-restart.C
		var left int
		require.NoError(t, c.db.QueryRow(t.Context(), `
			select count(*) from jobs
			where workspace_id = $1 and due_at is not null or state in ('queued', 'leased', 'running', 'cancelling')`, c.ws).Scan(&left))
		if left == 0 || time.Now().After(end.Add(drainLimit)) {
			break
		}
		if c.noFaults.Store(time.Now().After(end)); c.noFaults.Load() {
			continue
		}
		fresh := begin()
		c.mu.Lock()
		i := rand.IntN(2)
		old := c.replicas[i]
		c.replicas[i] = fresh
		c.mu.Unlock()
		old.stop()
	}
	close(c.over)
	working.Wait()
	require.Empty(t, c.twice, "on two machines at once")
	attempts := 0
	for _, job := range jobs {
		kinds := c.kinds(job)
		require.Equal(t, events.JobStateSucceeded, c.state(job), "%s %v", job, kinds)
		require.Equal(t, 1, count(kinds, "finished"), "%v", kinds)
		attempts += count(kinds, "leased")
	}
	t.Logf("%d attempts of %d jobs", attempts, most)
	var bad int
	require.NoError(t, c.db.QueryRow(t.Context(), `
		select count(*) from events e where kind = 'job.log_sealed' and data->>'integrity' <> 'verified'
		and (data->>'epoch')::int = (select epoch from jobs j where j.job_id = e.stream)`).Scan(&bad))
	require.Zero(t, bad, "logs that are not whole")
}
