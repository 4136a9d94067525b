package loop

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// A required job that fails twice in the same way ends the run.
func TestSameFailure(t *testing.T) {
	fails := func(n int, failure string) []events.Event {
		return one(events.RunJobRequested{Job: id(n), Name: "test", Head: fmt.Sprint("head", n), Purpose: events.JobRequired, Attempt: 1},
			events.RunJobSettled{Job: id(n), Status: "failed", Failure: failure})
	}
	round := func(n int, failure string) []events.Event {
		return then(one(enters(events.StageImplementing, n), events.RunCommitsPushed{Head: fmt.Sprint("head", n), Tree: fmt.Sprint("tree", n),
			Base: base, By: "loop"}, events.RunGuardrailsChecked{Head: fmt.Sprint("head", n), Policy: policy, Status: "clean"},
			enters(events.StageBuildFarm, n)), fails(n, failure))
	}
	start := then(planned, one(events.RunBaseRead{Branch: "main", Commit: base, Policy: policy, RequiredJobs: []string{"test"}},
		events.RunPlanRecorded{Summary: "Do it."}, events.RunBudgetSet{Rounds: 9}))
	for name, c := range map[string]struct {
		given []events.Event
		same  bool
	}{
		"twice in a row":       {then(start, round(1, "a"), round(2, "a")), true},
		"once":                 {then(start, round(1, "a")), false},
		"in another way":       {then(start, round(1, "a"), round(2, "b")), false},
		"not in a row":         {then(start, round(1, "a"), round(2, "b"), round(3, "a")), false},
		"without a word":       {then(start, round(1, ""), round(2, "")), false},
		"twice in one round":   {then(start, round(1, "a"), fails(7, "a")), false},
		"after the first ones": {then(start, round(1, "a"), round(2, "b"), round(3, "b")), true},
	} {
		t.Run(name, func(t *testing.T) {
			m := Next(progress(c.given...), connected(events.ImplementerCommand))
			require.NotEmpty(t, m.Record)
			last, failed := m.Record[len(m.Record)-1].(events.RunFailed)
			require.Equal(t, c.same, failed, "%+v", m)
			if c.same {
				require.Equal(t, events.FailSame, last.Code)
				require.Contains(t, last.Reason, "ends in the same way as in the round before")
			}
		})
	}
}

// A change that an earlier round has made is not built again.
func TestDuplicateTree(t *testing.T) {
	push := func(n int, tree, by string) []events.Event {
		return one(enters(events.StageImplementing, n), events.RunCommitsPushed{Head: fmt.Sprint("head", n), Tree: tree, Base: base, By: by})
	}
	start := then(planned, one(events.RunPlanRecorded{Summary: "Do it."}, events.RunBudgetSet{Rounds: 9}))
	rebased := one(events.RunBaseRead{Branch: "main", Commit: other, Policy: policy})
	for name, c := range map[string]struct {
		given []events.Event
		round string
	}{
		"of the first round":  {then(start, push(1, "A", "loop"), push(2, "B", "loop"), push(3, "A", "loop")), "round 1"},
		"of none":             {then(start, push(1, "A", "loop"), push(2, "B", "loop"), push(3, "C", "loop")), ""},
		"by a person":         {then(start, push(1, "A", "loop"), push(2, "B", "loop"), push(3, "A", "person")), ""},
		"on another base":     {then(start, push(1, "A", "loop"), rebased, push(2, "A", "loop")), ""},
		"of an earlier build": {then(start, push(1, "", "loop"), push(2, "", "loop")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := Next(progress(c.given...), connected(events.ImplementerCommand))
			if c.round == "" {
				require.NotNil(t, m.Do, "%+v", m)
				return
			}
			require.NotEmpty(t, m.Record)
			last, _ := m.Record[len(m.Record)-1].(events.RunFailed)
			require.Equal(t, events.FailNoChange, last.Code)
			require.Contains(t, last.Reason, c.round)
		})
	}
}
