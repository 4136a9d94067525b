package farm

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"svc/events"
)

// A jobMachine makes runners, people and the clock do random things to a job.
type jobMachine struct {
	stream  []events.Event
	state   *Job
	at      time.Time
	runners map[int]events.ID // by epoch
	seq     int64
	ends    int // how often it has ended
	ended   events.JobState
	slot    bool // it holds a slot

	resolved bool // its commit is known
}

// longestGrace is the longest grace period of a cancellation, in seconds. The job's own is
// 10.
const longestGrace = 20

// TestJobMachine tries to have two runners in an epoch, to end a job twice or never, to
// lease it more often than allowed, to build two commits, or to keep a slot that is not needed.
func TestJobMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &jobMachine{state: new(Job), at: noon, runners: map[int]events.ID{}}
		submitted := jobOf(func(s *events.JobSpec) {
			s.Repo = &events.JobRepo{Ref: "refs/heads/main"}
			s.Retry.MaxAttempts, s.Concurrency = 1+rapid.IntRange(0, 2).Draw(t, "attempts"), &events.JobConcurrency{Key: "deploy"}
		})
		m.take(t, []events.Event{submitted})
		t.Repeat(map[string]func(*rapid.T){
			"wait": func(t *rapid.T) {
				m.at = m.at.Add(time.Duration(rapid.IntRange(1, 200).Draw(t, "seconds")) * time.Second)
			},
			"lease": func(t *rapid.T) {
				m.ask(t, func(j *Job) ([]events.Event, error) { return j.Lease(m.runner(t), "r", 1, m.at) })
			},
			"accept": func(t *rapid.T) {
				m.ask(t, func(j *Job) ([]events.Event, error) { return j.Accept(m.runner(t), m.epoch(t), m.at) })
			},
			"decline": func(t *rapid.T) {
				m.ask(t, func(j *Job) ([]events.Event, error) { return j.Decline(m.runner(t), m.epoch(t), "busy", m.at) })
			},
			"report": m.report,
			"lose": func(t *rapid.T) {
				m.ask(t, func(j *Job) ([]events.Event, error) { return j.LoseLease(m.epoch(t), m.at) })
			},
			"cancel": func(t *rapid.T) {
				grace := rapid.Ptr(rapid.IntRange(0, longestGrace), true).Draw(t, "grace")
				m.ask(t, func(j *Job) ([]events.Event, error) { return j.Cancel("enough", grace, m.at) })
			},
			"clock": func(t *rapid.T) {
				m.ask(t, func(j *Job) ([]events.Event, error) { return j.TimeOut(m.at, rapid.Bool().Draw(t, "silent")) })
			},
			"": m.checkInvariants,
		})
		m.cancelEnds(t)
	})
}

func (m *jobMachine) runner(t *rapid.T) events.ID { return id(rapid.ByteRange(1, 3).Draw(t, "runner")) }

func (m *jobMachine) epoch(t *rapid.T) int {
	return rapid.IntRange(max(0, m.state.epoch-1), m.state.epoch+1).Draw(t, "epoch")
}

func (m *jobMachine) report(t *rapid.T) {
	step, outcome := rapid.IntRange(-1, 2).Draw(t, "step"),
		rapid.SampledFrom([]string{"succeeded", "failed", "cancelled", "timed_out", "infra", "exploded"})
	e := rapid.SampledFrom([]events.Event{
		events.JobStarted{}, events.JobCheckedOut{Commit: fmt.Sprintf("%040d", m.seq)}, events.JobStepStarted{Step: step, At: m.at},
		events.JobStepFinished{Step: step, Outcome: outcome.Draw(t, "step's"), At: m.at},
		events.JobFinished{Reported: outcome.Draw(t, "outcome"), Artifacts: 1}, nil,
	}).Draw(t, "event")
	m.seq += int64(rapid.IntRange(0, 1).Draw(t, "next"))
	m.ask(t, func(j *Job) ([]events.Event, error) {
		return j.Report(m.runner(t), JobReport{Epoch: m.epoch(t), Seq: m.seq, Event: e}, m.at)
	})
}

func (m *jobMachine) ask(t *rapid.T, decide func(*Job) ([]events.Event, error)) {
	list, err := decide(m.state)
	if err != nil {
		require.Empty(t, list, "a refusal changes nothing")
	}
	require.Equal(t, folded[Job](m.stream), m.state, "to decide must change nothing")
	m.take(t, list)
}

func (m *jobMachine) take(t *rapid.T, list []events.Event) {
	if m.ended != "" {
		require.Empty(t, list, "what has ended stays as it is")
	}
	_, _, held := m.state.Slot()
	require.Equal(t, m.slot, held)
	if held && events.LeavesRunner(list) {
		m.slot = false
	}
	started := m.state.started
	for _, e := range list {
		m.stream = append(m.stream, e)
		m.state.Apply(e, events.Actor{ID: ann})
		switch e := e.(type) {
		case events.JobLeased:
			require.NotContains(t, m.runners, e.Epoch, "an epoch has one runner")
			m.runners[e.Epoch], m.seq, m.slot = e.Runner, 0, true
		case events.JobCheckedOut:
			require.False(t, m.resolved, "a job builds one commit")
			m.resolved = true
		case events.JobFinished, events.JobCancelled, events.JobLost, events.JobExpired:
			if f, ok := e.(events.JobFinished); ok && f.Outcome == events.JobStateSucceeded {
				require.True(t, started, "a job starts before it succeeds")
			}
			m.ends++
			m.ended = m.state.State()
		}
	}
}

// checkInvariants checks what is true after every action.
func (m *jobMachine) checkInvariants(t *rapid.T) {
	require.LessOrEqual(t, m.ends, 1, "a job ends once")
	require.Equal(t, m.ended != "", m.state.State().Final())
	require.LessOrEqual(t, m.state.attempt, m.state.spec.retry.MaxAttempts)
	require.GreaterOrEqual(t, m.state.attempt, 0)
	_, _, held := m.state.Slot()
	require.Equal(t, m.state.State().Held(), held)
	require.Equal(t, m.slot, held, "a slot is held as long as a runner has the job")
}

// cancelEnds checks that a cancellation ends the job within the longest grace period that
// was asked for plus 30 seconds. One without a grace period shortens no earlier one.
func (m *jobMachine) cancelEnds(t *rapid.T) {
	m.ask(t, func(j *Job) ([]events.Event, error) { return j.Cancel("enough", nil, m.at) })
	m.at = m.at.Add(longestGrace*time.Second + ForceAfter)
	m.ask(t, func(j *Job) ([]events.Event, error) { return j.TimeOut(m.at, false) })
	require.True(t, m.state.State().Final(), "%s", m.state.State())
	require.Equal(t, 1, m.ends)
}
