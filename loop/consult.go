package loop

import (
	"context"
	"fmt"
	"slices"

	"svc/aggregates"
	"svc/engine/client"
	"svc/events"
	"svc/loop/outcome"
)

// stepConsult reads what the implementer says about a stage. The engine has no part in it.
const stepConsult client.Kind = "consult"

// consult has the implementer do the work of a stage, if the settings ask for that. ok is false if they do not.
func consult(p *aggregates.Progress, in Surroundings, purpose events.JobPurpose, head string) (m Move, ok bool) {
	if !slices.Contains(in.Repo.Settings.Implementer.Stages, purpose) {
		return Move{}, false
	}
	last := lastJob(p, purpose, "", head)
	if last == nil {
		return implementAt(p, in, purpose, head, 1), true
	}
	return afterJob(p, in, last, Move{Do: &Step{Kind: stepConsult, Job: last.Job}}), true
}

// consulted returns what follows from what the implementer says about a stage.
func (r *runner) consulted(ctx context.Context, s Step) ([]events.Event, error) {
	job := r.p.Jobs[slices.IndexFunc(r.p.Jobs, func(j aggregates.RunJob) bool { return j.Job == s.Job })]
	secrets, err := r.secrets(ctx)
	if err != nil {
		return nil, err
	}
	o, cost, err := r.readOutcome(ctx, s.Job, secrets)
	if err != nil {
		return nil, err
	}
	if facts, err := r.unsettled(ctx, &job, o, cost); facts != nil || err != nil {
		return facts, err
	}
	in := Surroundings{Repo: r.repo}
	finished := o.Status == "done"
	if job.Purpose == events.JobReviews {
		return r.reviewed(in, o, cost, finished, job.Job), nil
	}
	if !finished {
		return append([]events.Event{cost}, failed(r.p, events.FailGaveUp, r.unfinished(ctx, s.Job, o))...), nil
	}
	if job.Purpose == events.JobAnalyzes {
		list := facts(r.p, in)
		for _, f := range o.Facts[:min(len(o.Facts), maxNotes)] {
			list = append(list, f.Text)
		}
		return enter(r.p, events.StagePlan, cost, events.RunFactsRecorded{Facts: list}).Record, nil
	}
	planned, budget := ownPlan(r.p, in)
	if o.Plan != nil && o.Plan.Summary != "" {
		planned.Summary, planned.Files, planned.Risk = o.Plan.Summary, o.Plan.Files, o.Plan.Risk
		planned.Steps = append(slices.Clone(o.Plan.Steps), planned.Steps...)
	}
	return enter(r.p, events.StageImplementing, cost, planned, budget).Record, nil
}

// reviewed returns what follows from a review by the implementer: blocking findings lead to another round. A review that was
// not finished is a finding for the person who is asked.
func (r *runner) reviewed(in Surroundings, o outcome.Outcome, cost events.Event, finished bool, job events.ID) []events.Event {
	review := events.RunReviewed{Head: r.p.Head, Verdict: aggregates.ReviewPass, Findings: notes(r.p.Guardrails)}
	if !finished {
		review.Findings = append(review.Findings, fmt.Sprintf("The implementer did not finish its review, job %s.", job))
		return []events.Event{cost, review}
	}
	blocking := ""
	for _, f := range o.Findings[:min(len(o.Findings), maxNotes)] {
		review.Findings = append(review.Findings, f.String())
		if f.Severity == "blocking" && blocking == "" {
			blocking = "The review finds: " + f.String()
		}
	}
	if blocking == "" {
		return []events.Event{cost, review}
	}
	review.Verdict = aggregates.ReviewBlocking
	return append([]events.Event{cost, review}, again(r.p, in, events.FailRounds, blocking).Record...)
}
