package aggregates

import (
	"slices"

	"svc/events"
)

// check returns an error unless the loop may record the fact.
func (r *Run) check(fact events.Event) error {
	if r.p.Status == "" {
		return ErrNoRun
	}
	_, ok := fact.(interface{ IsRun() })
	ok = ok && r.mayHave(fact)
	switch {
	case ok:
		return nil
	case r.Over() && !mayBeLate(fact):
		return ErrRunOver
	}
	return ErrRunOutOfStep
}

// mayBeLate reports whether facts of that kind are about a run that is over.
func mayBeLate(fact events.Event) bool {
	switch fact.(type) {
	case events.RunCostRecorded, events.RunJobSettled, events.RunTidied:
		return true
	}
	return false
}

// mayHave reports whether a fact is possible now.
func (r *Run) mayHave(fact events.Event) bool {
	switch e := fact.(type) {
	case events.RunCostRecorded: // bills may arrive after the run has ended
		return r.mayCost(e)
	case events.RunJobSettled: // and so may results of jobs
		return r.maySettle(e)
	case events.RunJobRequested:
		return r.mayRequest(e)
	case events.RunPullRequestOpened: // also at the very moment at which the run ended
		return e.Number >= 1 && e.Number <= maxInt32 && r.p.PullRequest == 0 && r.p.Tidied == nil
	case events.RunTidied:
		return r.mayTidy(e)
	}
	if r.Over() || r.p.Stop != nil && r.p.Status != events.RunStatusMerging && !mayFollowStop(fact) {
		return false
	}
	switch e := fact.(type) {
	case events.RunStarted:
		return r.p.Started == nil && r.p.Stage == events.StageQueued && inRange(e.Slot) && inRange(e.RepoSlot)
	case events.RunWaiting:
		return (e.Code != "" || r.p.Wait != nil) && (r.p.Wait == nil || *r.p.Wait != e) && r.mayMiss(e.Job)
	case events.RunStageEntered:
		return r.mayEnter(e) && r.hasRound(e)
	case events.RunStageSucceeded:
		return r.mayEnd(e.Stage, e.Attempt) && r.hasDone(e.Stage)
	case events.RunStageFailed:
		return r.mayEnd(e.Stage, e.Attempt) && r.p.Status != events.RunStatusMerging
	case events.RunHumanIntervened, events.RunRejected, events.RunFailed, events.RunCancelled:
		return true
	case events.DecisionRaised:
		return r.mayRaise(e)
	}
	return r.mayWork(fact) || r.mayMerge(fact)
}

// mayFollowStop reports whether a fact may follow once somebody has stopped a run whose attempt to merge
// did not: its end, by the service or at the code host, and what it waits for meanwhile.
func mayFollowStop(fact events.Event) bool {
	switch e := fact.(type) {
	case events.RunCancelled, events.RunRejected, events.RunWaiting:
		return true
	case events.RunMerged:
		return e.Outside
	}
	return false
}

func inRange(n int) bool { return n >= 1 && n <= maxInt32 }

// maxCostKey is the maximum length of a cost's key.
const maxCostKey = 200

// mayCost reports whether a cost was not recorded before.
func (r *Run) mayCost(e events.RunCostRecorded) bool {
	_, known := slices.BinarySearch(r.costKeys, e.Key)
	return e.Key != "" && len(e.Key) <= maxCostKey && !known && e.Cents >= 0 && (!e.Unknown || e.Cents == 0)
}

// maySettle reports whether a job that the run requested ended for the first time.
func (r *Run) maySettle(e events.RunJobSettled) bool {
	i := r.p.job(e.Job)
	s := events.JobState(e.Status)
	return i >= 0 && r.p.Jobs[i].State == "" && s.Final() && slices.Contains(events.JobStates(), s)
}

// mayRequest reports whether the run may request a job: one that it needs now, and one at a time with
// the same name and purpose on the same commit.
func (r *Run) mayRequest(e events.RunJobRequested) bool {
	same := func(j RunJob) bool {
		return j.Job == e.Job || j.State == "" && j.Purpose == e.Purpose && j.Name == e.Name && j.Head == e.Head
	}
	if e.Job.IsZero() || e.Name == "" || e.Head == "" || !inRange(e.Attempt) || slices.ContainsFunc(r.p.Jobs, same) {
		return false
	}
	active := !r.Over() && r.p.Stop == nil
	required := r.p.Base != nil && slices.Contains(r.p.Base.RequiredJobs, e.Name)
	switch e.Purpose {
	case events.JobImplements:
		return active && r.works(events.StageImplementing)
	case events.JobAnalyzes:
		return active && r.works(events.StageAnalyze)
	case events.JobPlans:
		return active && r.works(events.StagePlan)
	case events.JobReviews:
		return active && r.works(events.StageSelfReview) && e.Head == r.p.Head
	case events.JobRequired:
		return active && required && e.Head == r.p.Head
	case events.JobLane:
		return active && required && r.p.Candidate != nil && e.Head == r.p.Candidate.Commit
	case events.JobAfterMerge:
		m := r.p.Merged
		return required && m != nil && m.Untested && e.Head == m.MergeCommit && r.p.Tidied == nil
	}
	return false
}

// mayMiss reports whether the implementer may have been unavailable to a job: the newest one of this round, which has
// ended; or to none.
func (r *Run) mayMiss(job events.ID) bool {
	if job.IsZero() {
		return true
	}
	j := r.p.job(job)
	return j >= 0 && j == len(r.p.Jobs)-1 && r.p.Jobs[j].Purpose.IsImplementers() && r.p.Jobs[j].State != "" &&
		!r.p.Jobs[j].Away && r.p.Jobs[j].Round == r.p.Round()
}

// works reports whether the implementer may work on a stage: it is the present one, and there is money.
func (r *Run) works(s events.Stage) bool { return r.p.Stage == s && !r.p.StageOver && !r.p.Spent() }

func (r *Run) mayTidy(e events.RunTidied) bool {
	return r.Over() && r.p.Tidied == nil && slices.Contains([]string{"merged", "closed", "left", "none"}, e.PullRequest) &&
		slices.Contains([]string{"deleted", "left", "none"}, e.Branch)
}

// mayEnter reports whether the run may enter a stage: the next one if the current one has
// succeeded, the same one again, or an earlier one. It may not while it waits for a person or is being
// merged, before it has a place, or if it is in a stage that this build does not know.
func (r *Run) mayEnter(e events.RunStageEntered) bool {
	from, to := r.p.Stage.Index(), e.Stage.Index()
	placed := r.p.Started != nil || r.p.Stage != events.StageQueued
	return placed && r.p.Decision == nil && r.p.Status != events.RunStatusMerging && to >= 1 && e.Attempt == r.p.Attempts[e.Stage]+1 &&
		(to <= from || to == from+1 && r.p.StageSucceeded)
}

// hasRound reports whether the budget leaves another round. All rounds count, but a person who asks for
// one gets it: answers do not need this.
func (r *Run) hasRound(e events.RunStageEntered) bool {
	return e.Stage != events.StageImplementing || r.p.Budget == nil || r.p.Budget.Rounds == 0 || e.Attempt <= r.p.Budget.Rounds
}

func (r *Run) mayEnd(s events.Stage, attempt int) bool {
	return s == r.p.Stage && attempt == r.p.Attempts[s] && !r.p.StageOver
}

// hasDone reports whether the work of the stage is done.
func (r *Run) hasDone(s events.Stage) bool {
	switch s {
	case events.StageImplementing:
		return r.p.Head != "" && r.p.HeadRound == r.p.Round() && r.p.Guarded()
	case events.StageBuildFarm:
		return r.p.Built()
	case events.StageSelfReview:
		return r.p.Reviewed()
	case events.StageMerge:
		return r.p.Status == events.RunStatusMerging
	}
	return true
}

// mayWork reports whether a fact of the stages before Merge is possible.
func (r *Run) mayWork(fact events.Event) bool {
	p := &r.p
	switch e := fact.(type) {
	case events.RunIssueRead:
		return p.IssueRead == nil || p.Stage == events.StageAnalyze
	case events.RunBaseRead:
		return e.Branch != "" && e.Commit != "" && e.Policy != "" && p.Decision == nil && p.Status != events.RunStatusMerging &&
			(p.Base == nil || !sameBase(*p.Base, e))
	case events.RunFactsRecorded:
		return true
	case events.RunPlanRecorded:
		return p.Stage == events.StagePlan && r.plannedIn < p.Attempts[events.StagePlan]
	case events.RunBudgetSet:
		return e.Cents >= 0 && e.ComputeMS >= 0 && e.Rounds >= 0 && e.Rounds <= maxInt32
	case events.RunEstimated:
		return e.When != "" && !slices.Contains(p.Estimated, e.When) && e.Merged >= 0 && e.Merged <= len(e.Basis) && len(e.Basis) <= maxBasis
	case events.RunBranchCreated:
		return e.Branch != "" && p.Branch == ""
	case events.RunCommitsPushed:
		return r.mayPush(e)
	case events.RunGuardrailsChecked:
		return r.mayGuard(e)
	case events.RunReviewed:
		return r.isHead(e.Head) && p.Review == nil && (e.Verdict == ReviewPass || e.Verdict == ReviewBlocking)
	}
	return false
}

// maxBasis is how many runs an estimate may be based on.
const maxBasis = 100

func sameBase(a, b events.RunBaseRead) bool {
	return a.Branch == b.Branch && a.Commit == b.Commit && a.Policy == b.Policy && slices.Equal(a.RequiredJobs, b.RequiredJobs)
}

// mayPush reports whether the branch may move to another commit. While the run is being merged, only a
// person can move it: the loop has to leave the approved commit alone.
func (r *Run) mayPush(e events.RunCommitsPushed) bool {
	by := e.By == events.PushedByPerson || e.By == events.PushedByLoop && r.p.Status != events.RunStatusMerging
	return by && e.Head != "" && e.Head != r.p.Head && len(e.Files) <= events.MaxPushedFiles
}

// mayGuard reports whether guardrails may be recorded: what they found on the head under the policy in
// force, if it is news. Only a person can allow what they found.
func (r *Run) mayGuard(e events.RunGuardrailsChecked) bool {
	last, base := r.p.Guardrails, r.p.Base
	switch e.Status {
	case GuardrailsClean, GuardrailsBlocked:
	case GuardrailsAllowed:
		if e.Head != r.p.AllowedAt {
			return false
		}
	default:
		return false
	}
	return r.isHead(e.Head) && base != nil && e.Policy == base.Policy &&
		(last == nil || last.Policy != e.Policy || last.Status != e.Status)
}

// isHead reports whether head is the newest commit of the run's branch.
func (r *Run) isHead(head string) bool { return head != "" && head == r.p.Head }

// job returns the index of one of the run's jobs, or -1.
func (p *Progress) job(id events.ID) int {
	return slices.IndexFunc(p.Jobs, func(j RunJob) bool { return j.Job == id })
}
