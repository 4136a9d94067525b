package aggregates

import (
	"bytes"
	"cmp"
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
			r.p.Status = events.RunStatusNeedsInput
		}
		if n := len(r.p.Jobs); e.About == events.FactReview && n > 0 && r.p.Jobs[n-1].Purpose.IsImplementers() {
			r.p.Jobs[n-1].Asked = true
		}
	case events.DecisionAnswered:
		d := r.decisions[e.Decision]
		d.answered = true
		r.decisions[e.Decision] = d
		r.learn(e)
		r.resume(e.About)
	case events.DecisionVoided:
		d := r.decisions[e.Decision]
		d.voided = true
		r.decisions[e.Decision] = d
		r.resume(e.About)
	default:
		return
	}
	r.p.Decision = nil
	if open := r.openDecisions(); len(open) > 0 {
		d := r.decisions[open[0]]
		r.p.Decision = &OpenDecision{ID: open[0], Kind: d.kind, Head: d.head}
	}
}

// learn keeps what a person's answer says about the work.
func (r *Run) learn(e events.DecisionAnswered) {
	switch e.Action {
	case ActionConfirm, ActionCorrect:
		r.p.Corrected = true
	case ActionAllowOnce:
		r.p.AllowedAt = e.Head
	case ActionApproveAndMerge:
		r.p.ApprovedBy = e.Decision
	case ActionRequestChanges, ActionDeny:
		r.p.Findings, r.noted = append(r.p.Findings, cmp.Or(e.Note, pathDenied)), true
	}
}

// pathDenied is why a run implements again whose change of a protected path was not allowed.
const pathDenied = "A protected path may not be changed."

// resume resumes a run that waited for a decision of kind k.
func (r *Run) resume(k events.DecisionKind) {
	if k != events.MergeApproval && r.p.Status == events.RunStatusNeedsInput {
		r.p.Status = r.p.Stage.Status()
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
// and about the newest commit. A merge has to be possible before a person is asked about it.
func (r *Run) mayRaise(e events.DecisionRaised) bool {
	_, known := r.decisions[e.Decision]
	stage := r.p.Stage.Index()
	switch {
	case known || e.Decision.IsZero() || r.p.Decision != nil:
		return false
	case e.About == events.FactReview:
		return stage >= events.StageAnalyze.Index() && stage < events.StageMerge.Index()
	case e.About == events.MergeApproval:
		return r.p.Status == events.RunStatusAwaitingApproval && r.isHead(e.Head) && r.p.Approved == "" && r.p.Mergeable()
	case e.About == events.ProtectedPathOnce:
		g := r.p.Guardrails
		return stage >= events.StageImplementing.Index() && r.p.Status != events.RunStatusMerging && r.isHead(e.Head) &&
			g != nil && g.Status == GuardrailsBlocked
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
	more, err := next.add(next.consequences(a), (*Run).checkConsequence)
	if err != nil {
		return nil, err
	}
	return append(list, more...), nil
}

// checkConsequence is check for what a person's answer leads to. It needs no budget, and an approval and
// an allowance are possible only here.
func (r *Run) checkConsequence(fact events.Event) error {
	ok := false
	switch e := fact.(type) {
	case events.RunMergeApproved:
		ok = r.p.Status == events.RunStatusAwaitingApproval && r.isHead(e.Head)
	case events.RunGuardrailsChecked:
		ok = true
	case events.RunStageEntered:
		ok = r.mayEnter(e)
	default:
		return r.check(fact)
	}
	if !ok {
		return ErrRunOutOfStep
	}
	return nil
}

// consequences returns the events that an answer leads to.
func (r *Run) consequences(a Answer) []events.Event {
	helped := events.RunHumanIntervened{Repo: r.p.Repo.ID, What: events.InterventionAnswer}
	switch a.Action {
	case ActionCorrect:
		return []events.Event{helped, events.RunFactsRecorded{Facts: append(slices.Clone(r.p.Facts), a.Note)}}
	case ActionApproveAndMerge:
		return []events.Event{events.RunMergeApproved{Head: a.ExpectedHead}}
	case ActionRequestChanges:
		helped.What = events.InterventionChanges
		return append([]events.Event{helped}, r.reenterImplementing("Changes were asked for: "+a.Note)...)
	case ActionAllowOnce:
		return append([]events.Event{helped}, r.allowOnce()...)
	case ActionDeny:
		return append([]events.Event{helped}, r.reenterImplementing(pathDenied)...)
	case ActionReject:
		return []events.Event{events.RunRejected{Repo: r.p.Repo.ID, Reason: a.Note}}
	}
	return []events.Event{helped}
}

// allowOnce turns what blocks the head into what a person has allowed. Runs from before guardrails were
// required may have none.
func (r *Run) allowOnce() []events.Event {
	if r.p.Guardrails == nil {
		return nil
	}
	e := *r.p.Guardrails
	e.Status, e.Checks = GuardrailsAllowed, slices.Clone(e.Checks)
	for i := range e.Checks {
		if e.Checks[i].Status == "block" {
			e.Checks[i].Status = GuardrailsAllowed
		}
	}
	return []events.Event{e}
}

// reenterImplementing ends the current stage and enters Implementing again.
func (r *Run) reenterImplementing(reason string) (list []events.Event) {
	if !r.p.StageOver {
		list = append(list, events.RunStageFailed{Stage: r.p.Stage, Attempt: r.p.Attempts[r.p.Stage], Reason: reason})
	}
	const code = events.StageImplementing
	return append(list, events.RunStageEntered{Stage: code, Attempt: r.p.Attempts[code] + 1})
}
