package aggregates

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"svc/events"
	"svc/fault"
	"svc/input"
)

// The reasons for which an answer is refused.
var (
	ErrNoDecision         = fault.New(fault.NotFound, "decision_not_found", "There is no such decision.")
	ErrDecisionAnswered   = fault.New(fault.Conflict, "decision_answered", "This decision has been answered already.")
	ErrDecisionStale      = fault.New(fault.Conflict, "decision_stale", "The run has moved on since. Look at it again.")
	ErrCapabilityRequired = fault.New(fault.Denied, "capability_required", "Only members who may approve loops decide this.")
)

// The actions with which decisions are answered.
const (
	ActionConfirm         = "confirm"
	ActionCorrect         = "correct"
	ActionReject          = "reject"
	ActionApproveAndMerge = "approve_and_merge"
	ActionRequestChanges  = "request_changes"
	ActionAllowOnce       = "allow_once"
	ActionDeny            = "deny"
)

// Actions returns the possible answers to a kind of decision, the most likely first.
func Actions(k events.DecisionKind) []string {
	switch k {
	case events.FactReview:
		return []string{ActionConfirm, ActionCorrect, ActionReject}
	case events.MergeApproval:
		return []string{ActionApproveAndMerge, ActionRequestChanges, ActionReject}
	case events.ProtectedPathOnce:
		return []string{ActionAllowOnce, ActionDeny}
	}
	return nil
}

// maxNote is the maximum number of characters of a note.
const maxNote = 10_000

// An Answer is a person's answer to a decision. Note explains it, and is required to
// correct facts and to request changes. ExpectedHead is the commit that the person looked
// at, and is required to approve.
type Answer struct {
	Decision     events.ID
	Action       string
	Note         string
	ExpectedHead string
}

// A decision is one that the run has raised. Runs keep all of them.
type decision struct {
	kind     events.DecisionKind
	head     string
	answered bool
	voided   bool
}

// MayDecide returns an error unless a member with that role and setting approveLoops may
// answer decisions of kind k: fact reviews need a role with the right ReviewFacts, all others
// need the setting, and protected paths also a role with the right AllowProtectedPaths.
func MayDecide(k events.DecisionKind, role events.Role, approveLoops bool) error {
	switch {
	case k == events.FactReview && !role.May(events.ReviewFacts):
		return RoleRequired(events.ReviewFacts)
	case k == events.ProtectedPathOnce && !role.May(events.AllowProtectedPaths):
		return RoleRequired(events.AllowProtectedPaths)
	case k != events.FactReview && !approveLoops:
		return ErrCapabilityRequired
	}
	return nil
}

// AllowAnswer returns an error unless the user may answer decisions of kind k.
func (w *Workspace) AllowAnswer(by events.ID, k events.DecisionKind) error {
	m, ok := w.members[w.byUser[by]]
	if !ok {
		return fault.ErrTenantNotFound
	}
	return MayDecide(k, m.role, events.MayApproveLoops(m.role, m.approveLoops))
}

// DecisionKind returns the kind of one of the run's decisions.
func (r *Run) DecisionKind(id events.ID) (events.DecisionKind, error) {
	d, ok := r.decisions[id]
	if !ok {
		return "", ErrNoDecision
	}
	return d.kind, nil
}

func (r *Run) applyDecision(e events.Event) {
	switch e := e.(type) {
	case events.DecisionRaised:
		r.decisions[e.Decision] = decision{kind: e.About, head: e.Head}
		if e.About != events.MergeApproval { // for a merge approval, the stage's own status says that it waits
			r.status = events.RunStatusNeedsInput
		}
	case events.DecisionAnswered:
		d := r.decisions[e.Decision]
		d.answered = true
		r.decisions[e.Decision] = d
		r.resume(e.About)
	case events.DecisionVoided:
		d := r.decisions[e.Decision]
		d.voided = true
		r.decisions[e.Decision] = d
		r.resume(e.About)
	}
}

// resume resumes a run that waited for a decision of kind k.
func (r *Run) resume(k events.DecisionKind) {
	if k != events.MergeApproval && r.status == events.RunStatusNeedsInput {
		r.status = r.stage.Status()
	}
}

// openDecisions returns the decisions that wait for an answer, sorted by id.
func (r *Run) openDecisions() (ids []events.ID) {
	for id, d := range r.decisions {
		if !d.answered && !d.voided {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b events.ID) int { return bytes.Compare(a[:], b[:]) })
	return ids
}

// mayRaise reports whether the run may raise a decision: one at a time, in the right stage
// and about the newest commit.
func (r *Run) mayRaise(e events.DecisionRaised) bool {
	_, known := r.decisions[e.Decision]
	switch {
	case known || e.Decision.IsZero() || len(r.openDecisions()) > 0:
		return false
	case e.About == events.FactReview:
		return r.stage == events.StageAnalyze
	case e.About == events.MergeApproval:
		return r.status == events.RunStatusAwaitingApproval && r.isHead(e.Head)
	case e.About == events.ProtectedPathOnce:
		return r.stage.Index() >= events.StageImplementing.Index() && r.status != events.RunStatusMerging && r.isHead(e.Head)
	}
	return false
}

// voidOpen voids the open decisions for which about returns true.
func (r *Run) voidOpen(reason string, about func(decision) bool) (list []events.Event) {
	for _, id := range r.openDecisions() {
		if d := r.decisions[id]; about(d) {
			list = append(list, events.DecisionVoided{Decision: id, About: d.kind, Reason: reason})
		}
	}
	return list
}

func anyDecision(decision) bool { return true }

// Answer answers a decision. The events include the consequences of the answer.
func (r *Run) Answer(a Answer) ([]events.Event, error) {
	d, ok := r.decisions[a.Decision]
	switch {
	case !ok:
		return nil, ErrNoDecision
	case !slices.Contains(Actions(d.kind), a.Action):
		return nil, fault.Field("action", "must be one of %s", strings.Join(Actions(d.kind), ", "))
	case utf8.RuneCountInString(a.Note) > maxNote:
		return nil, fault.Field("note", "must have at most %d characters", maxNote)
	case strings.TrimSpace(a.Note) == "" && (a.Action == ActionCorrect || a.Action == ActionRequestChanges):
		return nil, fault.Field("note", "must say what is wanted")
	case a.ExpectedHead == "" && a.Action == ActionApproveAndMerge:
		return nil, fault.Field("expectedHead", "must be the commit that is approved")
	case d.answered:
		return nil, ErrDecisionAnswered
	case d.voided, a.ExpectedHead != "" && d.head != "" && a.ExpectedHead != d.head, d.head != "" && !r.isHead(d.head):
		return nil, ErrDecisionStale
	}
	if err := input.NoTokens(map[string]string{"note": a.Note}); err != nil {
		return nil, err
	}
	list := []events.Event{events.DecisionAnswered{Decision: a.Decision, About: d.kind, Action: a.Action, Note: a.Note, Head: d.head}}
	next := r.clone()
	next.Apply(list[0], events.Actor{})
	more, err := next.Record(next.consequences(d.kind, a)...)
	if err != nil {
		return nil, err
	}
	return append(list, more...), nil
}

// consequences returns the events that an answer leads to.
func (r *Run) consequences(k events.DecisionKind, a Answer) []events.Event {
	helped := events.RunHumanIntervened{Repo: r.repo.ID, What: events.InterventionAnswer}
	switch a.Action {
	case ActionCorrect:
		return []events.Event{helped, events.RunFactsRecorded{Facts: []string{a.Note}}}
	case ActionApproveAndMerge:
		return []events.Event{events.RunMergeApproved{Head: a.ExpectedHead}}
	case ActionRequestChanges:
		helped.What = events.InterventionChanges
		return append([]events.Event{helped}, r.reenterImplementing("Changes were asked for: "+a.Note)...)
	case ActionDeny:
		return append([]events.Event{helped}, r.reenterImplementing("A protected path may not be changed.")...)
	case ActionReject:
		return []events.Event{events.RunRejected{Repo: r.repo.ID, Reason: a.Note}}
	}
	return []events.Event{helped}
}

// reenterImplementing ends the current stage and enters Implementing again.
func (r *Run) reenterImplementing(reason string) (list []events.Event) {
	if !r.stageOver {
		list = append(list, events.RunStageFailed{Stage: r.stage, Attempt: r.attempts[r.stage], Reason: reason})
	}
	const code = events.StageImplementing
	return append(list, events.RunStageEntered{Stage: code, Attempt: r.attempts[code] + 1})
}
