//go:build linux && !race

package run

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/test/address"
)

// A farm is a deployment with a gateway in front of both replicas, and machines that each run
// svc-runner in a folder of their own.
type farm struct {
	*deployment
	t         *testing.T
	url       string
	machines  []*machine
	scratch   string // folder of files that jobs write
	artifacts string // folder of the artifact store
	token     string // of ci-bot
	db        *pgx.Conn
}

// A machine is an enrolled svc-runner, across restarts.
type machine struct {
	folder  string
	process *process
}

// farmSize returns a larger farm and a longer limit if SVC_CHAOS_SECONDS is set, as make chaos does.
func farmSize(t *testing.T) (machines, jobs int, limit time.Duration) {
	t.Helper()
	text := os.Getenv("SVC_CHAOS_SECONDS")
	if text == "" {
		return 4, 16, waitLimit
	}
	seconds, err := strconv.Atoi(text)
	require.NoError(t, err)
	return 50, 1000, max(time.Duration(seconds)*time.Second, waitLimit)
}

// TestJobsEndOnceThoughProgramsAreKilled kills and pauses machines and replicas while jobs run. Each job
// must end with one job.finished, a complete log and a complete artifact. A job holds a lock, which the
// kernel releases when it dies, and so detects whether another attempt runs at the same time.
func TestJobsEndOnceThoughProgramsAreKilled(t *testing.T) {
	t.Parallel()
	machines, most, limit := farmSize(t)
	f := newFarm(t, machines)
	var jobs []string
	var faults int
	calm, end := time.Now().Add(limit/2), time.Now().Add(limit)
	for {
		for range min(4, most-len(jobs)) {
			jobs = append(jobs, f.submit(len(jobs)))
		}
		left := f.countUnfinished()
		if left == 0 && len(jobs) == most {
			break
		}
		if left > 0 && time.Now().After(end) {
			require.FailNow(t, "jobs have not ended", "%d: %v", left, f.describeUnfinished())
		}
		switch {
		case left > 4 && faults < most/2 && time.Now().Before(calm):
			f.injectFault(faults)
			faults++
		case left > 0: // no more faults: each retry of a job waits longer
			<-time.After(100 * time.Millisecond)
		}
	}
	t.Logf("%d jobs on %d machines; programs killed or stopped: %d", most, machines, faults)
	f.requireEachJobOnce(jobs)
	requireNoGaps(t, f.deployment)
	requireSigned(t, f.deployment)
}

// injectFault kills a busy machine, kills a replica, or pauses a busy machine, by the number of the fault.
func (f *farm) injectFault(number int) {
	f.t.Helper()
	var busy string
	require.Eventually(f.t, func() bool {
		err := f.db.QueryRow(f.t.Context(), `select runner_name from jobs where state = 'running' order by random() limit 1`).Scan(&busy)
		return err == nil
	}, waitLimit, 20*time.Millisecond, "no job runs")
	m := f.machines[slices.IndexFunc(f.machines, func(m *machine) bool { return filepath.Base(m.folder) == busy })]
	switch number % 4 {
	case 1:
		r := f.rest[rand.IntN(len(f.rest))]
		r.process.kill()
		f.startRest(r)
	case 3:
		f.pause(m)
	default:
		m.process.kill()
		f.startMachine(m)
	}
}

// newFarm starts a deployment with a gateway and enrols machines.
func newFarm(t *testing.T, machines int, environ ...string) *farm {
	t.Helper()
	f := &farm{deployment: unstartedDeployment(t), t: t, scratch: t.TempDir(), artifacts: t.TempDir()}
	listen := address.Free(t)
	f.url = "https://" + listen
	f.start(append(environ, "SVC_FARM_PUBLIC_URL="+f.url,
		"SVC_FARM_RELEASES_DIR="+f.installation.file("releases"), "SVC_FARM_CLIENT_CERT_HEADER=X-Svc-Client-Cert",
		"SVC_FARM_TRUSTED_PROXIES=127.0.0.1/32", "SVC_ARTIFACT_STORE="+f.artifacts)...)
	f.db, f.token = f.connect(), f.installation.dev().account(t, "ci-bot").Token
	start(t, nil, append(cleanEnviron(), "SVC_GATEWAY_ADDR="+listen, "SVC_GATEWAY_REST_URL=http://"+f.startLoadBalancer(),
		"SVC_GATEWAY_TLS_CERT="+f.installation.file("gateway/gateway.pem"), "SVC_GATEWAY_TLS_KEY="+f.installation.file("gateway/gateway.key")),
		"svc-gateway").waitForOutput("listening")
	for i := range machines {
		m := &machine{folder: filepath.Join(f.installation.home, fmt.Sprintf("machine-%d", i))}
		minted := decode[struct{ Token string }](t, f.owner.expect(t, http.StatusCreated, "POST", f.rest[0].url()+"/api/v1/farm/enrollments",
			map[string]any{"name": filepath.Base(m.folder), "ttlSeconds": 600}))
		code, text := f.startRunner(m, []string{"SVC_ENROLL_TOKEN=" + minted.Token},
			"enroll", "-url="+f.url, "-server-ca="+f.installation.file("gateway/ca.pem"), "-capacity=2").wait()
		require.Zero(t, code, text)
		f.startMachine(m)
		f.machines = append(f.machines, m)
	}
	return f
}

// startLoadBalancer forwards each connection to a replica that accepts it, and returns its address.
func (f *farm) startLoadBalancer() string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(f.t, err)
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			from, err := ln.Accept()
			if err != nil {
				return // it is closed
			}
			connections.Go(func() { f.forward(from) })
		}
	})
	f.t.Cleanup(func() { // runs after both ends have been killed
		require.NoError(f.t, ln.Close())
		connections.Wait()
	})
	return ln.Addr().String()
}

// forward copies bytes between a connection and a replica until either side closes.
func (f *farm) forward(from net.Conn) {
	defer from.Close()
	for _, i := range rand.Perm(len(f.rest)) {
		to, err := net.Dial("tcp", strings.TrimPrefix(f.rest[i].url(), "http://"))
		if err != nil {
			continue
		}
		defer to.Close()
		go func() { // ends with either connection
			defer to.Close()
			_, _ = io.Copy(to, from) // a killed program breaks off
		}()
		_, _ = io.Copy(from, to)
		return
	}
}

func (f *farm) startRunner(m *machine, environ []string, args ...string) *process {
	f.t.Helper()
	return start(f.t, nil, append(append(cleanEnviron(), "SVC_RUNNER_DATA_DIR="+m.folder), environ...), "svc-runner", args...)
}

func (f *farm) startMachine(m *machine) {
	m.process = f.startRunner(m, nil, "run", "-min-disk-mib=1", "-git-protocols=http")
}

// pause stops a machine and all that runs on it for a second.
func (f *farm) pause(m *machine) {
	everybody := processTree(m.process.pid())
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		for _, b := range everybody {
			_ = syscall.Kill(b.pid, signal) // it may have ended
		}
		if signal == syscall.SIGSTOP {
			<-time.After(time.Second)
		}
	}
}

// submit submits a job that writes ten lines, to either replica, and retries until it is accepted.
func (f *farm) submit(i int) string {
	f.t.Helper()
	return f.submitScript(i, "for n in 1 2 3 4 5 6 7 8 9 10; do echo line $n; sleep 0.2; done")
}

// submitScript submits a job that holds a lock while it runs a script, and then writes an artifact.
func (f *farm) submitScript(i int, script string) string {
	f.t.Helper()
	script = fmt.Sprintf(`exec 9>%[1]s/%[2]d.lock; flock -n 9 || echo %[2]d >>%[1]s/twice
		%[3]s; head -c 70000 /dev/zero | tr '\0' x >out.txt`, f.scratch, i, script)
	var a answer
	body := map[string]any{
		"name": fmt.Sprintf("job %d", i), "idempotencyKey": fmt.Sprintf("job-%d", i),
		"sandbox": map[string]string{"kind": "none"}, "retry": map[string]int{"maxAttempts": 10},
		"steps":     []map[string]string{{"name": "write", "run": script}},
		"artifacts": []map[string]any{{"name": "out", "paths": []string{"out.txt"}}},
	}
	require.Eventually(f.t, func() (ok bool) {
		var err error
		a, err = byToken(f.token).send("POST", f.rest[i%len(f.rest)].url()+"/api/v1/farm/jobs", body)
		return err == nil && a.status/100 == 2
	}, waitLimit, 100*time.Millisecond, "job %d", i)
	return decode[struct{ Job job }](f.t, a).Job.ID
}

// unfinishedSQL selects jobs that have not ended, or whose artifacts or logs are not complete.
const unfinishedSQL = `state in ('queued', 'leased', 'running', 'cancelling') or artifacts->>'state' in ('awaiting', 'partial')
	or not exists (select from events e where e.workspace_id = j.workspace_id and e.stream = j.job_id and kind = 'job.log_sealed'
		and (data->>'epoch')::int = j.epoch)`

// countUnfinished counts the jobs that have not ended, or whose artifacts or logs are not complete.
func (f *farm) countUnfinished() (left int) {
	f.t.Helper()
	err := f.db.QueryRow(f.t.Context(), `
		select count(*) from jobs j where `+unfinishedSQL).Scan(&left)
	require.NoError(f.t, err)
	return left
}

// describeUnfinished returns the history of each unfinished job, and logs what its machines wrote about it.
func (f *farm) describeUnfinished() [][]any {
	f.t.Helper()
	list := queryRows(f.t, f.connect(), `
		select job_id::text, state, runner_name, epoch, artifacts->>'state', not_before::text, (select array_agg(kind || ' ' || at::time(0)
			order by version)
			from events e where e.workspace_id = j.workspace_id and e.stream = j.job_id)
		from jobs j where `+unfinishedSQL)
	for _, job := range list {
		for _, m := range f.machines {
			for line := range strings.Lines(m.process.out.String()) {
				if strings.Contains(line, job[0].(string)) {
					f.t.Logf("%s: %s", filepath.Base(m.folder), line)
				}
			}
		}
	}
	return list
}

// requireEachJobOnce requires that each job succeeded once, with complete artifacts and a verified log, and that
// at least one needed another attempt.
func (f *farm) requireEachJobOnce(jobs []string) {
	f.t.Helper()
	twice, err := os.ReadFile(filepath.Join(f.scratch, "twice"))
	require.ErrorIs(f.t, err, os.ErrNotExist, "ran twice at once: %s", twice)
	kinds := map[string]map[string]int{}
	var sealed struct {
		Epoch     int
		Integrity string
	}
	whole := map[string]string{}
	for _, e := range entries(f.t, f.deployment) {
		if kinds[e.Stream] == nil {
			kinds[e.Stream] = map[string]int{}
		}
		kinds[e.Stream][e.Kind]++
		if e.Kind == "job.log_sealed" {
			require.NoError(f.t, json.Unmarshal(e.Data, &sealed))
			whole[e.Stream] = sealed.Integrity // the last one is of the last attempt
		}
	}
	attempts := 0
	for _, id := range jobs {
		attempts += kinds[id]["job.leased"]
		j := decode[struct {
			State     string
			Artifacts struct{ State string }
		}](f.t, f.owner.expect(f.t, http.StatusOK, "GET", f.rest[0].url()+"/api/v1/farm/jobs/"+id, nil))
		require.Equal(f.t, "succeeded", j.State, "%s %v", id, kinds[id])
		require.Equal(f.t, "complete", j.Artifacts.State, id)
		require.Equal(f.t, 1, kinds[id]["job.finished"], "%s %v", id, kinds[id])
		require.Equal(f.t, "verified", whole[id], id)
	}
	f.t.Logf("%d attempts of %d jobs", attempts, len(jobs))
	require.Greater(f.t, attempts, len(jobs), "no killed machine had a job")
}
