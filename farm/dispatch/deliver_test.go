package dispatch_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	rules "svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/farm/dispatch"
	"svc/farm/jobinput"
	"svc/farm/secrets"
	"svc/farm/wire"
	"svc/projections/farmviews"
)

// revealing gives each secret of a job a value of that many characters, each of which takes six
// bytes in JSON.
func revealing(bytes int) func(*dispatch.Config) {
	value := strings.Repeat("\x01", bytes)
	return func(c *dispatch.Config) {
		c.Reveal = func(_ context.Context, _ events.ID, names []string) (map[string]string, error) {
			values := map[string]string{}
			for _, name := range names {
				values[name] = value
			}
			return values, nil
		}
	}
}

// naming makes a job name n secrets.
func naming(n int) func(*events.JobSpec) {
	return func(s *events.JobSpec) {
		for i := range n {
			s.Secrets = append(s.Secrets, "SECRET_"+strconv.Itoa(i))
		}
	}
}

// The job is cancelled, and its runner continues with others.
func TestTooLargeAssignmentCancelsJob(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica(revealing(32 << 10))
	a := dial(t, r, s.ws, s.enrol(r, "builder", 1, 0))
	a.greet()
	large := s.submit(r, naming(50))
	s.waitForState(events.JobStateCancelled, large)
	require.Equal(t, "its secrets and its input are too large together", s.cancelReason(large))
	job := s.submit(r, naming(1))
	got, _, assign := a.assigned()
	require.Equal(t, job, got, "by the same connection")
	require.Len(t, assign.Secrets["SECRET_0"], 32<<10)
}

// A job is delivered with the input that the log names, and cancelled if somebody has changed or
// removed it.
func TestInputIsDelivered(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	a := dial(t, r, s.ws, s.enrol(r, "builder", 1, 0))
	a.greet()
	in := jobinput.Inputs{DB: s.db, Now: s.clock.now}
	submit := func(stored, named string) events.ID {
		job := newID()
		if stored != "" {
			_, err := in.Put(t.Context(), s.ws, job, []byte(stored))
			require.NoError(t, err)
		}
		spec := events.JobSpec{
			Name: "implement", Steps: []events.JobStep{{Name: "work", Run: "true"}}, Sandbox: events.JobSandbox{Kind: "none", Network: "host"},
			Timeouts: events.JobTimeouts{QueueSeconds: 60, RunSeconds: 60, IdleSeconds: 7}, Collect: true, InputSHA256: jobinput.Sum([]byte(named)),
		}
		_, err := r.SubmitJob(t.Context(), commands.SubmitJob{Meta: systemMeta(s.ws), Job: job, Spec: spec})
		require.NoError(t, err)
		return job
	}
	for name, job := range map[string]events.ID{"changed": submit("two", "one"), "missing": submit("", "one")} {
		s.waitForState(events.JobStateCancelled, job)
		require.Equal(t, "its input is missing, or was changed", s.cancelReason(job), name)
	}
	large := strings.Repeat("x", jobinput.MaxBytes)
	job := submit(large, large)
	got, _, assign := a.assigned()
	require.Equal(t, job, got)
	require.Equal(t, large, string(assign.Input))
	require.True(t, assign.Collect)
	require.Equal(t, 7, assign.IdleSeconds)
}

// What the first runner has checked out is what later attempts and retries of a job by ref build, whatever they report.
func TestLaterAttemptsBuildTheSameCommit(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	a := dial(t, r, s.ws, s.enrol(r, "builder", 1, 0))
	a.greet()
	person := commands.Meta{Workspace: s.ws, Envelope: events.Envelope{Actor: events.Actor{Type: events.ByUser, ID: newID(), Name: "ann"}}}
	_, err := r.CreateWorkspace(t.Context(), commands.CreateWorkspace{
		Meta: person, Member: newID(), Email: "ann@acme.example", Name: "Acme", Slug: "acme",
	})
	require.NoError(t, err)
	commit := strings.Repeat("9f2c41d0", 5)
	job := s.submitAs(r, person, func(j *events.JobSpec) {
		j.Repo = &events.JobRepo{ID: newID(), Name: "acme/web", Ref: "refs/heads/main"}
	})
	attempt := func(reported string, end wire.Event) (id events.ID, was wire.Assign) {
		id, epoch, was := a.assigned()
		a.send(wire.Accept{}, id, epoch, 0)
		a.send(wire.Event{Kind: wire.EventStarted}, id, epoch, 1)
		a.send(wire.Event{Kind: wire.EventCheckedOut, Commit: reported}, id, epoch, 2)
		end.Kind = wire.EventFinished
		a.send(end, id, epoch, 3)
		a.acked(3)
		return id, was
	}
	_, first := attempt(commit, wire.Event{Outcome: "infra"})
	require.Empty(t, first.Source.Commit+first.Env["SVC_COMMIT"])
	other := strings.Repeat("1", 40)
	_, second := attempt(other, wire.Event{Outcome: "failed"})
	r.Views.RunRepo = func(_ context.Context, _, repo events.ID, _ commands.IssueOf) (events.Repo, bool, error) {
		return events.Repo{ID: repo, Name: "acme/web"}, true, nil
	}
	_, err = r.RetryJob(t.Context(), commands.RetryJob{Meta: person, Job: job, New: newID()})
	require.NoError(t, err)
	retried, third := attempt(other, wire.Event{Outcome: "failed"})
	require.NotEqual(t, job, retried)
	for _, later := range []wire.Assign{second, third} {
		require.Equal(t, "refs/heads/main "+commit, later.Source.Ref+" "+later.Source.Commit)
		require.Equal(t, commit, later.Env["SVC_COMMIT"])
	}
	require.Equal(t, []string{
		"submitted", "leased", "accepted", "started", "checked_out", "requeued", "leased", "accepted", "started", "finished",
	}, s.kinds(job))
	row, _, err := farmviews.Jobs{DB: s.db}.Get(t.Context(), s.ws, job)
	require.NoError(t, err)
	require.Equal(t, commit, row.Commit)
}

// Inputs are removed for their age, but not while their job may wait.
func TestOldInputsAreRemoved(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica(func(c *dispatch.Config) { c.ArtifactRetention = 24 * time.Hour })
	in, job := jobinput.Inputs{DB: s.db, Now: s.clock.now}, newID()
	sum, err := in.Put(t.Context(), s.ws, job, []byte("one"))
	require.NoError(t, err)
	s.clock.advance(9 * 24 * time.Hour)
	r.SweepOnce(t.Context())
	_, err = in.Read(t.Context(), s.ws, job, sum)
	require.NoError(t, err)
	s.clock.advance(2 * 24 * time.Hour)
	r.SweepOnce(t.Context())
	_, err = in.Read(t.Context(), s.ws, job, sum)
	require.ErrorIs(t, err, jobinput.ErrMissing)
}

// A runner that reconnects while a job is leased to it is told of the job, whatever its hello
// found.
func TestJobLeasedDuringReconnectIsDelivered(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	runner := s.enrol(r, "builder", 1, 0)
	first := dial(t, r, s.ws, runner)
	first.greet()
	leasing := s.hold("job_leases", "share mode") // the leasing process writes there
	job := s.submit(r)
	leasing.awaitWaiting()
	second := dial(t, r, s.ws, runner)
	second.greet()
	leasing.release()
	got, _, _ := second.assigned()
	require.Equal(t, job, got)
}

// A runner whose hello lists an ended epoch of a job is told of the next epoch if it did not receive it.
func TestNextEpochIsDeliveredBesideFormer(t *testing.T) {
	t.Parallel()
	j := newRunning(t, func(c *dispatch.Config) { c.RefreshEvery = time.Hour })
	former := wire.Held{Job: j.job.String(), Epoch: j.epoch, Sent: 2}
	j.a.cut()
	j.clock.advance(91 * time.Second)
	j.r.SweepOnce(t.Context()) // the lease expires
	for range 2 {
		a := dial(t, j.r, j.ws, j.runner)
		require.Equal(t, wire.StopJob, a.greet(former).Held[0].Verdict)
		job, epoch, _ := a.assigned()
		require.Equal(t, j.job, job)
		require.Equal(t, j.epoch+1, epoch)
		a.cut()
	}
}

// A process may lease jobs to a runner that has reconnected to another one, until it notices.
func TestJobsLeasedElsewhereAreDeliveredOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica(func(c *dispatch.Config) { c.RefreshEvery = 100 * time.Millisecond })
	const jobs = 4
	runner := s.enrol(r, "builder", jobs, 0)
	a := dial(t, r, s.ws, runner)
	h := hello
	h.Capacity = jobs
	a.send(h, events.ID{}, 0, 0)
	a.next(wire.TypeWelcome)
	a.send(wire.Heartbeat{Free: 0}, events.ID{}, 0, 0) // so that this process leases nothing
	a.next(wire.TypeHeartbeatAck)
	for range jobs {
		job := s.submit(r)
		_, err := r.LeaseJob(t.Context(), commands.LeaseJob{Meta: systemMeta(s.ws), Job: job, Runner: runner})
		require.NoError(t, err)
		got, _, _ := a.assigned()
		require.Equal(t, job, got)
	}
}

// A runner takes the first message for the welcome.
func TestNothingIsAssignedBeforeTheWelcome(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	runner := s.enrol(r, "builder", 1, 0)
	dial(t, r, s.ws, runner).greet()
	leasing := s.hold("job_leases", "share mode") // the leasing process writes there
	job := s.submit(r)
	leasing.awaitWaiting()
	greeting := s.hold("runners", "access exclusive mode") // the hello reads there once the connection is the current one
	second := dial(t, r, s.ws, runner)
	second.send(hello, events.ID{}, 0, 0)
	greeting.awaitWaiting()
	leasing.release()
	s.waitForState(events.JobStateLeased, job)
	greeting.release()
	require.Equal(t, wire.TypeWelcome, (<-second.got).Type)
	got, _, _ := second.assigned()
	require.Equal(t, job, got)
}

// A hold locks a table until it is released.
type hold struct {
	s     *site
	tx    pgx.Tx
	table string
}

func (s *site) hold(table, mode string) *hold {
	s.t.Helper()
	tx, err := s.db.Begin(context.Background())
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	_, err = tx.Exec(context.Background(), "lock table "+table+" in "+mode)
	require.NoError(s.t, err)
	return &hold{s, tx, table}
}

// awaitWaiting waits until somebody waits for the table.
func (h *hold) awaitWaiting() {
	h.s.t.Helper()
	require.Eventually(h.s.t, func() bool {
		var waits bool
		require.NoError(h.s.t, h.s.db.QueryRow(context.Background(), `
			select exists (select from pg_locks where not granted and relation = $1::regclass
				and database = (select oid from pg_database where datname = current_database()))`, h.table).Scan(&waits))
		return waits
	}, waitLimit, 2*time.Millisecond)
}

func (h *hold) release() { require.NoError(h.s.t, h.tx.Rollback(context.Background())) }

// A job whose secrets cannot be decrypted affects no other job.
func TestUnreadableSecretsAffectOnlyTheirJob(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var restored atomic.Bool
	r := s.replica(func(c *dispatch.Config) {
		c.Reveal = func(_ context.Context, _ events.ID, names []string) (map[string]string, error) {
			switch {
			case names[0] == "SPOILT":
				return nil, &secrets.UnreadableError{Name: names[0], Err: errors.New("not what was sealed")}
			case !restored.Load():
				return nil, errors.New("sealed under another key")
			}
			return map[string]string{names[0]: "a value"}, nil
		}
	})
	names := func(name string) func(*events.JobSpec) {
		return func(s *events.JobSpec) { s.Secrets = []string{name} }
	}
	runner := s.enrol(r, "builder", 2, 0)
	a := dial(t, r, s.ws, runner)
	a.greet()
	unreadable := s.submit(r, names("SPOILT"))
	s.waitForState(events.JobStateCancelled, unreadable)
	require.Equal(t, "the secret SPOILT cannot be opened: set it again", s.cancelReason(unreadable))
	waits := s.submit(r, names("LOCKED"))
	require.Eventually(t, func() bool { return count(s.kinds(waits), "requeued") > 0 }, waitLimit, 2*time.Millisecond)
	other := s.submit(r)
	got, _, _ := a.assigned()
	require.Equal(t, other, got, "by the same connection")

	s.clock.advance(5 * time.Minute)
	require.Eventually(t, func() bool { return s.state(waits) == events.JobStateQueued }, waitLimit, 2*time.Millisecond)
	restored.Store(true)
	s.clock.advance(5 * time.Minute)
	b := dial(t, r, s.ws, runner)
	b.greet(wire.Held{Job: other.String(), Epoch: 1})
	got, _, assign := b.assigned()
	require.Equal(t, waits, got, "%v", s.kinds(waits))
	require.Equal(t, map[string]string{"LOCKED": "a value"}, assign.Secrets)
}

func (s *site) cancelReason(job events.ID) (reason string) {
	s.t.Helper()
	require.NoError(s.t, s.db.QueryRow(s.t.Context(), `
		select data->>'reason' from events where workspace_id = $1 and stream = $2 and kind = 'job.cancelled'`, s.ws, job).Scan(&reason))
	return reason
}

// The largest job that may be submitted fits into one frame.
func TestLargestAssignmentFits(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica(revealing(rules.MaxSecretBytes / 16))
	a := dial(t, r, s.ws, s.enrol(r, "builder", 1, 0))
	a.greet()
	const body = 256 << 10 // of a request that submits a job
	s.submit(r, naming(16), func(s *events.JobSpec) {
		s.Steps = nil
		for range 4 {
			s.Steps = append(s.Steps, events.JobStep{Name: "script", Run: strings.Repeat("<", body/4)})
		}
	})
	_, _, assign := a.assigned()
	require.Len(t, assign.Secrets, 16)
	require.Len(t, assign.Steps, 4)
}

// A runner with many slots is told of one job after the other, as fast as it reads.
func TestAssignmentsWaitForRoomInOutbox(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var revealed atomic.Int64 // when the last job was sent
	r := s.replica(revealing(rules.MaxSecretBytes/16), func(c *dispatch.Config) {
		c.RefreshEvery = time.Hour // it is the writer that wakes the farm
		reveal := c.Reveal
		c.Reveal = func(ctx context.Context, workspace events.ID, names []string) (map[string]string, error) {
			revealed.Store(time.Now().UnixMilli())
			return reveal(ctx, workspace, names)
		}
	})
	const jobs = 10 // 3 MiB each
	a := dialUnread(t, r, s.ws, s.enrol(r, "builder", jobs, 0))
	want := map[events.ID]bool{}
	for range jobs {
		want[s.submit(r, naming(16))] = true
	}
	h := hello
	h.Capacity = jobs
	a.send(h, events.ID{}, 0, 0)
	for job := range want {
		s.waitForState(events.JobStateLeased, job)
	}
	stalled := func() bool { return revealed.Load() > 0 && time.Now().UnixMilli()-revealed.Load() > 500 }
	require.Eventually(t, stalled, waitLimit, 10*time.Millisecond, "all that there is room for is on its way")
	go a.read()
	got := map[events.ID]bool{}
	for range jobs {
		job, epoch, _ := a.assigned()
		require.Equal(t, 1, epoch)
		got[job] = true
	}
	require.Equal(t, want, got)
	a.send(wire.Heartbeat{Seq: 1}, events.ID{}, 0, 0)
	a.next(wire.TypeHeartbeatAck)
}

// A job whose repository can never be cloned is cancelled. One that cannot be cloned at present waits.
func TestUncloneableRepoAffectsOnlyItsJobs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ended, away, web := newID(), newID(), newID()
	r := s.replica(func(c *dispatch.Config) {
		c.CloneURL = func(_ context.Context, workspace, repo events.ID, name string) (string, error) {
			switch {
			case repo == ended:
				return "", &dispatch.UnclonableError{Reason: "its repository is not connected any more"}
			case repo == away || workspace != s.ws:
				return "", errors.New("the database is away")
			}
			return "https://x-access-token:ghp_read@code.example/" + name + ".git", nil
		}
	})
	of := func(repo events.ID) func(*events.JobSpec) {
		return func(j *events.JobSpec) { j.Repo = &events.JobRepo{ID: repo, Name: "acme/web", Ref: "refs/heads/main"} }
	}
	a := dial(t, r, s.ws, s.enrol(r, "builder", 2, 0))
	a.greet()
	job := s.submit(r, of(ended))
	s.waitForState(events.JobStateCancelled, job)
	require.Equal(t, "its repository is not connected any more", s.cancelReason(job))
	waits := s.submit(r, of(away))
	require.Eventually(t, func() bool { return count(s.kinds(waits), "requeued") > 0 }, waitLimit, 2*time.Millisecond)
	job = s.submit(r, of(web))
	got, _, assign := a.assigned()
	require.Equal(t, job, got)
	require.Equal(t, "https://x-access-token:ghp_read@code.example/acme/web.git", assign.Source.URL)
}
