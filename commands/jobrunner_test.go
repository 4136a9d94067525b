package commands_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/farm/certificate"
	"svc/fault"
)

// connectRunner enrols and connects a runner that takes that many jobs, any number if it is 0.
func (m *team) connectRunner(t *testing.T, jobs int) events.ID {
	t.Helper()
	mint := m.mintCommand()
	mint.Jobs = jobs
	_, err := m.MintEnrollment(t.Context(), mint)
	require.NoError(t, err)
	r, err := m.RegisterRunner(t.Context(), commands.RegisterRunner{
		Token: mint.Token, Authority: mint.Authority, Runner: newID(), Machine: farm.Machine{Name: "builder", Hello: hello},
		Certificate: certificate.NewLeaf(mint.Authority.Authority, events.KeyHash{}, epoch),
	})
	require.NoError(t, err)
	_, err = m.ConnectRunner(t.Context(), commands.ConnectRunner{Meta: systems(m.id), Runner: r.Runner, Hello: hello})
	require.NoError(t, err)
	return r.Runner
}

func (m *team) lease(r replica, job, runner events.ID, slot int) error {
	_, err := r.LeaseJob(context.Background(), commands.LeaseJob{
		Meta: systems(m.id), Job: job, Runner: runner, Slot: slot,
	})
	return err
}

// A job is leased to one runner, and only to one that takes jobs, whichever replica leases
// it.
func TestLeaseJob(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	free, gone, drained := m.connectRunner(t, 0), m.connectRunner(t, 0), m.connectRunner(t, 0)
	revoked, spent := m.connectRunner(t, 0), m.connectRunner(t, 1)
	by := systems(m.id)
	_, err := m.DisconnectRunner(t.Context(), commands.DisconnectRunner{Meta: by, Runner: gone, Reason: events.OfflineDisconnected})
	require.NoError(t, err)
	_, err = m.DrainRunner(t.Context(), commands.DrainRunner{Meta: by, Runner: drained})
	require.NoError(t, err)
	_, err = m.RevokeRunner(t.Context(), commands.RevokeRunner{Meta: m.owner.in(m.id), Runner: revoked})
	require.NoError(t, err)
	require.NoError(t, m.lease(m.replica, m.submitJob(t), spent, 0))

	job := m.submitJob(t)
	before := m.head(t, m.id)
	for name, c := range map[string]struct {
		job, runner events.ID
		err         error
	}{
		"no job":                            {newID(), free, farm.ErrJobTaken},
		"no runner":                         {job, newID(), farm.ErrNoRunner},
		"one that is away":                  {job, gone, farm.ErrRunnerOffline},
		"one that is drained":               {job, drained, farm.ErrRunnerDraining},
		"one that is revoked":               {job, revoked, farm.ErrRunnerOver},
		"one that was enrolled for one job": {job, spent, farm.ErrRunnerSpent},
	} {
		require.ErrorIs(t, m.lease(m.other, c.job, c.runner, 0), c.err, name)
	}
	require.Empty(t, m.history(t, m.id, before+1))

	requireOne(t, race(func(i int) error { // two replicas at the same moment
		return m.lease([]replica{m.replica, m.other}[i], job, free, 0)
	}), farm.ErrJobTaken)
	require.Len(t, m.history(t, m.id, before+1), 1)
	require.ErrorIs(t, m.lease(m.replica, job, free, 0), farm.ErrJobTaken)
}

// A waiting job is cancelled instead of leased if its submitter could not submit it any more.
func TestJobIsNotLeasedWithoutRightOfSubmitter(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	runner, account, last := m.connectRunner(t, 0), m.serviceAccount(t, "ci-bot", events.SubmitJobs), m.connectRunner(t, 1)
	demoted, removed := newPerson("eve"), newPerson("fay")
	for _, p := range []*person{&demoted, &removed} {
		m.add(t, *p, events.Maintainer)
	}
	submit := func(by commands.Meta) events.ID {
		c := submitCommand(t, by)
		c.Token = account.token.Fingerprint()
		_, err := m.SubmitJob(t.Context(), c)
		require.NoError(t, err)
		return c.Job
	}
	waiting := map[string]events.ID{
		"removed": submit(removed.in(m.id)), "demoted": submit(demoted.in(m.id)), "account revoked": submit(account.in(m.id)),
	}
	kept := []events.ID{submit(m.maintainer.in(m.id)), submit(systems(m.id))}
	_, err := m.other.RemoveMember(t.Context(), commands.RemoveMember{Meta: m.owner.in(m.id), Member: removed.member})
	require.NoError(t, err)
	_, err = m.other.UpdateMember(t.Context(),
		commands.UpdateMember{Meta: m.owner.in(m.id), Member: demoted.member, Role: ptr(events.Viewer)})
	require.NoError(t, err)
	_, err = m.other.RevokeServiceAccount(t.Context(), revoke(m.owner, m.id, account.id))
	require.NoError(t, err)

	for name, job := range waiting {
		before := m.head(t, m.id)
		require.ErrorIs(t, m.lease(m.replica, job, last, 0), farm.ErrJobDropped, name)
		require.ErrorIs(t, m.lease(m.other, job, runner, 0), farm.ErrJobTaken, name)
		require.Equal(t, []events.Event{events.JobCancelled{Reason: commands.SubmitterNotAllowed}}, m.history(t, m.id, before+1), name)
	}
	require.NoError(t, m.lease(m.replica, kept[0], last, 0), "the jobs that were cancelled do not count")
	require.NoError(t, m.lease(m.replica, kept[1], runner, 0))
}

// A countingLog counts the attempts to append.
type countingLog struct {
	commands.Log
	appends, exclusive int
}

func (l *countingLog) Append(ctx context.Context, c *events.Commit) (events.Committed, error) {
	l.appends++
	return l.Log.Append(ctx, c)
}

func (l *countingLog) Exclusively(
	ctx context.Context, workspace events.ID, decide func(events.Streams) (*events.Commit, error),
) (events.Committed, error) {
	l.exclusive++
	return l.Log.Exclusively(ctx, workspace, decide)
}

// A lease that nobody competes with is stored at the first attempt, although it looks at the job and at
// its runner before it writes to them.
func TestLeaseDoesNotConflictWithItself(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	for name, jobs := range map[string]int{"a runner for any number of jobs": 0, "one for two jobs": 2} {
		runner := m.connectRunner(t, jobs)
		submit := submitCommand(t, m.maintainer.in(m.id))
		_, err := m.SubmitJob(t.Context(), submit)
		require.NoError(t, err)
		log := &countingLog{Log: m.log}
		require.NoError(t, m.lease(replica{Handler: commands.New(log, m.clock.now)}, submit.Job, runner, 0))
		require.Equal(t, []int{1, 0}, []int{log.appends, log.exclusive}, name)
	}
}

// A job holds its slot of a concurrency key until no runner has the job any more.
func TestConcurrencyKeyHasSlots(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	runner := m.connectRunner(t, 0)
	limited := func(s *events.JobSpec) { s.Concurrency = &events.JobConcurrency{Key: "deploy", Limit: 2} }
	first, second, third := m.submitJob(t, limited), m.submitJob(t, limited), m.submitJob(t, limited)
	for _, slot := range []int{0, 3} {
		require.ErrorContains(t, m.lease(m.replica, first, runner, slot), "of 2")
	}
	require.NoError(t, m.lease(m.replica, first, runner, 1))
	require.ErrorIs(t, m.lease(m.other, second, runner, 1), farm.ErrJobTaken)
	require.NoError(t, m.lease(m.other, second, runner, 2))
	for _, slot := range []int{1, 2} {
		require.ErrorIs(t, m.lease(m.replica, third, runner, slot), farm.ErrJobTaken)
	}
	for name, end := range map[string]func(events.ID) error{
		"it is declined": func(job events.ID) error {
			_, err := m.DeclineJob(t.Context(), commands.DeclineJob{Meta: systems(m.id), Job: job, Runner: runner, Epoch: 1, Reason: "busy"})
			return err
		},
		"its lease is lost": func(job events.ID) error {
			_, err := m.LoseLease(t.Context(), commands.LoseLease{Meta: systems(m.id), Job: job, Epoch: 1})
			return err
		},
		"it has ended": func(job events.ID) error {
			_, err := m.ReportJob(t.Context(), commands.ReportJob{Meta: systems(m.id), Job: job, Runner: runner, Report: farm.JobReport{
				Epoch: 1, Seq: 1, Event: events.JobFinished{Reported: "failed"},
			}})
			return err
		},
		"it is cancelled by force": func(job events.ID) error {
			_, err := m.CancelJob(t.Context(), commands.CancelJob{Meta: m.owner.in(m.id), Job: job})
			if err == nil {
				require.ErrorIs(t, m.lease(m.other, third, runner, 1), farm.ErrJobTaken, "it has not ended")
				_, err = m.TimeOutJob(t.Context(), commands.TimeOutJob{Meta: systems(m.id), Job: job, Silent: true})
			}
			return err
		},
	} {
		require.NoError(t, end(first), name)
		next := m.submitJob(t, limited)
		require.NoError(t, m.lease(m.other, next, runner, 1), name)
		first = next
	}
}

// If jobs with the same key have different limits, none of them runs beside more jobs than
// its own limit allows, even if they are leased at the same moment.
func TestDifferentLimitsOfConcurrencyKey(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	runner := m.connectRunner(t, 0)
	limited := func(n int) func(*events.JobSpec) {
		return func(s *events.JobSpec) { s.Concurrency = &events.JobConcurrency{Key: "deploy", Limit: n} }
	}
	limit1, limit3, alsoLimit3 := m.submitJob(t, limited(1)), m.submitJob(t, limited(3)), m.submitJob(t, limited(3))
	requireOne(t, race(func(i int) error {
		return m.lease([]replica{m.replica, m.other}[i], []events.ID{limit1, limit3}[i], runner, i+1)
	}), farm.ErrJobTaken)
	first, other, slot := limit1, limit3, 2
	if m.stateOf(t, limit3).Held() {
		first, other, slot = limit3, limit1, 1
		require.NoError(t, m.lease(m.other, alsoLimit3, runner, 1), "two of three")
		require.ErrorIs(t, m.lease(m.replica, limit1, runner, 1), farm.ErrJobTaken)
		_, err := m.LoseLease(t.Context(), commands.LoseLease{Meta: systems(m.id), Job: alsoLimit3, Epoch: 1})
		require.NoError(t, err)
	}
	require.ErrorIs(t, m.lease(m.replica, other, runner, slot), farm.ErrJobTaken)
	_, err := m.LoseLease(t.Context(), commands.LoseLease{Meta: systems(m.id), Job: first, Epoch: 1})
	require.NoError(t, err)
	require.NoError(t, m.lease(m.other, other, runner, 1))
}

// A runner's report counts if the runner has the job in that epoch, and it counts once.
func TestReportJob(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	runner, other := m.connectRunner(t, 0), m.connectRunner(t, 0)
	ctx, by := t.Context(), systems(m.id)
	for name, say := range map[string]func(r replica, job, runner events.ID, epoch int) error{
		"accept": func(r replica, job, runner events.ID, epoch int) error {
			_, err := r.AcceptJob(ctx, commands.AcceptJob{Meta: by, Job: job, Runner: runner, Epoch: epoch})
			return err
		},
		"decline": func(r replica, job, runner events.ID, epoch int) error {
			_, err := r.DeclineJob(ctx, commands.DeclineJob{Meta: by, Job: job, Runner: runner, Epoch: epoch, Reason: "busy"})
			return err
		},
		"report": func(r replica, job, runner events.ID, epoch int) error {
			started := farm.JobReport{Epoch: epoch, Seq: 1, Event: events.JobStarted{}}
			_, err := r.ReportJob(ctx, commands.ReportJob{Meta: by, Job: job, Runner: runner, Report: started})
			return err
		},
	} {
		job, queued := m.submitJob(t), m.submitJob(t)
		require.NoError(t, m.lease(m.replica, job, runner, 0))
		before := m.head(t, m.id)
		require.ErrorIs(t, say(m.other, job, other, 1), farm.ErrJobNotOwner, "%s: another runner", name)
		require.ErrorIs(t, say(m.other, job, runner, 2), farm.ErrJobNotOwner, "%s: another epoch", name)
		require.ErrorIs(t, say(m.other, queued, runner, 0), farm.ErrJobNotOwner, "%s: nobody has it", name)
		require.ErrorIs(t, say(m.other, newID(), runner, 1), farm.ErrJobNotOwner, "%s: no job", name)
		require.Empty(t, m.history(t, m.id, before+1), name)
		require.NoError(t, say(m.other, job, runner, 1), name)
		require.NotEmpty(t, m.history(t, m.id, before+1), name)
		before = m.head(t, m.id)
		if err := say(m.replica, job, runner, 1); err != nil { // a job that was declined is not the runner's any more
			require.Equal(t, "decline", name)
			require.ErrorIs(t, err, farm.ErrJobNotOwner)
		}
		require.Empty(t, m.history(t, m.id, before+1), "%s: again", name)
	}
}

// Each time limit is applied once it has passed, and not again.
func TestTimeLimitsOfAJob(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	runner := m.connectRunner(t, 0)
	ctx, by := t.Context(), systems(m.id)
	look := func(job events.ID) {
		t.Helper()
		_, err := m.other.TimeOutJob(ctx, commands.TimeOutJob{Meta: by, Job: job})
		require.NoError(t, err)
	}
	short := func(s *events.JobSpec) {
		s.Timeouts = events.JobTimeouts{QueueSeconds: 60, RunSeconds: 100, CancelGraceSeconds: 10}
	}
	waiting, running := m.submitJob(t, short), m.submitJob(t, short)
	require.NoError(t, m.lease(m.replica, running, runner, 0))
	_, err := m.AcceptJob(ctx, commands.AcceptJob{Meta: by, Job: running, Runner: runner, Epoch: 1})
	require.NoError(t, err)
	for _, c := range []struct {
		after time.Duration
		job   events.ID
		want  events.JobState
	}{
		{59 * time.Second, waiting, events.JobStateQueued},
		{time.Second, waiting, events.JobStateExpired},
		{0, waiting, events.JobStateExpired},
		{99 * time.Second, running, events.JobStateLeased},
		{time.Second, running, events.JobStateCancelling},
		{39 * time.Second, running, events.JobStateCancelling},
		{time.Second, running, events.JobStateTimedOut},
		{time.Hour, running, events.JobStateTimedOut},
	} {
		m.clock.move(c.after)
		look(c.job)
		require.Equal(t, c.want, m.stateOf(t, c.job), "%s later", c.after)
	}

	_, err = m.LoseLease(ctx, commands.LoseLease{Meta: by, Job: running, Epoch: 1})
	require.NoError(t, err)
	require.Equal(t, events.JobStateTimedOut, m.stateOf(t, running), "how it ended stays")
}

// The log of an epoch is sealed once, and not before the epoch has ended.
func TestSealJobLog(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	runner, job := m.connectRunner(t, 0), m.submitJob(t)
	require.NoError(t, m.lease(m.replica, job, runner, 0))
	stored := farm.StoredLog{Epoch: 1, Bytes: 4, Chunks: 1, SHA256: "aa"}
	seal := func(l farm.StoredLog) error {
		_, err := m.other.SealJobLog(t.Context(), commands.SealJobLog{Meta: systems(m.id), Job: job, Stored: l})
		return err
	}
	later := stored
	later.Epoch = 2
	before := m.head(t, m.id)
	require.ErrorIs(t, seal(stored), farm.ErrJobNotFinished)
	require.ErrorIs(t, seal(later), farm.ErrJobNotFinished)
	require.ErrorIs(t, seal(farm.StoredLog{}), farm.ErrJobNotFinished)
	require.Empty(t, m.history(t, m.id, before+1))
	_, err := m.LoseLease(t.Context(), commands.LoseLease{Meta: systems(m.id), Job: job, Epoch: 1})
	require.NoError(t, err)
	before = m.head(t, m.id)
	require.NoError(t, seal(stored))
	stored.Bytes = 5
	require.NoError(t, seal(stored))
	m.requireAdded(t, m.id, before, events.JobLogSealed{Epoch: 1, Bytes: 4, Chunks: 1, SHA256: "aa", Integrity: "incomplete"})
	require.NotNil(t, fault.As(seal(later)))
}
