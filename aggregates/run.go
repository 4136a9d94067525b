package aggregates

import (
	"maps"
	"math"
	"strings"

	"svc/events"
	"svc/fault"
	"svc/input"
)

// Why a run may refuse a command.
var (
	ErrNoRun        = fault.New(fault.NotFound, "run_not_found", "There is no such run.")
	ErrRunOver      = fault.New(fault.Conflict, "run_over", "This run has stopped.")
	ErrRunOutOfStep = fault.New(fault.Conflict, "run_out_of_step", "The run is not where this would follow.")
	ErrQueued       = fault.New(fault.Conflict, "already_queued", "This issue is queued already.")
)

// largest is the largest number of an issue or a pull request. No list could
// show a larger one, nor a text with a NUL in it.
const largest = math.MaxInt32

// A Run takes one issue through the stages to a merged pull request.
type Run struct {
	repo     events.Repo
	issue    int
	status   events.RunStatus // "" before it is queued
	stage    events.Stage     // the stage it is in; a newer build may have put it in one that this one does not know
	settled  bool             // that stage has succeeded or failed
	passed   bool             // that stage has succeeded
	attempts map[events.Stage]int
	head     string // the newest commit of its branch
	approved string // the commit that a person approved, while the approval counts
	jobs     map[events.ID]bool

	decisions map[events.ID]decision // all that were ever raised
}

// Apply takes in one event. None counts before the run is queued: the stream of
// something else may be asked for as a run.
func (r *Run) Apply(e events.Event, _ events.ID) {
	if _, begins := e.(events.RunQueued); r.status == "" && !begins {
		return
	}
	switch e := e.(type) {
	case events.RunQueued:
		r.repo, r.issue, r.status = e.Repo, e.IssueNumber, events.RunInQueue
		r.attempts, r.jobs, r.decisions = map[events.Stage]int{}, map[events.ID]bool{}, map[events.ID]decision{}
		r.stage, r.settled, r.passed = events.StageQueued, true, true // Queued is done with as soon as a slot is free
	case events.RunStageEntered:
		r.stage, r.settled, r.passed, r.status = e.Stage, false, false, e.Stage.Status()
		r.attempts[e.Stage] = e.Attempt
	case events.RunStageSucceeded:
		r.settled, r.passed = true, true
	case events.RunStageFailed:
		r.settled = true
	case events.RunCommitsPushed:
		r.head = e.Head
	case events.RunJobRequested:
		r.jobs[e.Job] = true
	case events.RunMergeApproved:
		r.approved = e.Head
	case events.RunMergeApprovalVoided:
		r.approved = ""
		if r.status == events.RunMerging {
			r.status = events.RunAwaitingApproval
		}
	case events.RunMergeAttempted:
		r.status = events.RunMerging
	case events.RunMerged:
		r.status = events.RunIsMerged
	case events.RunRejected:
		r.status = events.RunIsRejected
	case events.RunFailed:
		r.status = events.RunHasFailed
	case events.RunCancelled:
		r.status = events.RunIsCancelled
	case events.RunFactsRecorded, events.RunPlanRecorded, events.RunBudgetSet, events.RunBranchCreated, events.RunGuardrailsChecked, events.RunJobSettled,
		events.RunReviewed, events.RunPullRequestOpened, events.RunHumanIntervened, events.RunCostRecorded:
		// nothing is decided by them
	default:
		r.applyDecision(e)
	}
}

// Queue begins the run.
func (r *Run) Queue(e events.RunQueued) ([]events.Event, error) {
	switch {
	case r.status != "":
		return nil, ErrQueued
	case e.Repo.ID.IsZero() || e.Repo.Name == "":
		return nil, fault.Field("repoId", "must name a repository")
	case e.IssueNumber < 1:
		return nil, fault.Field("issueNumber", "must be 1 or more")
	case e.IssueNumber > largest:
		return nil, fault.Field("issueNumber", "must be %d or less", largest)
	case strings.ContainsRune(e.Repo.Name, 0):
		return nil, fault.Field("repoId", "must not hold a NUL")
	case strings.ContainsRune(e.IssueTitle, 0):
		return nil, fault.Field("issueTitle", "must not hold a NUL")
	}
	if err := input.NoTokens(map[string]string{"title": e.IssueTitle, "body": e.IssueBody, "repoId": e.Repo.Name}); err != nil {
		return nil, err
	}
	return one(e)
}

// Issue returns what the run works on.
func (r *Run) Issue() (repo events.Repo, number int) { return r.repo, r.issue }

// Over reports whether the run has stopped.
func (r *Run) Over() bool { return !r.status.Active() }

// Record takes in what the loop reports, all of it or nothing: each fact must
// follow from the ones before it.
func (r *Run) Record(facts ...events.Event) (list []events.Event, err error) {
	next := r.copied()
	for _, f := range facts {
		if err := next.allows(f); err != nil {
			return nil, err
		}
		if err := noTokenIn(f); err != nil {
			return nil, err
		}
		for _, e := range next.with(next.own(f)) {
			next.Apply(e, events.ID{})
			list = append(list, e)
		}
	}
	return list, nil
}

// Cancel stops the run by a person's word, unless it is being merged.
func (r *Run) Cancel(reason string) ([]events.Event, error) {
	if err := input.NoTokens(map[string]string{"reason": reason}); err != nil {
		return nil, err
	}
	if r.status == events.RunMerging {
		return nil, ErrRunOutOfStep
	}
	return r.Record(events.RunCancelled{Repo: r.repo.ID, Reason: reason})
}

// noTokenIn refuses a fact with a token in it: whoever reports takes tokens out of
// what others said, such as a log, before.
func noTokenIn(fact events.Event) error {
	text, err := events.Encode(fact)
	if err != nil {
		return err
	}
	return input.NoTokens(map[string]string{"facts": string(text)})
}

// own fills in the repository, which the run knows best: views count by it.
func (r *Run) own(f events.Event) events.Event {
	switch e := f.(type) {
	case events.RunHumanIntervened:
		e.Repo = r.repo.ID
		return e
	case events.RunCostRecorded:
		e.Repo = r.repo.ID
		return e
	case events.RunMerged:
		e.Repo = r.repo.ID
		return e
	case events.RunRejected:
		e.Repo = r.repo.ID
		return e
	case events.RunFailed:
		e.Repo = r.repo.ID
		return e
	case events.RunCancelled:
		e.Repo = r.repo.ID
		return e
	}
	return f
}

// with returns a fact and what it makes pointless: a push, what was asked and
// approved of the commit before; the end of the run, all that was asked.
func (r *Run) with(f events.Event) []events.Event {
	if events.EndsRun(f) {
		return append(r.voidOpen("run_over", anyDecision), f)
	}
	push, ok := f.(events.RunCommitsPushed)
	if !ok || push.Head == r.head {
		return []events.Event{f}
	}
	list := append([]events.Event{f}, r.voidOpen("new_commits", func(d decision) bool { return d.head != "" })...)
	if r.approved != "" {
		list = append(list, events.RunMergeApprovalVoided{Head: r.approved, Reason: "new_commits"})
	}
	return list
}

func (r *Run) allows(fact events.Event) error {
	if r.status == "" {
		return ErrNoRun
	}
	_, ok := fact.(interface{ IsRun() })
	switch e := fact.(type) {
	case events.RunCostRecorded: // bills may arrive late
		return nil
	case events.RunJobSettled: // and so may jobs
		if !r.jobs[e.Job] {
			return ErrRunOutOfStep
		}
		return nil
	case events.RunQueued:
		ok = false
	case events.RunStageEntered:
		ok = r.mayEnter(e)
	case events.RunStageSucceeded:
		ok = e.Stage == r.stage && e.Attempt == r.attempts[e.Stage] && !r.settled
	case events.RunStageFailed:
		ok = e.Stage == r.stage && e.Attempt == r.attempts[e.Stage] && !r.settled
	case events.RunBudgetSet:
		ok = e.Cents >= 0 && e.ComputeMS >= 0 && e.Rounds >= 0 && e.Rounds <= largest
	case events.RunGuardrailsChecked:
		ok = r.at(e.Head)
	case events.RunReviewed:
		ok = r.at(e.Head)
	case events.DecisionRaised:
		ok = r.mayRaise(e)
	case events.DecisionAnswered, events.DecisionVoided:
		ok = false // persons answer, and facts make pointless
	case events.RunCommitsPushed:
		ok = r.status != events.RunMerging // what is approved is what is merged
	case events.RunPullRequestOpened:
		ok = e.Number >= 1 && e.Number <= largest
	case events.RunMergeApproved:
		ok = r.status == events.RunAwaitingApproval && r.at(e.Head)
	case events.RunMergeApprovalVoided:
		ok = r.approved != "" && e.Head == r.approved
	case events.RunMergeAttempted:
		ok = r.status == events.RunAwaitingApproval && e.Head == r.approved && r.at(e.Head)
	case events.RunMerged:
		ok = r.status == events.RunMerging && r.at(e.Head)
	}
	switch {
	case r.Over():
		return ErrRunOver
	case !ok:
		return ErrRunOutOfStep
	}
	return nil
}

// at reports whether head is the newest commit of the run's branch.
func (r *Run) at(head string) bool { return head != "" && head == r.head }

// mayEnter lets a run go on to the next stage when this one has succeeded, or
// back to an earlier one, or into the same one again; not while it waits for a
// person, nor out of a stage that this build does not know.
func (r *Run) mayEnter(e events.RunStageEntered) bool {
	from, to := r.stage.Index(), e.Stage.Index()
	return r.status != events.RunNeedsInput && to >= 1 && e.Attempt == r.attempts[e.Stage]+1 && (to <= from || to == from+1 && r.passed)
}

func (r *Run) copied() *Run {
	next := *r
	next.attempts, next.jobs, next.decisions = maps.Clone(r.attempts), maps.Clone(r.jobs), maps.Clone(r.decisions)
	return &next
}
