package aggregates

import (
	"maps"
	"math"
	"slices"
	"strings"

	"svc/events"
	"svc/fault"
	"svc/input"
)

// The reasons for which a command about a run is refused.
var (
	ErrNoRun        = fault.New(fault.NotFound, "run_not_found", "There is no such run.")
	ErrRunOver      = fault.New(fault.Conflict, "run_over", "This run has stopped.")
	ErrRunOutOfStep = fault.New(fault.Conflict, "run_out_of_step", "The run is not where this would follow.")
	ErrQueued       = fault.New(fault.Conflict, "already_queued", "This issue is queued already.")
	ErrRunGoesOn    = fault.New(fault.Conflict, "run_active", "This run has not ended yet.")

	ErrApproverIsQueuer = fault.New(fault.Denied, "approver_is_queuer",
		"Whoever queued the issue may not approve its merge. Ask another member.")
)

// maxInt32 is the largest accepted number of an issue or a pull request. Views store them in
// 32 bits.
const maxInt32 = math.MaxInt32

// A Run takes one issue through the stages to a merged pull request. It holds what the product
// promises, whoever records its facts: nothing is merged that a person did not approve, that breaks the
// guardrails, or that did not pass its review and every required job.
type Run struct {
	p         Progress
	decisions map[events.ID]decision // all that were ever raised
	costKeys  []string               // of the costs recorded so far, sorted

	trees     map[string]int // the round that made each tree first, on the present base
	plannedIn int            // the attempt of Plan in which the plan was recorded
	failure   string         // why the stage failed; a finding once it leads to another round
	noted     bool           // the finding of this round is a person's note
}

// Progress returns what is known of the run, whose stream has that id and version.
func (r *Run) Progress(id events.ID, version int) Progress {
	p := r.p.clone()
	p.Run, p.Version = id, version
	return p
}

// Queue starts the run.
func (r *Run) Queue(e events.RunQueued) ([]events.Event, error) {
	switch {
	case r.p.Status != "":
		return nil, ErrQueued
	case e.Repo.ID.IsZero() || e.Repo.Name == "":
		return nil, fault.Field("repoId", "must name a repository")
	case e.IssueNumber < 1:
		return nil, fault.Field("issueNumber", "must be 1 or more")
	case e.IssueNumber > maxInt32:
		return nil, fault.Field("issueNumber", "must be %d or less", maxInt32)
	case strings.ContainsRune(e.Repo.Name, 0): // PostgreSQL stores no NUL in a text
		return nil, fault.Field("repoId", "must not hold a NUL")
	case strings.ContainsRune(e.IssueTitle, 0):
		return nil, fault.Field("issueTitle", "must not hold a NUL")
	}
	if err := input.NoTokens(map[string]string{"title": e.IssueTitle, "body": e.IssueBody, "repoId": e.Repo.Name}); err != nil {
		return nil, err
	}
	return oneEvent(e)
}

// Issue returns the issue that the run works on.
func (r *Run) Issue() (repo events.Repo, number int) { return r.p.Repo, r.p.Issue }

// Over reports whether the run has ended.
func (r *Run) Over() bool { return r.p.Over() }

// AllowApprover returns an error if the user may not approve the run's merge because they queued its
// issue, and the repository wants two people: notQueuer.
func (r *Run) AllowApprover(by events.ID, notQueuer bool) error {
	if notQueuer && r.p.Queuer.Type == events.ByUser && r.p.Queuer.ID == by {
		return ErrApproverIsQueuer
	}
	return nil
}

// Keys returns the workspace's keys that the run holds: its issue while it is active, its places once it
// has started, and its turn to merge. A command that changes them has to claim and to release them.
func (r *Run) Keys() (keys []string) {
	if r.p.Status == "" || r.Over() {
		return nil
	}
	keys = append(keys, events.IssueKey(r.p.Repo.ID, r.p.Issue))
	if s := r.p.Started; s != nil {
		keys = append(keys, events.RunSlotKey(s.Slot), events.RepoSlotKey(r.p.Repo.ID, s.RepoSlot))
	}
	if r.p.Lane {
		keys = append(keys, events.LaneKey(r.p.Repo.ID, r.p.Base.Branch))
	}
	return keys
}

// With returns the run after further events of its stream.
func (r *Run) With(list ...events.Event) *Run {
	next := r.clone()
	for _, e := range list {
		next.Apply(e, events.Actor{})
	}
	return next
}

// Record adds facts that the loop reports, all of them or none: each has to be possible
// after the ones before it.
func (r *Run) Record(facts ...events.Event) ([]events.Event, error) {
	return r.add(facts, (*Run).check)
}

// add returns the facts, each with what follows from it. Each has to pass the check after the ones
// before it.
func (r *Run) add(facts []events.Event, check func(*Run, events.Event) error) (list []events.Event, err error) {
	next := r.clone()
	for _, f := range facts {
		if err := check(next, f); err != nil {
			return nil, err
		}
		if err := noTokenIn(f); err != nil {
			return nil, err
		}
		for _, e := range next.withVoided(next.withRepo(f)) {
			next.Apply(e, events.Actor{})
			list = append(list, e)
		}
	}
	return list, nil
}

// Cancel stops the run at a person's request. A run that is being merged stops once it is known that
// the attempt did not merge it; to ask for that again changes nothing.
func (r *Run) Cancel(reason string) ([]events.Event, error) {
	if err := input.NoTokens(map[string]string{"reason": reason}); err != nil {
		return nil, err
	}
	switch {
	case r.p.Status != events.RunStatusMerging:
		return r.Record(events.RunCancelled{Repo: r.p.Repo.ID, Reason: reason})
	case r.p.Stop != nil:
		return nil, nil
	}
	return oneEvent(events.RunStopRequested{Reason: reason})
}

// noTokenIn refuses a fact that contains a token. Whoever reports text from elsewhere, such
// as a log, has to mask tokens first.
func noTokenIn(fact events.Event) error {
	text, err := events.Encode(fact)
	if err != nil {
		return err
	}
	return input.NoTokens(map[string]string{"facts": string(text)})
}

// withRepo sets the fact's repository to the run's. Views count by it.
func (r *Run) withRepo(f events.Event) events.Event {
	switch e := f.(type) {
	case events.RunStarted:
		e.Repo = r.p.Repo.ID
		return e
	case events.RunLaneEntered:
		e.Repo = r.p.Repo.ID
		return e
	case events.RunHumanIntervened:
		e.Repo = r.p.Repo.ID
		return e
	case events.RunCostRecorded:
		e.Repo = r.p.Repo.ID
		return e
	case events.RunMerged:
		e.Repo = r.p.Repo.ID
		return e
	case events.RunRejected:
		e.Repo = r.p.Repo.ID
		return e
	case events.RunFailed:
		e.Repo = r.p.Repo.ID
		return e
	case events.RunCancelled:
		e.Repo = r.p.Repo.ID
		return e
	}
	return f
}

// withVoided returns a fact and the events that follow from it: a push voids decisions and
// approvals of the commit before it, another branch to merge into voids the approval, and the end of the
// run voids all open decisions.
func (r *Run) withVoided(f events.Event) []events.Event {
	switch e := f.(type) {
	case events.RunCommitsPushed:
		list := append([]events.Event{f}, r.voidOpen("new_commits", func(d decision) bool { return d.head != "" })...)
		return append(list, r.voidApproval("new_commits")...)
	case events.RunBaseRead:
		if r.p.Base != nil && e.Branch != r.p.Base.Branch {
			return append(r.voidApproval("other_branch"), f)
		}
	}
	if events.EndsRun(f) {
		return append(r.voidOpen("run_over", anyDecision), f)
	}
	return []events.Event{f}
}

// voidApproval voids the approval, if there is one.
func (r *Run) voidApproval(reason string) []events.Event {
	if r.p.Approved == "" {
		return nil
	}
	return []events.Event{events.RunMergeApprovalVoided{Head: r.p.Approved, Reason: reason}}
}

func (r *Run) clone() *Run {
	next := *r
	next.p, next.decisions, next.costKeys = r.p.clone(), maps.Clone(r.decisions), slices.Clone(r.costKeys)
	next.trees = maps.Clone(r.trees)
	return &next
}
