package farm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// A log is sealed once its epoch is over, and compared with what the runner said of it in the log of the workspace.
func TestJobLogIsSealed(t *testing.T) {
	seal := func(l StoredLog) func(*Job) ([]events.Event, error) {
		return func(j *Job) ([]events.Event, error) { return j.SealLog(l) }
	}
	of := func(epoch int) func(*Job) ([]events.Event, error) { return seal(StoredLog{Epoch: epoch}) }
	sealed := func(integrity string, truncated bool) []events.Event {
		return []events.Event{events.JobLogSealed{Epoch: 1, Bytes: 4, Chunks: 2, SHA256: "aa", Truncated: truncated, Integrity: integrity}}
	}
	stored := StoredLog{Epoch: 1, Bytes: 4, Chunks: 2, SHA256: "aa", CutKnown: true}
	cut, unknown := stored, stored
	cut.Cut, unknown.CutKnown = true, false
	sent := func(bytes int64, sum string) []events.Event {
		return append(runningJob[:4:4], events.JobFinished{
			Epoch: 1, Seq: 9, Outcome: events.JobStateSucceeded, Log: events.JobLogSummary{Bytes: bytes, SHA256: sum},
		})
	}
	report := &events.JobAttemptReport{Log: events.JobLogSummary{Bytes: 4, SHA256: "aa"}}
	requeued := append(runningJob[:4:4], events.JobRequeued{Epoch: 1, Reason: "infra", Report: report},
		events.JobLeased{Epoch: 2, Attempt: 2, Runner: machineB}, events.JobFinished{Epoch: 2, Log: events.JobLogSummary{SHA256: "cc"}})
	lost := append(runningJob[:4:4], events.JobLost{Epoch: 1, Reason: "infra", Report: report})
	shortened := append(runningJob[:4:4], events.JobFinished{Epoch: 1, Outcome: events.JobStateSucceeded,
		Log: events.JobLogSummary{Bytes: 4, SHA256: "aa", Truncated: true}})
	check(t, []spec[Job]{
		{name: "as it was sent", given: sent(4, "aa"), when: seal(stored), then: sealed("verified", false)},
		{name: "as an attempt sent it", given: requeued, when: seal(unknown), then: sealed("verified", false)},
		{name: "as the last attempt sent it", given: lost, when: seal(stored), then: sealed("verified", false)},
		{name: "shortened by its runner", given: shortened, when: seal(stored), then: sealed("verified", true)},
		{name: "another sum", given: sent(4, "bb"), when: seal(stored), then: sealed("mismatch", false)},
		{name: "another sum, and cut", given: sent(4, "bb"), when: seal(cut), then: sealed("mismatch", true)},
		{name: "more was sent", given: sent(5, "bb"), when: seal(stored), then: sealed("mismatch", false)},
		{name: "more was sent, and cut", given: sent(5, "bb"), when: seal(cut), then: sealed("incomplete", true)},
		{name: "more was sent, and maybe cut", given: sent(5, "bb"), when: seal(unknown), then: sealed("incomplete", true)},
		{name: "no sum", given: sent(4, ""), when: seal(stored), then: sealed("incomplete", false)},
		{name: "nothing was reported", given: secondLease, when: seal(stored), then: sealed("incomplete", false)},
		{name: "twice", given: append(sent(4, "aa"), sealed("verified", false)...), when: seal(stored)},
		{name: "while it runs", given: runningJob, when: of(1), err: ErrJobNotFinished},
		{name: "of no epoch", given: doneJob, when: of(0), err: ErrJobNotFinished},
		{name: "of one to come", given: doneJob, when: of(2), err: ErrJobNotFinished},
	})
}

// The logs of all epochs that are over stay open until they are sealed.
func TestOpenLogs(t *testing.T) {
	for name, c := range map[string]struct {
		given []events.Event
		want  []int
	}{
		"no job":       {nil, nil},
		"queued":       {queuedJob, nil},
		"running":      {runningJob, nil},
		"over":         {doneJob, []int{1}},
		"again leased": {secondLease, []int{1}},
		"sealed":       {append(doneJob[:5:5], events.JobLogSealed{Epoch: 1}), nil},
		"lost, and the first is sealed": {append(secondLease[:7:7], events.JobLogSealed{Epoch: 1}, events.JobLost{Epoch: 2}),
			[]int{2}},
	} {
		var j Job
		for _, e := range c.given {
			j.Apply(e, events.Actor{})
		}
		require.Equal(t, c.want, j.OpenLogs(), name)
	}
}
