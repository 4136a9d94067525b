package runviews

import (
	"time"

	"svc/events"
	"svc/projections/fold"
)

// An outcome has the figures of a run for insights. It depends on the times at which events were
// recorded, never on the time of folding. Events after the day on which the run ended do not change
// it, so a window in the past stays the same.
type outcome struct {
	Workspace     events.ID        `db:"workspace_id"`
	Run           events.ID        `db:"run_id"`
	Repo          events.ID        `db:"repo_id"`
	QueuedAt      time.Time        `db:"queued_at"`
	Status        events.RunStatus `db:"status"` // "" while the run is active
	EndedAt       *time.Time       `db:"ended_at"`
	Counted       bool             `db:"counted"`
	Implemented   bool             `db:"implemented"`
	Touched       bool             `db:"touched"`
	Interventions int              `db:"interventions"`
	IntervenedAt  []time.Time      `db:"intervened_at"`
	LastAt        *time.Time       `db:"last_at"`
	PushedBy      events.ID        `db:"pushed_by"`
	PushedAt      *time.Time       `db:"pushed_at"`
	CostCents     int64            `db:"cost_cents"`
	Phase         string           `db:"phase"`
	PhaseSince    time.Time        `db:"phase_since"`
	PersonMS      int64            `db:"person_ms"`
	FarmMS        int64            `db:"farm_ms"`
}

// The phases in which a run spends its time.
const (
	phaseWorking = "working"
	phasePerson  = "person"
	phaseFarm    = "farm"
)

// pushWindow is the time within which successive pushes of a person count as one intervention.
const pushWindow = 10 * time.Minute

var outcomes = &fold.Table[events.ID, outcome]{
	View: "outcomes", Updated: fold.Followed, Key: "run_id",
	Kinds: []string{"run", "decision"},
	Keys: func(r events.Record) []events.ID {
		if _, ok := r.Event.(runEvent); ok {
			return []events.ID{r.Stream}
		}
		return nil
	},
	Apply: func(id events.ID, before *outcome, r events.Record) *outcome {
		if e, ok := r.Event.(events.RunQueued); ok {
			return &outcome{
				Workspace: r.Workspace, Run: id, Repo: e.Repo.ID, QueuedAt: r.At, Counted: true,
				IntervenedAt: []time.Time{}, Phase: phaseWorking, PhaseSince: r.At,
			}
		}
		after := *before
		after.apply(r)
		return &after
	},
}

func (o *outcome) apply(r events.Record) {
	switch e := r.Event.(type) {
	case events.RunStageEntered:
		o.Implemented = o.Implemented || e.Stage == events.StageImplementing
		switch e.Stage {
		case events.StageBuildFarm:
			o.enterPhase(phaseFarm, r.At)
		case events.StageMerge:
			o.enterPhase(phasePerson, r.At) // a person has to approve
		default:
			o.enterPhase(phaseWorking, r.At)
		}
	case events.DecisionRaised:
		o.enterPhase(phasePerson, r.At)
	case events.DecisionAnswered, events.DecisionVoided, events.RunMergeApproved, events.RunMergeAttempted:
		o.enterPhase(phaseWorking, r.At)
	case events.RunMergeApprovalVoided:
		o.enterPhase(phasePerson, r.At)
	case events.RunCommitsPushed:
		o.Touched = o.Touched || e.By == events.PushedByPerson
	case events.RunHumanIntervened:
		o.intervene(e.What, r)
	case events.RunCostRecorded:
		if o.EndedAt == nil || sameDay(*o.EndedAt, r.At) {
			o.CostCents += e.Cents
		}
	case events.RunMerged:
		o.end(events.RunStatusMerged, r.At)
	case events.RunRejected:
		o.end(events.RunStatusRejected, r.At)
	case events.RunFailed:
		o.end(events.RunStatusFailed, r.At)
	case events.RunCancelled:
		o.end(events.RunStatusCancelled, r.At)
		o.Counted = o.Implemented && e.Reason != events.CancelledAsDuplicate
	}
}

// enterPhase ends the current phase and begins another.
func (o *outcome) enterPhase(phase string, at time.Time) {
	spent := at.Sub(o.PhaseSince).Milliseconds()
	switch o.Phase {
	case phasePerson:
		o.PersonMS += spent
	case phaseFarm:
		o.FarmMS += spent
	}
	o.Phase, o.PhaseSince = phase, at
}

func (o *outcome) end(status events.RunStatus, at time.Time) {
	o.enterPhase(phaseWorking, at)
	o.Status, o.EndedAt = status, &at
}

// intervene counts a person's intervention. Pushes in quick succession count once.
func (o *outcome) intervene(what string, r events.Record) {
	if what == events.InterventionPush {
		again := o.PushedAt != nil && o.PushedBy == r.Actor.ID && r.At.Sub(*o.PushedAt) <= pushWindow
		o.PushedBy, o.PushedAt = r.Actor.ID, &r.At
		if again {
			return
		}
	}
	if o.EndedAt == nil {
		o.Interventions++
	}
	o.IntervenedAt, o.LastAt = append(o.IntervenedAt[:len(o.IntervenedAt):len(o.IntervenedAt)], r.At), &r.At
}

func sameDay(a, b time.Time) bool {
	return a.UTC().Truncate(24 * time.Hour).Equal(b.UTC().Truncate(24 * time.Hour))
}
