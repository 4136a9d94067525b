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

// A farm is a stage with a gateway before both replicas and machines behind it, each a
// process of svc-runner with a folder of its own.
type farm struct {
	*stage
	t         *testing.T
	url       string
	machines  []*machine
	scratch   string // which the jobs write to
	artifacts string // where their files are kept
	token     string // of ci-bot
	db        *pgx.Conn
}

// A machine is one enrolled svc-runner, whichever process it is at the moment.
type machine struct {
	folder  string
	process *process
}

// farmSize is how large the farm is: larger where make chaos says how long it may take.
func farmSize(t *testing.T) (machines, jobs int, limit time.Duration) {
	t.Helper()
	text := os.Getenv("SVC_CHAOS_SECONDS")
	if text == "" {
		return 4, 16, patience
	}
	seconds, err := strconv.Atoi(text)
	require.NoError(t, err)
	return 50, 1000, max(time.Duration(seconds)*time.Second, patience)
}

// Programs are killed and stopped at any time, machines as well as replicas, and each
// job ends with one job.finished, its log whole and its file complete. The jobs hold a
// lock that the kernel takes from the dead, and so see whether another one has it.
func TestJobsEndOnceThoughProgramsAreKilled(t *testing.T) {
	t.Parallel()
	machines, most, limit := farmSize(t)
	f := openFarm(t, machines)
	var jobs []string
	var faults int
	calm, end := time.Now().Add(limit/2), time.Now().Add(limit)
	for {
		for range min(4, most-len(jobs)) {
			jobs = append(jobs, f.submit(len(jobs)))
		}
		left := f.unfinished()
		if left == 0 && len(jobs) == most {
			break
		}
		if left > 0 && time.Now().After(end) {
			require.FailNow(t, "jobs have not ended", "%d: %v", left, f.unended())
		}
		switch {
		case left > 4 && faults < most/2 && time.Now().Before(calm):
			f.strike(faults)
			faults++
		case left > 0: // a job that is hit again and again is put off longer each time
			<-time.After(100 * time.Millisecond)
		}
	}
	t.Logf("%d jobs on %d machines; programs killed or stopped: %d", most, machines, faults)
	f.requireEach(jobs)
	requireWholeLogs(t, f.stage)
	requireSigned(t, f.stage)
}

// strike kills a machine that has a job, or a replica, or stops such a machine for a
// moment: the death of an idle one proves little.
func (f *farm) strike(number int) {
	f.t.Helper()
	var busy string
	require.Eventually(f.t, func() bool {
		err := f.db.QueryRow(f.t.Context(), `select runner_name from jobs where state = 'running' order by random() limit 1`).Scan(&busy)
		return err == nil
	}, patience, 20*time.Millisecond, "no job runs")
	m := f.machines[slices.IndexFunc(f.machines, func(m *machine) bool { return filepath.Base(m.folder) == busy })]
	switch number % 4 {
	case 1:
		r := f.rest[rand.IntN(len(f.rest))]
		r.process.kill()
		f.startRest(r)
	case 3:
		f.freeze(m)
	default:
		m.process.kill()
		f.begin(m)
	}
}

func openFarm(t *testing.T, machines int, environ ...string) *farm {
	t.Helper()
	f := &farm{stage: emptyStage(t), t: t, scratch: t.TempDir(), artifacts: t.TempDir()}
	listen := address.Free(t)
	f.url = "https://" + listen
	f.open(append(environ, "SVC_FARM_PUBLIC_URL="+f.url,
		"SVC_FARM_RELEASES_DIR="+f.site.file("releases"), "SVC_FARM_CLIENT_CERT_HEADER=X-Svc-Client-Cert",
		"SVC_FARM_TRUSTED_PROXIES=127.0.0.1/32", "SVC_ARTIFACT_STORE="+f.artifacts)...)
	f.db, f.token = f.connect(), f.site.dev().account(t, "ci-bot").Token
	start(t, nil, append(inherited(), "SVC_GATEWAY_ADDR="+listen, "SVC_GATEWAY_REST_URL=http://"+f.balance(),
		"SVC_GATEWAY_TLS_CERT="+f.site.file("gateway/gateway.pem"), "SVC_GATEWAY_TLS_KEY="+f.site.file("gateway/gateway.key")),
		"svc-gateway").until("listening")
	for i := range machines {
		m := &machine{folder: filepath.Join(f.site.home, fmt.Sprintf("machine-%d", i))}
		minted := decode[struct{ Token string }](t, f.owner.must(t, http.StatusCreated, "POST", f.rest[0].url()+"/api/v1/farm/enrollments",
			map[string]any{"name": filepath.Base(m.folder), "ttlSeconds": 600}))
		code, text := f.runner(m, []string{"SVC_ENROLL_TOKEN=" + minted.Token},
			"enroll", "-url="+f.url, "-server-ca="+f.site.file("gateway/ca.pem"), "-capacity=2").wait()
		require.Zero(t, code, text)
		f.begin(m)
		f.machines = append(f.machines, m)
	}
	return f
}

// balance leads each connection to a replica that takes it, as a load balancer does.
func (f *farm) balance() string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(f.t, err)
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			from, err := ln.Accept()
			if err != nil {
				return // it is closed
			}
			connections.Go(func() { f.lead(from) })
		}
	})
	f.t.Cleanup(func() { // when the programs at both ends have been killed
		require.NoError(f.t, ln.Close())
		connections.Wait()
	})
	return ln.Addr().String()
}

func (f *farm) lead(from net.Conn) {
	defer from.Close()
	for _, i := range rand.Perm(len(f.rest)) {
		to, err := net.Dial("tcp", strings.TrimPrefix(f.rest[i].url(), "http://"))
		if err != nil {
			continue
		}
		defer to.Close()
		go func() { // ends with either connection
			defer to.Close()
			_, _ = io.Copy(to, from) // whoever breaks off is who was killed
		}()
		_, _ = io.Copy(from, to)
		return
	}
}

func (f *farm) runner(m *machine, environ []string, args ...string) *process {
	f.t.Helper()
	return start(f.t, nil, append(append(inherited(), "SVC_RUNNER_DATA_DIR="+m.folder), environ...), "svc-runner", args...)
}

func (f *farm) begin(m *machine) { m.process = f.runner(m, nil, "run", "-min-disk-mib=1") }

// freeze stops a machine with all that runs on it, for a moment.
func (f *farm) freeze(m *machine) {
	everybody := family(m.process.pid())
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		for _, b := range everybody {
			_ = syscall.Kill(b.pid, signal) // it may have ended
		}
		if signal == syscall.SIGSTOP {
			<-time.After(time.Second)
		}
	}
}

// submit asks for a job by a token, at either replica, again where the service is busy.
func (f *farm) submit(i int) string {
	f.t.Helper()
	return f.submitScript(i, "for n in 1 2 3 4 5 6 7 8 9 10; do echo line $n; sleep 0.2; done")
}

// submitScript submits a job that holds a lock while it runs a script, and leaves a file.
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
	}, patience, 100*time.Millisecond, "job %d", i)
	return decode[struct{ Job job }](f.t, a).Job.ID
}

const unended = `state in ('queued', 'leased', 'running', 'cancelling') or artifacts->>'state' in ('awaiting', 'partial')
	or not exists (select from events e where e.workspace_id = j.workspace_id and e.stream = j.job_id and kind = 'job.log_sealed'
		and (data->>'epoch')::int = j.epoch)`

// unfinished counts the jobs that have not ended, or whose files or logs are not complete.
func (f *farm) unfinished() (left int) {
	f.t.Helper()
	err := f.db.QueryRow(f.t.Context(), `
		select count(*) from jobs j where `+unended).Scan(&left)
	require.NoError(f.t, err)
	return left
}

// unended says of the jobs that have not ended what happened to them, and what their
// machines say of them.
func (f *farm) unended() [][]any {
	f.t.Helper()
	list := rows(f.t, f.connect(), `
		select job_id::text, state, runner_name, epoch, artifacts->>'state', not_before::text, (select array_agg(kind || ' ' || at::time(0)
			order by version)
			from events e where e.workspace_id = j.workspace_id and e.stream = j.job_id)
		from jobs j where `+unended)
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

func (f *farm) requireEach(jobs []string) {
	f.t.Helper()
	twice, err := os.ReadFile(filepath.Join(f.scratch, "twice"))
	require.ErrorIs(f.t, err, os.ErrNotExist, "ran twice at once: %s", twice)
	kinds := map[string]map[string]int{}
	var sealed struct {
		Epoch     int
		Integrity string
	}
	whole := map[string]string{}
	for _, e := range entries(f.t, f.stage) {
		if kinds[e.Stream] == nil {
			kinds[e.Stream] = map[string]int{}
		}
		kinds[e.Stream][e.Kind]++
		if e.Kind == "job.log_sealed" {
			require.NoError(f.t, json.Unmarshal(e.Data, &sealed))
			whole[e.Stream] = sealed.Integrity // the last one is the last attempt's
		}
	}
	attempts := 0
	for _, id := range jobs {
		attempts += kinds[id]["job.leased"]
		j := decode[struct {
			State     string
			Artifacts struct{ State string }
		}](f.t, f.owner.must(f.t, http.StatusOK, "GET", f.rest[0].url()+"/api/v1/farm/jobs/"+id, nil))
		require.Equal(f.t, "succeeded", j.State, "%s %v", id, kinds[id])
		require.Equal(f.t, "complete", j.Artifacts.State, id)
		require.Equal(f.t, 1, kinds[id]["job.finished"], "%s %v", id, kinds[id])
		require.Equal(f.t, "verified", whole[id], id)
	}
	f.t.Logf("%d attempts of %d jobs", attempts, len(jobs))
	require.Greater(f.t, attempts, len(jobs), "no job was on a machine that was killed")
}
