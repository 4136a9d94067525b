package loop

import (
	"time"

	"svc/aggregates"
	"svc/engine/client"
	"svc/events"
)

// Surroundings are what a run's next move depends on besides its own stream.
type Surroundings struct {
	Repo    Repo
	Earlier bool                   // an earlier run of the same issue is not tidied up yet
	Jobs    map[events.ID]JobState // at the farm, of the run's unsettled jobs
	Look    *client.LookResult     // how its branch and pull request are at the code host; nil if nobody looked
	Issue   aggregates.Issue       // what its runs cost, if they share a budget
	Now     time.Time
}

// A Repo is the repository of a run.
type Repo struct {
	Connected bool
	Paused    string // why; "" if it is not
	Host      events.RepoHost
	Settings  events.RepoSettings

	Missed  string    // why the implementer is not available; "" if it is
	RetryAt time.Time // until then nobody tries it
}

// A JobState is the state of a job at the farm.
type JobState struct {
	State   events.JobState
	Settled bool // it is final, and no artifact of it will come any more
}

// A Move is what comes next for a run: exactly one of the fields is set.
type Move struct {
	Settle events.ID      // record how this job ended
	Record []events.Event // facts that need nothing from outside
	Ask    *Question
	Claim  Claim
	Start  *Job
	Do     *Step
	Wait   *Wait
	Done   bool // nothing will ever come
}

// A Question is a decision that a person is asked for.
type Question struct {
	Kind events.DecisionKind
	Text string
	Head string
}

// A Claim is something that only one run can have at a time.
type Claim int

// The claims.
const (
	ClaimSlot Claim = iota + 1 // a place among the active runs
	ClaimLane                  // the turn to merge
)

// A Job is a job of the farm that the run needs.
type Job struct {
	Purpose events.JobPurpose
	Name    string
	Head    string // commit to check out
	Attempt int
}

// A Step is a step of the engine. Job is the one whose change is to be committed.
type Step struct {
	Kind client.Kind
	Job  events.ID
	Head string // of an inspection
}

// A Wait says what the run waits for. It is looked at again after For at the latest; with 0, when
// something happens to it.
type Wait struct {
	Code   events.WaitCode // "" for people and jobs, which the run shows by itself
	Detail string
	For    time.Duration
}

// maxTries is how often a job is tried that fails through no fault of the code.
const maxTries = 3

// recheck is after what time a run that waits for something that should announce itself is looked
// at nevertheless.
const recheck = time.Minute

// Next returns a run's next move. It knows no clock, network or database.
func Next(p *aggregates.Progress, in Surroundings) Move {
	for _, row := range rows {
		if m, ok := row(p, in); ok {
			return m
		}
	}
	return Move{Wait: &Wait{For: recheck}} // a stage of a newer build
}

// rows are the rules in their order. The first one that applies decides.
var rows = []func(*aggregates.Progress, Surroundings) (Move, bool){
	settle, afterEnd, stopped, unavailable, seenAtHost, undecided, merging,
	queued, read, rejoin, analyze, plan, implement, build, review, merge,
}

// settle records how jobs ended.
func settle(p *aggregates.Progress, in Surroundings) (Move, bool) {
	for _, j := range p.Jobs {
		if j.State == "" && in.Jobs[j.Job].Settled {
			return Move{Settle: j.Job}, true
		}
	}
	return Move{}, false
}

// afterEnd tidies up.
func afterEnd(p *aggregates.Progress, in Surroundings) (Move, bool) {
	if !p.Over() {
		return Move{}, false
	}
	switch m, ok := testMerged(p); {
	case p.Started == nil:
		return Move{Done: true}, true
	case p.Tidied == nil && ok:
		return m, true
	case p.Tidied != nil && hasOpenJobs(p):
		return Move{Wait: &Wait{For: recheck}}, true // for their results
	case p.Tidied != nil:
		return Move{Done: true}, true
	case p.Attempts[events.StageImplementing] == 0: // so that nothing can have been pushed, recorded or not
		return record(events.RunTidied{PullRequest: "none", Branch: "none"}), true
	case !in.Repo.Connected:
		return record(events.RunTidied{PullRequest: "left", Branch: "left"}), true
	case in.Repo.Paused != "":
		return Move{Wait: &Wait{For: recheck}}, true
	}
	return Move{Do: &Step{Kind: client.StepTidy}}, true
}

// testMerged runs the required jobs on a merge commit that is not the candidate which passed them.
func testMerged(p *aggregates.Progress) (Move, bool) {
	if p.Merged == nil || !p.Merged.Untested || p.Base == nil {
		return Move{}, false
	}
	r := jobsOn(p, events.JobAfterMerge, p.Merged.MergeCommit)
	switch {
	case r.start != nil:
		return Move{Start: r.start}, true
	case r.open:
		return Move{Wait: &Wait{For: recheck}}, true
	}
	return Move{}, false
}

// stopped ends a run that somebody stopped while it was merging.
func stopped(p *aggregates.Progress, _ Surroundings) (Move, bool) {
	if p.Stop == nil || p.Status == events.RunStatusMerging {
		return Move{}, false
	}
	return record(events.RunCancelled{Reason: p.Stop.Reason}), true
}

const disconnected = "The repository was disconnected. Cancel the run, and queue its issue again where it is connected."

// unavailable waits for the repository.
func unavailable(_ *aggregates.Progress, in Surroundings) (Move, bool) {
	switch {
	case !in.Repo.Connected:
		return wait(events.WaitRepo, disconnected, recheck), true
	case in.Repo.Paused != "":
		return wait(events.WaitPaused, in.Repo.Paused, recheck), true
	}
	return Move{}, false
}

// seenAtHost follows what people did at the code host.
func seenAtHost(p *aggregates.Progress, in Surroundings) (Move, bool) {
	look := in.Look
	if look == nil || p.Head == "" || p.Status == events.RunStatusMerging {
		return Move{}, false
	}
	pr := look.PullRequest
	switch {
	case pr != nil && pr.State == "merged":
		return record(events.RunMerged{
			Head: pr.Head, MergeCommit: pr.MergeCommit, Tree: pr.Tree, Base: pr.FirstParent, Outside: true, By: pr.By, Untested: pr.Tree != p.Tree,
		}), true
	case look.Contained:
		return record(events.RunMerged{Head: p.Head, MergeCommit: look.Base, Outside: true, Untested: true}), true
	case pr != nil && pr.State == "closed":
		return record(events.RunRejected{Reason: by("The pull request was closed at the code host", pr.By)}), true
	case look.Head == "":
		return fail(p, events.FailBranch, "The branch of the run was deleted at the code host."), true
	case look.Head != p.Head && p.Base != nil:
		return Move{Do: &Step{Kind: client.StepInspect, Head: look.Head}}, true // a person pushed
	}
	return Move{}, false
}

func by(sentence, who string) string {
	if who != "" {
		sentence += " by " + who
	}
	return sentence + "."
}

// undecided waits for a person. The watcher makes the run due if something happens at the code host.
func undecided(p *aggregates.Progress, _ Surroundings) (Move, bool) {
	return Move{Wait: &Wait{}}, p.Decision != nil
}

// merging finishes a merge whose attempt is recorded. An attempt of an earlier build had no candidate: if it did not merge,
// the run makes one.
func merging(p *aggregates.Progress, _ Surroundings) (Move, bool) {
	if p.Candidate == nil {
		return record(events.RunMergePostponed{Head: p.Head, Reason: "no_candidate"}), p.Status == events.RunStatusMerging
	}
	return Move{Do: &Step{Kind: client.StepMerge}}, p.Status == events.RunStatusMerging
}

func record(facts ...events.Event) Move { return Move{Record: facts} }

func wait(code events.WaitCode, detail string, most time.Duration) Move {
	return Move{Wait: &Wait{Code: code, Detail: detail, For: most}}
}

// fail ends the run in its present stage.
func fail(p *aggregates.Progress, code events.FailCode, reason string) Move {
	return Move{Record: failed(p, code, reason)}
}

func failed(p *aggregates.Progress, code events.FailCode, reason string) (facts []events.Event) {
	if !p.StageOver {
		facts = append(facts, events.RunStageFailed{Stage: p.Stage, Attempt: p.Attempts[p.Stage], Reason: reason})
	}
	return append(facts, events.RunFailed{Stage: p.Stage, Reason: reason, Code: code})
}

// enter completes the present stage and enters the next one.
func enter(p *aggregates.Progress, to events.Stage, first ...events.Event) Move {
	return Move{Record: append(first,
		events.RunStageSucceeded{Stage: p.Stage, Attempt: p.Attempts[p.Stage]},
		events.RunStageEntered{Stage: to, Attempt: p.Attempts[to] + 1},
	)}
}

func hasOpenJobs(p *aggregates.Progress) bool {
	for _, j := range p.Jobs {
		if j.State == "" {
			return true
		}
	}
	return false
}
