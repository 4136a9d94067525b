package loop

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"svc/engine/client"
	"svc/events"
	"svc/loop/watch"
)

// withEstimate adds an estimate after the fact that makes more known of the run. Without one the run goes on.
func (r *runner) withEstimate(ctx context.Context, facts []events.Event) []events.Event {
	e, like := events.RunEstimated{}, client.Features{Repo: r.p.Repo.ID.String(), Implementer: implementerName(r.repo.Settings.Implementer)}
	at := 0
	for i, fact := range facts {
		before := e.When
		switch fact := fact.(type) {
		case events.RunIssueRead:
			e.When = events.EstimatedQueued
		case events.RunPlanRecorded:
			if like.Files = len(fact.Files); like.Files > 0 {
				e.When = events.EstimatedPlanned
			}
		case events.RunCommitsPushed:
			all := fact.Changed()
			e.When, like.Files, like.Lines = events.EstimatedPushed, all.Files, all.Added+all.Removed
		}
		if e.When != before {
			at = i + 1
		}
	}
	if e.When == "" || slices.Contains(r.p.Estimated, e.When) {
		return facts
	}
	if err := r.estimate(ctx, &e, like); err != nil {
		r.Log.WarnContext(ctx, "estimate a run", "run", r.run, "err", err)
		return facts
	}
	return slices.Insert(slices.Clip(facts), at, events.Event(e))
}

// estimate has the engine complete an estimate.
func (r *runner) estimate(ctx context.Context, e *events.RunEstimated, like client.Features) error {
	ctx, cancel := context.WithTimeout(ctx, estimateTime)
	defer cancel()
	samples, err := r.table.samples(ctx, r.workspace)
	if err != nil {
		return err
	}
	step := watch.Step(r.workspace, r.run, r.p.Repo.ID, &r.from, "", estimateTime)
	out, err := client.Do[client.EstimateInput, client.EstimateResult](ctx, r.Engine, client.StepEstimate, step,
		client.EstimateInput{Run: like, Samples: samples}, nil, nil)
	if err != nil {
		return err
	}
	e.Size, e.Cents, e.WorkMS, e.Merged, e.Basis = clean(out.Size), spreadOf(out.Cents), spreadOf(out.WorkMS), out.Merged, []events.ID{}
	for _, text := range out.Basis {
		id, err := events.ParseID(text)
		if err != nil {
			return err
		}
		e.Basis = append(e.Basis, id)
	}
	return nil
}

// estimateTime is how long an estimate may hold up a run.
const estimateTime = 5 * time.Second

func spreadOf(s *client.Spread) *events.EstimateSpread {
	if s == nil {
		return nil
	}
	return &events.EstimateSpread{P50: s.P50, P80: s.P80}
}

// implementerName names an implementer by what it does, in a few characters: a changed command is another one.
func implementerName(i events.Implementer) string {
	if i.Kind != events.ImplementerCommand {
		return string(i.Kind)
	}
	sum := sha256.Sum256([]byte(i.Run))
	return fmt.Sprintf("%s %x", i.Kind, sum[:4])
}
