package aggregates

import (
	"maps"
	"math"
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
)

// maxInt32 is the largest accepted number of an issue or a pull request. Views store them in
// 32 bits.
const maxInt32 = math.MaxInt32

// A Run takes one issue through the stages to a merged pull request.
type Run struct {
	repo           events.Repo
	issue          int
	status         events.RunStatus // "" before it is queued
	stage          events.Stage     // the current stage; a newer build may have entered one that this build does not know
	stageOver      bool             // the stage has succeeded or failed
	stageSucceeded bool             // the stage has succeeded
	attempts       map[events.Stage]int
	head           string             // newest commit of its branch
	approved       string             // the commit that a person approved, while the approval is valid
	jobs           map[events.ID]bool // those that the run requested

	decisions map[events.ID]decision // all that were ever raised
}

// Apply adds one event. Events before RunQueued are ignored, because any stream may be
// loaded as a run's.
func (r *Run) Apply(e events.Event, _ events.Actor) {
	if _, begins := e.(events.RunQueued); r.status == "" && !begins {
		return
	}
	switch e := e.(type) {
	case events.RunQueued:
		r.repo, r.issue, r.status = e.Repo, e.IssueNumber, events.RunStatusQueued
		r.attempts, r.jobs, r.decisions = map[events.Stage]int{}, map[events.ID]bool{}, map[events.ID]decision{}
		r.stage, r.stageOver, r.stageSucceeded = events.StageQueued, true, true // a run leaves Queued as soon as a slot is free
	case events.RunStageEntered:
		r.stage, r.stageOver, r.stageSucceeded, r.status = e.Stage, false, false, e.Stage.Status()
		r.attempts[e.Stage] = e.Attempt
	case events.RunStageSucceeded:
		r.stageOver, r.stageSucceeded = true, true
	case events.RunStageFailed:
		r.stageOver = true
	case events.RunCommitsPushed:
		r.head = e.Head
	case events.RunJobRequested:
		r.jobs[e.Job] = true
	case events.RunMergeApproved:
		r.approved = e.Head
	case events.RunMergeApprovalVoided:
		r.approved = ""
		if r.status == events.RunStatusMerging {
			r.status = events.RunStatusAwaitingApproval
		}
	case events.RunMergeAttempted:
		r.status = events.RunStatusMerging
	case events.RunMerged:
		r.status = events.RunStatusMerged
	case events.RunRejected:
		r.status = events.RunStatusRejected
	case events.RunFailed:
		r.status = events.RunStatusFailed
	case events.RunCancelled:
		r.status = events.RunStatusCancelled
	case events.RunFactsRecorded, events.RunPlanRecorded, events.RunBudgetSet, events.RunBranchCreated, events.RunGuardrailsChecked,
		events.RunJobSettled,
		events.RunReviewed, events.RunPullRequestOpened, events.RunHumanIntervened, events.RunCostRecorded:
		// nothing is decided by them
	default:
		r.applyDecision(e)
	}
}

// Queue starts the run.
func (r *Run) Queue(e events.RunQueued) ([]events.Event, error) {
	switch {
	case r.status != "":
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
func (r *Run) Issue() (repo events.Repo, number int) { return r.repo, r.issue }

// Over reports whether the run has ended.
func (r *Run) Over() bool { return !r.status.Active() }

// Record adds facts that the loop reports, all of them or none: each has to be possible
// after the ones before it.
func (r *Run) Record(facts ...events.Event) (list []events.Event, err error) {
	next := r.clone()
	for _, f := range facts {
		if err := next.check(f); err != nil {
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

// Cancel stops the run at a person's request, unless it is being merged.
func (r *Run) Cancel(reason string) ([]events.Event, error) {
	if err := input.NoTokens(map[string]string{"reason": reason}); err != nil {
		return nil, err
	}
	if r.status == events.RunStatusMerging {
		return nil, ErrRunOutOfStep
	}
	return r.Record(events.RunCancelled{Repo: r.repo.ID, Reason: reason})
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

// withVoided returns a fact and the events that follow from it: a push voids decisions and
// approvals of the commit before it, and the end of the run voids all open decisions.
func (r *Run) withVoided(f events.Event) []events.Event {
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

func (r *Run) check(fact events.Event) error {
	if r.status == "" {
		return ErrNoRun
	}
	_, ok := fact.(interface{ IsRun() })
	switch e := fact.(type) {
	case events.RunCostRecorded: // bills may arrive after the run has ended
		return nil
	case events.RunJobSettled: // and so may results of jobs
		if !r.jobs[e.Job] {
			return ErrRunOutOfStep
		}
		return nil
	case events.RunQueued:
		ok = false
	case events.RunStageEntered:
		ok = r.mayEnter(e)
	case events.RunStageSucceeded:
		ok = e.Stage == r.stage && e.Attempt == r.attempts[e.Stage] && !r.stageOver
	case events.RunStageFailed:
		ok = e.Stage == r.stage && e.Attempt == r.attempts[e.Stage] && !r.stageOver
	case events.RunJobRequested:
		ok = !e.Job.IsZero() && !r.jobs[e.Job]
	case events.RunBudgetSet:
		ok = e.Cents >= 0 && e.ComputeMS >= 0 && e.Rounds >= 0 && e.Rounds <= maxInt32
	case events.RunGuardrailsChecked:
		ok = r.isHead(e.Head)
	case events.RunReviewed:
		ok = r.isHead(e.Head)
	case events.DecisionRaised:
		ok = r.mayRaise(e)
	case events.DecisionAnswered, events.DecisionVoided:
		ok = false // answers come from Answer, and voids from other facts
	case events.RunCommitsPushed:
		ok = r.status != events.RunStatusMerging // the approved commit has to be the one that is merged
	case events.RunPullRequestOpened:
		ok = e.Number >= 1 && e.Number <= maxInt32
	case events.RunMergeApproved:
		ok = r.status == events.RunStatusAwaitingApproval && r.isHead(e.Head)
	case events.RunMergeApprovalVoided:
		ok = r.approved != "" && e.Head == r.approved
	case events.RunMergeAttempted:
		ok = r.status == events.RunStatusAwaitingApproval && e.Head == r.approved && r.isHead(e.Head)
	case events.RunMerged:
		ok = r.status == events.RunStatusMerging && r.isHead(e.Head)
	}
	switch {
	case r.Over():
		return ErrRunOver
	case !ok:
		return ErrRunOutOfStep
	}
	return nil
}

// isHead reports whether head is the newest commit of the run's branch.
func (r *Run) isHead(head string) bool { return head != "" && head == r.head }

// mayEnter reports whether the run may enter a stage: the next one if the current one has
// succeeded, the same one again, or an earlier one. It may not while it waits for a person,
// or if it is in a stage that this build does not know.
func (r *Run) mayEnter(e events.RunStageEntered) bool {
	from, to := r.stage.Index(), e.Stage.Index()
	return len(r.openDecisions()) == 0 && to >= 1 && e.Attempt == r.attempts[e.Stage]+1 &&
		(to <= from || to == from+1 && r.stageSucceeded)
}

func (r *Run) clone() *Run {
	next := *r
	next.attempts, next.jobs, next.decisions = maps.Clone(r.attempts), maps.Clone(r.jobs), maps.Clone(r.decisions)
	return &next
}
