package loop

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"svc/aggregates"
	"svc/engine/client"
	"svc/events"
	"svc/input/markdown"
)

// queued takes a place among the active runs, once nothing is left of earlier runs of the issue.
func queued(p *aggregates.Progress, in Surroundings) (Move, bool) {
	switch {
	case p.Stage != events.StageQueued:
		return Move{}, false
	case in.Earlier:
		return wait(events.WaitTidy, "An earlier run of this issue is being tidied up.", recheck), true
	}
	return Move{Claim: ClaimSlot}, true
}

// read has the issue and the base read: in the analysis, and in any stage of a run that began with an earlier build.
func read(p *aggregates.Progress, _ Surroundings) (Move, bool) {
	return Move{Do: &Step{Kind: client.StepIssue}}, p.IssueRead == nil || p.Base == nil
}

// analyze reads the issue and the base, and collects what can be known without anybody's help.
func analyze(p *aggregates.Progress, in Surroundings) (Move, bool) {
	switch {
	case p.Stage != events.StageAnalyze:
		return Move{}, false
	case !p.IssueRead.Open && !p.Corrected:
		return Move{Ask: &Question{Kind: events.FactReview, Text: "The issue was closed meanwhile. Go on with it?"}}, true
	case in.Repo.Settings.Implementer.Kind == events.ImplementerPatch && patchOf(p.IssueRead.Body) == "":
		return fail(p, events.FailNoPatch, "The issue carries no patch: a block that begins with ```diff."), true
	}
	if m, ok := consult(p, in, events.JobAnalyzes, p.Base.Commit); ok {
		return m, true
	}
	return enter(p, events.StagePlan, events.RunFactsRecorded{Facts: facts(p, in)}), true
}

// facts are what the analysis says about the issue. Those of a person stay.
func facts(p *aggregates.Progress, in Surroundings) []string {
	list := []string{fmt.Sprintf("The issue is #%d, “%s”.", p.Issue, p.IssueRead.Title)}
	if !p.IssueRead.Open {
		list[0] += " It is closed."
	}
	if in.Repo.Settings.Implementer.Kind == events.ImplementerPatch {
		list = append(list, "It carries a patch of "+countOf(len(patchedFiles(patchOf(p.IssueRead.Body))), "file")+".")
	}
	if _, hidden := markdown.Shown(p.IssueRead.Body); hidden.Some() {
		list = append(list, fmt.Sprintf("Hidden text was taken out of the issue: %s, %s that nobody sees.",
			countOf(hidden.Comments, "comment"), countOf(hidden.Characters, "character")))
	}
	list = append(list, fmt.Sprintf("The work begins from commit %.12s of %s.", p.Base.Commit, p.Base.Branch))
	if p.Corrected {
		list = append(list, p.Facts...)
	}
	return list
}

// plan says what will be done, and what it may cost.
func plan(p *aggregates.Progress, in Surroundings) (Move, bool) {
	if p.Stage != events.StagePlan {
		return Move{}, false
	}
	if p.Plan != nil {
		return enter(p, events.StageImplementing), true
	}
	if m, ok := consult(p, in, events.JobPlans, p.Base.Commit); ok {
		return m, true
	}
	planned, budget := ownPlan(p, in)
	return enter(p, events.StageImplementing, planned, budget), true
}

// ownPlan returns the plan of a run that the implementer has no part in, and its budget.
func ownPlan(p *aggregates.Progress, in Surroundings) (events.RunPlanRecorded, events.RunBudgetSet) {
	s := in.Repo.Settings
	planned := events.RunPlanRecorded{
		Implementer: implementerName(s.Implementer), Summary: "Let the implementer change the code.",
		Steps: []string{"Run the implementer as a job of the farm"},
	}
	if s.Implementer.Kind == events.ImplementerPatch {
		planned.Summary, planned.Steps = "Apply the patch of the issue.", []string{"Apply the patch"}
		planned.Files = patchedFiles(patchOf(p.IssueRead.Body))
	}
	if n := len(p.Base.RequiredJobs); n > 0 {
		planned.Steps = append(planned.Steps, "Pass "+strings.Join(p.Base.RequiredJobs, ", ")+" at the farm")
	}
	planned.Steps = append(planned.Steps, "Ask a person to approve the merge into "+p.Base.Branch)
	return planned, events.RunBudgetSet{Cents: cmp.Or(p.Base.Cents, s.Cents), Rounds: cmp.Or(p.Base.Rounds, s.Rounds)}
}

// implement gets a commit, and has it checked against the guardrails.
func implement(p *aggregates.Progress, in Surroundings) (Move, bool) {
	switch {
	case p.Stage != events.StageImplementing:
		return Move{}, false
	case p.HeadRound < p.Round():
		return write(p, in), true
	case p.Repeats > 0:
		reason := fmt.Sprintf("The change is the same as that of round %d. %s", p.Repeats, lastFinding(p))
		return fail(p, events.FailNoChange, strings.TrimSpace(reason)), true
	}
	return guarded(p, in, func() Move { return enter(p, events.StageBuildFarm) }), true
}

// write lets the implementer write the commit of this round.
func write(p *aggregates.Progress, in Surroundings) Move {
	if in.Repo.Settings.Implementer.Kind == events.ImplementerPatch {
		if p.Head != "" && !p.Rebased {
			return fail(p, events.FailRounds, "The patch of the issue is all that there is: "+lastFinding(p))
		}
		return Move{Do: &Step{Kind: client.StepCommit}}
	}
	last := lastJob(p, events.JobImplements, "", "")
	if last == nil || last.Round < p.Round() {
		return implementAt(p, in, events.JobImplements, parentOf(p), 1)
	}
	return afterJob(p, in, last, Move{Do: &Step{Kind: client.StepCommit, Job: last.Job}})
}

// afterJob returns what follows on a job of the implementer: ended if it has ended.
func afterJob(p *aggregates.Progress, in Surroundings, last *aggregates.RunJob, ended Move) Move {
	switch {
	case last.State == "":
		return Move{Wait: &Wait{For: recheck}}
	case last.Asked, last.Away: // it got an answer, or is available again
	case !faultless(last.State):
		return ended
	case failedTries(p, last) >= maxTries:
		return surroundingsFailed(p, last)
	}
	return implementAt(p, in, last.Purpose, last.Head, last.Attempt+1)
}

// failedTries counts the newest tries of a job of the implementer that failed through no fault of it.
func failedTries(p *aggregates.Progress, last *aggregates.RunJob) (n int) {
	for i := range slices.Backward(p.Jobs) {
		switch j := &p.Jobs[i]; {
		case j.Purpose != last.Purpose:
		case j.Round < last.Round || j.Head != last.Head || !faultless(j.State):
			return n
		default:
			n++
		}
	}
	return n
}

// implementAt runs the implementer on a commit, unless the money for it is used or it is not available.
func implementAt(p *aggregates.Progress, in Surroundings, purpose events.JobPurpose, head string, attempt int) Move {
	if p.Spent() {
		reason := fmt.Sprintf("The budget of %d cents is used.", p.Budget.Cents)
		if p.CostUnknown {
			reason = fmt.Sprintf("Nobody knows what the implementer cost so far, so all of the budget of %d cents counts as used.", p.Budget.Cents)
		}
		return fail(p, events.FailBudget, strings.TrimSpace(reason+" "+lastFinding(p)))
	}
	if budget := in.Repo.Settings.IssueCents; in.Issue.Spent(budget) {
		reason := fmt.Sprintf("The budget of %d cents for all runs of the issue is used.", budget)
		if _, unknown := in.Issue.Costs(); unknown {
			reason = fmt.Sprintf("Nobody knows what a run of the issue cost, so all of its budget of %d cents counts as used.", budget)
		}
		return fail(p, events.FailBudget, strings.TrimSpace(reason+" "+lastFinding(p)))
	}
	if pause := in.Repo.RetryAt.Sub(in.Now); pause > 0 {
		return wait(events.WaitAgent, in.Repo.Missed, pause)
	}
	return Move{Start: &Job{Purpose: purpose, Name: string(purpose), Head: head, Attempt: attempt}}
}

// parentOf returns the commit that a round continues: the head, or the base if there is no head yet
// or the work has to be done again on a new base.
func parentOf(p *aggregates.Progress) string {
	if p.Head == "" || p.Rebased {
		return p.Base.Commit
	}
	return p.Head
}

func lastFinding(p *aggregates.Progress) string {
	if len(p.Findings) == 0 {
		return ""
	}
	return p.Findings[len(p.Findings)-1]
}

// faultless reports whether a job that ended like that says nothing about the code.
func faultless(s events.JobState) bool {
	switch s {
	case events.JobStateLost, events.JobStateExpired, events.JobStateCancelled:
		return true
	}
	return false
}

// surroundingsFailed ends a run whose jobs the farm could not run.
func surroundingsFailed(p *aggregates.Progress, j *aggregates.RunJob) Move {
	return fail(p, events.FailSurroundings,
		fmt.Sprintf("The job %s was tried %d times, and ended as %s: %s.", j.Name, j.Attempt, j.State, j.Reason))
}

// guarded has the guardrails checked on the head, and goes on if they are clean or were allowed.
func guarded(p *aggregates.Progress, in Surroundings, next func() Move) Move {
	g := p.Guardrails
	switch {
	case g == nil:
		return Move{Do: &Step{Kind: client.StepInspect, Head: p.Head}}
	case g.Status != "blocked":
		return next()
	case mayAllow(g) && in.Repo.Settings.MayAllowOnce:
		return Move{Ask: &Question{Kind: events.ProtectedPathOnce, Text: allowQuestion(g), Head: p.Head}}
	}
	return again(p, in, events.FailGuardrails, "The guardrails refuse it: "+blockedBy(g)+".")
}

// mayAllow reports whether a person can allow what the guardrails found.
func mayAllow(g *events.RunGuardrailsChecked) bool {
	for _, c := range g.Checks {
		if c.Status == "block" && c.Check != "protected_paths" {
			return false
		}
	}
	return true
}

func allowQuestion(g *events.RunGuardrailsChecked) string {
	var paths []string
	for _, c := range g.Checks {
		for _, f := range c.Findings {
			if c.Status == "block" {
				paths = append(paths, f.Path)
			}
		}
	}
	if len(paths) == 1 {
		return "Allow the change of " + paths[0] + " this once?"
	}
	return fmt.Sprintf("Allow the change of %s and %s this once?", paths[0], countOf(len(paths)-1, "other protected file"))
}

func blockedBy(g *events.RunGuardrailsChecked) string {
	var list []string
	for _, c := range g.Checks {
		if c.Status == "block" {
			text := strings.ReplaceAll(c.Check, "_", " ")
			if len(c.Findings) > 0 {
				text += " (" + c.Findings[0].Path + ")"
			}
			list = append(list, text)
		}
	}
	return strings.Join(list, ", ")
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// again implements once more because of a finding, unless all rounds are used.
func again(p *aggregates.Progress, in Surroundings, code events.FailCode, finding string, first ...events.Event) Move {
	switch {
	case in.Repo.Settings.Implementer.Kind == events.ImplementerPatch && len(first) == 0:
		return fail(p, code, finding)
	case p.Round() >= rounds(p, in):
		if code == events.FailGuardrails {
			return fail(p, code, finding)
		}
		return fail(p, events.FailRounds, fmt.Sprintf("No round is left after %s. %s", countOf(p.Round(), "round"), finding))
	}
	return Move{Record: append(first, reenter(p, events.StageImplementing, finding)...)}
}

// rounds is how often the run may implement.
func rounds(p *aggregates.Progress, in Surroundings) int {
	if p.Budget != nil && p.Budget.Rounds > 0 {
		return p.Budget.Rounds
	}
	return in.Repo.Settings.Rounds
}

// build has every required job pass on the head.
func build(p *aggregates.Progress, in Surroundings) (Move, bool) {
	if p.Stage != events.StageBuildFarm {
		return Move{}, false
	}
	if p.Guardrails == nil || p.Guardrails.Status == "blocked" { // the policy has changed, or a person pushed
		return guarded(p, in, nil), true
	}
	r := jobsOn(p, events.JobRequired, p.Head)
	switch {
	case r.start != nil:
		return Move{Start: r.start}, true
	case r.open:
		return Move{Wait: &Wait{For: recheck}}, true
	case r.exhausted != nil:
		return surroundingsFailed(p, r.exhausted), true
	case r.failed != nil:
		return afterFailure(p, in, r.failed, ""), true
	}
	return enter(p, events.StageSelfReview), true
}

// afterFailure implements once more because a required job failed, unless it failed like that in the round before.
func afterFailure(p *aggregates.Progress, in Surroundings, j *aggregates.RunJob, where string) Move {
	finding := where + failure(j)
	if isSameFailure(p, j) {
		return fail(p, events.FailSame, finding+" Its log ends in the same way as in the round before.")
	}
	return again(p, in, events.FailRounds, finding)
}

func failure(j *aggregates.RunJob) string {
	switch {
	case isIdle(j):
		return fmt.Sprintf("The job %s printed nothing for too long.", j.Name)
	case j.State == events.JobStateTimedOut:
		return fmt.Sprintf("The job %s took too long.", j.Name)
	case j.ExitCode != nil:
		return fmt.Sprintf("The job %s failed with exit code %d.", j.Name, *j.ExitCode)
	}
	return fmt.Sprintf("The job %s failed.", j.Name)
}

// isIdle reports whether a job was ended because it printed nothing.
func isIdle(j *aggregates.RunJob) bool {
	return j.State == events.JobStateTimedOut && j.Reason == "idle"
}

// review looks at the whole change once more before people are asked.
func review(p *aggregates.Progress, in Surroundings) (Move, bool) {
	switch {
	case p.Stage != events.StageSelfReview:
		return Move{}, false
	case p.Review == nil:
		if m, ok := consult(p, in, events.JobReviews, p.Head); ok {
			return m, true
		}
		return record(events.RunReviewed{Head: p.Head, Verdict: "pass", Findings: notes(p.Guardrails)}), true
	}
	return enter(p, events.StageMerge), true
}

// notes are what the guardrails found and do not block, for the person who is asked.
func notes(g *events.RunGuardrailsChecked) (list []string) {
	if g == nil {
		return nil
	}
	for _, c := range g.Checks {
		for _, f := range c.Findings {
			list = append(list, f.Path+": "+f.Rule)
		}
	}
	return list[:min(len(list), maxNotes)]
}

const maxNotes = 50

// jobResults are how the required jobs stand on a commit.
type jobResults struct {
	start     *Job // the next one to ask for
	open      bool // some have not ended
	failed    *aggregates.RunJob
	exhausted *aggregates.RunJob // tried too often
}

// jobsOn returns how the required jobs stand on a commit. All of them are asked for before any is
// waited for.
func jobsOn(p *aggregates.Progress, purpose events.JobPurpose, head string) (r jobResults) {
	for _, name := range p.Base.RequiredJobs {
		last := lastJob(p, purpose, name, head)
		switch {
		case last == nil:
			r.startFirst(Job{Purpose: purpose, Name: name, Head: head, Attempt: 1})
		case last.State == "":
			r.open = true
		case faultless(last.State) && last.Attempt >= maxTries:
			r.exhausted = last
		case faultless(last.State):
			r.startFirst(Job{Purpose: purpose, Name: name, Head: head, Attempt: last.Attempt + 1})
		case last.State != events.JobStateSucceeded && r.failed == nil:
			r.failed = last
		}
	}
	return r
}

func (r *jobResults) startFirst(j Job) {
	if r.start == nil {
		r.start = &j
	}
}

// lastJob returns the newest job of a purpose, with that name and on that commit unless they are "".
func lastJob(p *aggregates.Progress, purpose events.JobPurpose, name, head string) *aggregates.RunJob {
	for i := len(p.Jobs) - 1; i >= 0; i-- {
		j := &p.Jobs[i]
		if j.Purpose == purpose && (name == "" || j.Name == name) && (head == "" || j.Head == head) {
			return j
		}
	}
	return nil
}

// merge proposes the head, asks a person, and merges what was approved when it is the run's turn.
func merge(p *aggregates.Progress, in Surroundings) (Move, bool) {
	switch {
	case p.Stage != events.StageMerge:
		return Move{}, false
	case p.Lane && p.Guardrails != nil && p.Guardrails.Status == "blocked": // by a policy that came after the approval
		return record(events.RunMergeApprovalVoided{Head: p.Approved, Reason: "policy_changed"}), true
	case p.Guardrails == nil || p.Guardrails.Status == "blocked":
		return guarded(p, in, nil), true
	case p.PullRequest == 0 && in.Repo.Host.Kind != events.HostGit:
		return Move{Do: &Step{Kind: client.StepPropose}}, true
	case p.Approved == "":
		return Move{Ask: &Question{Kind: events.MergeApproval, Text: mergeQuestion(p), Head: p.Head}}, true
	case !p.Lane:
		return Move{Claim: ClaimLane}, true
	case p.Candidate == nil && p.Postponed >= maxPostponed:
		return record(events.RunMergeApprovalVoided{Head: p.Approved, Reason: "base_moving"}), true // and asks again
	case p.Candidate == nil:
		return Move{Do: &Step{Kind: client.StepReady}}, true
	}
	return land(p, in), true
}

// maxPostponed is how often a merge is tried before people are asked again.
const maxPostponed = 10

func mergeQuestion(p *aggregates.Progress) string {
	if p.PullRequest == 0 {
		return fmt.Sprintf("Merge “%s” into %s?", p.Title, p.Base.Branch)
	}
	return fmt.Sprintf("Merge #%d “%s” into %s?", p.PullRequest, p.Title, p.Base.Branch)
}

// land merges the candidate once its tree has passed the required jobs.
func land(p *aggregates.Progress, in Surroundings) Move {
	purpose, at := events.JobLane, p.Candidate.Commit
	if p.Candidate.Tree == p.Tree { // it has passed them already, unless the policy requires more by now
		purpose, at = events.JobRequired, p.Head
	}
	r := jobsOn(p, purpose, at)
	switch {
	case r.start != nil:
		return Move{Start: r.start}
	case r.open:
		return Move{Wait: &Wait{For: recheck}}
	case r.exhausted != nil:
		return surroundingsFailed(p, r.exhausted)
	case r.failed != nil:
		return afterFailure(p, in, r.failed, "Merged with the present "+p.Base.Branch+": ")
	}
	return record(events.RunMergeAttempted{Head: p.Head, Commit: p.Candidate.Commit})
}
