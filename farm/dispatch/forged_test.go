package dispatch_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/farm/dispatch"
	"svc/farm/wire"
	"svc/projections/farmviews"
)

// change runs SQL of somebody who can write to the database, but has no key of the vault. $1 is the workspace.
func (s *site) change(sql string, args ...any) {
	s.t.Helper()
	tag, err := s.db.Exec(context.Background(), sql, append([]any{s.ws}, args...)...)
	require.NoError(s.t, err)
	require.Positive(s.t, tag.RowsAffected(), sql)
}

// A logged is what a replica logs.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// errors returns how many lines of level ERROR name a job.
func (l *logged) errors(job events.ID) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, "level=ERROR") && strings.Contains(line, job.String()) {
			n++
		}
	}
	return n
}

// checkLoads makes r load no events that replicas did not append.
func (s *site) checkLoads(r *replica, log *logged) {
	signed := func(context.Context, []events.Record) error { return store.ErrForeign }
	r.log.CheckLoads(s.ring, signed, slog.New(slog.NewTextHandler(log, nil)))
}

// requireNext requires that the next job that a runner is given is one that is submitted now.
func (s *site) requireNext(r *replica, a *agent, change ...func(*events.JobSpec)) {
	s.t.Helper()
	next := s.submit(r, change...)
	got, _, _ := a.assigned()
	require.Equal(s.t, next, got, "not %v", s.kinds(got))
}

// A runner is told what was submitted, whatever the rows say that people read.
func TestRunnerGetsJobAsSubmitted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica(revealing(1))
	job := s.submit(r)
	s.change(`update job_specs set spec = jsonb_set(replace(spec::text, 'make test', 'make trouble')::jsonb, '{secrets}', '["KEY"]')
		where workspace_id = $1`)
	a := dial(t, r, s.ws, s.enrol(r, "builder", 1, 0))
	a.greet()
	got, _, assign := a.assigned()
	require.Equal(t, job, got)
	require.Equal(t, "make test", assign.Steps[1].Run)
	require.Empty(t, assign.Secrets)
}

// A job whose events were changed, or are another's, is given to no runner. One behind it is, in another slot.
func TestJobChangedInTheLogIsNotDelivered(t *testing.T) {
	t.Parallel()
	const submitted = ` where workspace_id = $1 and stream = $2 and kind = 'job.submitted'`
	for name, sql := range map[string]string{
		"a step":        `update events set data = replace(data::text, 'make test', 'make trouble')::json` + submitted,
		"a secret":      `update events set data = jsonb_set(data::jsonb, '{spec,secrets}', '["KEY"]')::json` + submitted,
		"the submitter": `update events set meta = replace(meta::text, '"name":"system"', '"name":"nobody"')::json` + submitted,
		"the MAC":       `update events set mac = set_byte(mac, 9, get_byte(mac, 9) # 1)` + submitted,
		"no MAC":        `update events set mac = ''` + submitted,
		"another job's": `update events e set (id, data, meta, mac) = (select id, data, meta, mac from events o
			where o.workspace_id = $1 and o.kind = 'job.submitted' and o.stream <> $2)` + submitted,
		"a forged requeue": `with h as (update logs set head = head + 1 where workspace_id = $1 returning head)
			insert into events select workspace_id, h.head, gen_random_uuid(), stream, 2, 'job.requeued', 1, at, meta,
				'{"epoch":0,"reason":"declined","notBefore":"2020-01-01T00:00:00Z"}', mac from events, h` + submitted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, log := newSite(t), &logged{}
			first := s.replica()
			s.submit(first, requiring("pool=other"))
			job := s.submit(first)
			s.change(sql, job)
			r := s.replica(revealing(1)) // it reads the job, which the other has in memory
			s.checkLoads(r, log)
			a := dial(t, r, s.ws, s.enrol(r, "builder", 2, 0))
			a.greet()
			require.Eventually(t, func() bool { return log.errors(job) > 0 }, waitLimit, 2*time.Millisecond)
			s.requireNext(r, a)
		})
	}
}

func requiring(label string) func(*events.JobSpec) {
	return func(spec *events.JobSpec) { spec.Requires.Labels = []string{label} }
}

// A row of jobs that names a runner gives it no job that the log did not give to it.
func TestRowsOfJobsGiveNothingToRunners(t *testing.T) {
	t.Parallel()
	s := newRunning(t)
	r := s.r
	s.a.send(finished("one\n"), s.job, s.epoch, 3)
	s.waitForState(events.JobStateSucceeded, s.job)
	s.submit(r)
	held, _, _ := s.a.assigned()
	s.submit(r)
	s.a.assigned() // its second slot
	waiting, made, builder := s.submit(r, requiring("pool=none")), newID(), s.enrol(r, "another", 1, 0)
	s.change(`insert into jobs select (jsonb_populate_record(j, jsonb_build_object('job_id', $3::uuid))).* from jobs j
		where workspace_id = $1 and job_id = $2`, waiting, made)
	s.change(`insert into job_specs select workspace_id, $3, spec from job_specs where workspace_id = $1 and job_id = $2`, waiting, made)
	for _, job := range []events.ID{s.job, held, waiting, made} {
		s.change(`update jobs set runner_id = $3, state = 'leased', accepted = false, started_at = null
			where workspace_id = $1 and job_id = $2`, job, builder)
	}
	a := dial(t, r, s.ws, builder)
	a.greet()
	s.requireNext(r, a)
}

// A runner gets no job that it does not suit according to the log, whatever the rows say about labels.
func TestRowsOfLabelsGiveNothingToRunners(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		requires []string
		sql      string
	}{
		"requirements of a job": {[]string{"gpu=a100", "pool=release"},
			`update jobs set requirement = 'made up', required = '{"labels":["gpu=a100"]}' where workspace_id = $1`},
		"labels of a runner": {[]string{"gpu=a100", "pool=release"},
			`update runners set labels = labels || '{pool=release}' where workspace_id = $1`},
		"exclusive labels of a runner": {nil, `update runners set exclusive_labels = '{}' where workspace_id = $1`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			r := s.replica(func(c *dispatch.Config) { c.RefreshEvery = 20 * time.Millisecond }) // reads the rows again
			suits := func(spec *events.JobSpec) { spec.Requires.Labels = []string{"gpu=a100"} }
			runner := s.enrolAs(r, func(e *events.RunnerEnrolled) {
				e.Labels = []string{"gpu=a100"}
				e.MintedLabels, e.ExclusiveLabels = e.Labels, e.Labels
			})
			a := dial(t, r, s.ws, runner)
			a.greet()
			job := s.submit(r, func(spec *events.JobSpec) { spec.Requires.Labels = c.requires })
			s.change(c.sql)
			require.Eventually(t, func() bool { return count(s.kinds(job), "requeued") > 0 }, waitLimit, 2*time.Millisecond)
			s.requireNext(r, a, suits)
		})
	}
}

// What may be deleted from the disk is decided by events that this service appended, whatever the rows say.
func TestForgedEventReleasesNoFiles(t *testing.T) {
	t.Parallel()
	j, _, _, _ := newStored(t)
	r, log := j.replica(), &logged{}
	j.checkLoads(r, log)
	view := farmviews.AbandonedArtifacts{DB: j.db, Log: r.log}
	keep, ok, err := view.Stored(t.Context(), j.ws, j.job)
	require.NoError(t, err)
	require.False(t, ok, "its artifacts are complete: %v", keep)
	j.change(`update jobs set artifacts = '{"state":"removed"}' where workspace_id = $1 and job_id = $2`, j.job)
	_, ok, err = view.Stored(t.Context(), j.ws, j.job)
	require.NoError(t, err)
	require.False(t, ok, "they are complete in the log")
	require.Zero(t, log.errors(j.job))
	j.change(`with h as (update logs set head = head + 1 where workspace_id = $1 returning head)
		insert into events select workspace_id, h.head, gen_random_uuid(), stream, version + 1, 'job.artifacts_removed', 1, at, meta, '{}', mac
		from h, (select * from events where workspace_id = $1 and stream = $2 order by version desc limit 1) e`, j.job)
	_, ok, err = view.Stored(t.Context(), j.ws, j.job)
	require.NoError(t, err)
	require.False(t, ok, "the event is forged")
	require.Equal(t, 1, log.errors(j.job))
}

// Whether artifacts are old is decided by the log, which says that these are seconds old.
func TestForgedAgeRemovesNoArtifacts(t *testing.T) {
	t.Parallel()
	j, r, removed, _ := newStored(t)
	j.change(`update job_artifacts set stored_at = '2000-01-01' where workspace_id = $1`)
	j.change(`update events set at = '2000-01-01' where workspace_id = $1`)
	r.SweepOnce(t.Context())
	require.Zero(t, *removed, "%v", j.kinds(j.job))
	require.Zero(t, count(j.kinds(j.job), "artifacts_removed"))
	j.clock.advance(91 * 24 * time.Hour)
	r.SweepOnce(t.Context())
	require.Equal(t, 1, *removed, "%v", j.kinds(j.job))
}

// Whether an upload takes too long is decided by the log, which says that the job has just ended.
func TestForgedEndAbandonsNoUpload(t *testing.T) {
	t.Parallel()
	j := newRunningWith(t, events.JobArtifactSpec{Name: "dist", Paths: []string{"dist"}, When: "success", Required: true})
	end := finished("one\n")
	end.Artifacts = 1
	j.a.send(end, j.job, j.epoch, 3)
	j.a.acked(3)
	j.change(`update jobs set finished_at = '2000-01-01', due_at = '2000-01-01' where workspace_id = $1`)
	j.r.SweepOnce(t.Context())
	require.Equal(t, 1, count(j.kinds(j.job), "log_sealed"), "it was looked at")
	require.Zero(t, count(j.kinds(j.job), "artifacts_abandoned"))
	require.Equal(t, events.JobStateSucceeded, j.state(j.job))
	j.clock.advance(events.ArtifactUploadWindow + time.Second)
	j.change(`update jobs set due_at = '2000-01-01' where workspace_id = $1`)
	j.r.SweepOnce(t.Context())
	require.Equal(t, events.JobStateFailed, j.state(j.job))
}

// A log that was changed before it was sealed is not called verified: what its runner has sent is in the log of the
// workspace.
func TestForgedSumVerifiesNoLog(t *testing.T) {
	t.Parallel()
	j := newRunning(t)
	j.a.send(finished("one\n"), j.job, j.epoch, 3)
	j.a.acked(3)
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("two\n")))
	j.change(`update job_logs set data = 'two' || '\x0a'::bytea where workspace_id = $1`)
	j.change(`update job_leases set log_sum = jsonb_build_object('bytes', 4, 'sha256', $2::text) where workspace_id = $1`, sum)
	j.change(`update jobs set attempts = jsonb_set(attempts::jsonb, '{0,sent}', jsonb_build_object('bytes', 4, 'sha256', $2::text))::json
		where workspace_id = $1`, sum)
	j.r.SweepOnce(t.Context())
	var sealed events.JobLogSealed
	var text []byte
	require.NoError(t, j.db.QueryRow(t.Context(), `select data from events where stream = $1 and kind = 'job.log_sealed'`, j.job).Scan(&text))
	require.NoError(t, json.Unmarshal(text, &sealed))
	require.Equal(t, events.JobLogSealed{Epoch: 1, Bytes: 4, Chunks: 1, SHA256: sum, Integrity: "mismatch"}, sealed)
}

// What a machine says of itself puts it into no pool: a job that requires a label of a person waits for a runner to which
// one gave it.
func TestRunnerJoinsNoPoolByItself(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica(func(c *dispatch.Config) {
		c.Reveal = func(context.Context, events.ID, []string) (map[string]string, error) {
			return map[string]string{"NPM_TOKEN": "of prod"}, nil
		}
	})
	a := dial(t, r, s.ws, s.enrol(r, "builder", 1, 0, "pool=test"))
	says := hello
	says.Labels = []string{"pool=prod", "gpu=a100"}
	a.send(says, events.ID{}, 0, 0)
	a.next(wire.TypeWelcome)
	waits := s.submit(r, func(j *events.JobSpec) {
		j.Requires.Labels, j.Secrets = []string{"pool=prod"}, []string{"NPM_TOKEN"}
	})
	s.requireNext(r, a, func(j *events.JobSpec) {
		j.Requires.Labels = []string{"machine:gpu=a100", "machine:pool=prod", "pool=test"}
	})
	require.Equal(t, events.JobStateQueued, s.state(waits))
}

// A secret is released to the jobs in its scope as the log says, whatever the queue let through.
func TestSecretIsReleasedInItsScope(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica(func(c *dispatch.Config) {
		c.Reveal = func(context.Context, events.ID, []string) (map[string]string, error) {
			return map[string]string{"NPM_TOKEN": "of prod"}, nil
		}
	})
	_, err := r.log.Append(t.Context(), &events.Commit{
		Workspace: s.ws, Envelope: systemMeta(s.ws).Envelope, At: s.clock.now(), Writes: []events.Write{{Stream: events.FarmSecretStream,
			Events: []events.Event{events.FarmSecretSet{Name: "NPM_TOKEN", Value: newID()},
				events.FarmSecretScoped{Name: "NPM_TOKEN", Scope: events.SecretScope{Labels: []string{"pool=prod"}}}}}},
	})
	require.NoError(t, err)
	s.change(`update farm_secrets set scope = '{}' where workspace_id = $1`)
	a := dial(t, r, s.ws, s.enrol(r, "builder", 1, 0, "pool=prod"))
	a.greet()
	outside := s.submit(r, func(j *events.JobSpec) { j.Secrets = []string{"NPM_TOKEN"} })
	s.waitForState(events.JobStateCancelled, outside)
	require.Equal(t, "the scope of the secret NPM_TOKEN does not include this job", s.cancelReason(outside))
	inside := s.submit(r, func(j *events.JobSpec) { j.Requires.Labels, j.Secrets = []string{"pool=prod"}, []string{"NPM_TOKEN"} })
	got, _, assign := a.assigned()
	require.Equal(t, inside, got)
	require.Equal(t, "of prod", assign.Secrets["NPM_TOKEN"])
}
