package aggregates

import "svc/events"

// maxPostponed is how often the merge of an approved commit may be attempted again.
const maxPostponed = 10

// mayMerge reports whether a fact of the stage Merge is possible. That of [events.RunMergeApproved] is
// not here: only a person's answer leads to it. Neither is [events.RunStopRequested]: a person asks for it.
func (r *Run) mayMerge(fact events.Event) bool {
	p := &r.p
	switch e := fact.(type) {
	case events.RunMergeApprovalVoided:
		return p.Approved != "" && e.Head == p.Approved
	case events.RunLaneEntered:
		return r.approved() && !p.Lane && p.Base != nil && e.Branch == p.Base.Branch
	case events.RunMergeCandidate:
		return r.approved() && p.Lane && e.Head == p.Head && e.Base != "" && e.Commit != "" && e.Tree != "" &&
			(p.Candidate == nil || *p.Candidate != e)
	case events.RunMergeAttempted:
		return r.mayAttempt(e)
	case events.RunMergePostponed:
		return p.Status == events.RunStatusMerging && r.isHead(e.Head) && p.Postponed < maxPostponed
	case events.RunMerged:
		return e.MergeCommit != "" && (e.Outside || r.hasMerged(e))
	}
	return false
}

// approved reports whether the run is in the stage Merge, not merging, with a valid approval of its head.
func (r *Run) approved() bool {
	return r.p.Status == events.RunStatusAwaitingApproval && r.isHead(r.p.Approved)
}

// mayAttempt reports whether the run may begin to merge. Nothing that was true when a person approved
// the head is taken for granted: the policy, and with it the required jobs, may be others by now.
func (r *Run) mayAttempt(e events.RunMergeAttempted) bool {
	c := r.p.Candidate
	return r.approved() && r.p.Decision == nil && r.p.Lane && e.Head == r.p.Head && r.p.Guarded() && r.p.Reviewed() &&
		c != nil && c.Head == e.Head && c.Commit == e.Commit && r.p.CandidateBuilt()
}

// hasMerged reports whether the merge is that of the attempted candidate. Another tree than the one that
// was tested has to be called untested.
func (r *Run) hasMerged(e events.RunMerged) bool {
	c := r.p.Candidate
	return r.p.Status == events.RunStatusMerging && r.isHead(e.Head) && r.p.Attempted && c != nil && c.Head == e.Head &&
		(e.Tree == c.Tree || e.Untested)
}
