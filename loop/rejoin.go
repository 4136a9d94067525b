package loop

import (
	"svc/aggregates"
	"svc/events"
)

// rejoin sets right what earlier builds let a run do: it goes back to the first stage whose work its head lacks, and leaves
// a stage that is over.
func rejoin(p *aggregates.Progress, in Surroundings) (Move, bool) {
	at, to := p.Stage.Index(), p.Stage
	switch {
	case at > events.StagePlan.Index() && p.Plan == nil:
		to = events.StagePlan
	case at > events.StageImplementing.Index() && p.Head == "":
		to = events.StageImplementing
	case at > events.StageBuildFarm.Index() && p.Candidate == nil && !p.Built():
		to = events.StageBuildFarm
	case at > events.StageSelfReview.Index() && !p.Reviewed():
		to = events.StageSelfReview
	case at < 1 || !p.StageOver:
		return Move{}, false
	case p.StageSucceeded && p.Stage != events.StageMerge:
		to = events.StageAt(at + 1)
	}
	const reason = "An earlier version of the service left work undone."
	if to == events.StageImplementing && p.Round() >= rounds(p, in) {
		return fail(p, events.FailRounds, reason), true
	}
	return Move{Record: reenter(p, to, reason)}, true
}

// reenter leaves the present stage for the same one or an earlier one, and the next one if it has succeeded.
func reenter(p *aggregates.Progress, to events.Stage, reason string) (facts []events.Event) {
	if !p.StageOver {
		facts = append(facts, events.RunStageFailed{Stage: p.Stage, Attempt: p.Attempts[p.Stage], Reason: reason})
	}
	return append(facts, events.RunStageEntered{Stage: to, Attempt: p.Attempts[to] + 1})
}
