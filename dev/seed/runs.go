package seed

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
)

var titles = []string{
	"Fix date parsing in the import", "Retry webhooks with backoff", "Dark mode for the settings page",
	"Speed up the member search", "Upgrade the TLS library", "Typo in the invitation text",
	"Cache the avatar images", "Handle an empty repository", "Show the run's cost in the list",
	"Refuse file names with a NUL", "Flaky test in the scheduler", "Sort labels by name",
	"Memory grows while exporting", "Keyboard shortcut for search", "Wrong time zone in reports",
	"Validate the slug on rename", "Log the request id everywhere", "Split the build into stages",
}

// What runs have to keep: the job that they have to pass, and the policy of every repository.
const (
	requiredJob = "build and test"
	policy      = "6f1d8c20b7a3e5941c0d2f68"
	mainBranch  = "main"
)

// Budget of each run. No run exceeds it: the third round is the last.
const (
	budgetCents   = 500
	budgetCompute = 30 * time.Minute
	budgetRounds  = 3
)

// A simulatedRun simulates one run.
type simulatedRun struct {
	s         *seed
	workspace demoWorkspace
	run       events.ID
	repo      events.Repo
	issue     int
	title     string
	attempt   map[events.Stage]int
	stage     events.Stage
	base      string // commit that the work began from
	head      string
	tree      string              // of head
	candidate string              // what merging head gives
	changed   []events.FileChange // changed on the branch besides the code and its test
	job       events.ID
	place     events.RunStarted
	costs     int       // recorded so far
	decision  events.ID // the newest decision
	answered  bool      // that decision was answered
	cents     int64     // cost so far
	err       error     // first error; later steps do nothing

	pace time.Duration        // length of a minute in the simulation
	end  time.Time            // with wait: time of the last event at the latest
	wait func(time.Time) bool // nil if nothing else happens meanwhile
}

// simulateEndedRuns simulates n runs that end on the day that begins now.
func (s *seed) simulateEndedRuns(p demoWorkspace, n int) error {
	day := s.at
	for i := range n {
		s.at = day.Add(time.Duration(7+4*i)*time.Hour + time.Duration(s.random.IntN(50))*time.Minute)
		l := s.queue(p)
		switch luck := s.random.IntN(100); {
		case luck < 58:
			l.toReview(false).merge()
		case luck < 72:
			l.toReview(true).merge()
		case luck < 80:
			l.toReview(false).approvable().answer(aggregates.ActionReject, "Solved in another way.").over("closed")
		case luck < 92:
			l.fail()
		default:
			l.enter(events.StageAnalyze).cancel("No longer needed.")
		}
		if l.err != nil {
			return l.err
		}
	}
	return nil
}

func (s *seed) queue(p demoWorkspace) *simulatedRun {
	return s.queueIssue(p, titles[(s.issue+1)%len(titles)], p.repos[s.random.IntN(len(p.repos))])
}

func (s *seed) queueIssue(p demoWorkspace, title string, repo events.Repo) *simulatedRun {
	s.issue++
	l := &simulatedRun{s: s, workspace: p, run: s.id(), repo: repo, issue: s.issue, title: title, attempt: map[events.Stage]int{},
		pace: time.Minute}
	_, l.err = s.commands.QueueRun(s.ctx, commands.QueueRun{
		Meta: p.by(p.owner), Run: l.run, Repo: l.repo, IssueNumber: l.issue, IssueTitle: title,
	})
	return l
}

// advance advances the simulated time. Of a run that has an end it does not go beyond that, and others go on meanwhile.
func (l *simulatedRun) advance(d time.Duration) {
	if l.wait == nil {
		l.s.advance(d)
		return
	}
	at := l.s.at.Add(d)
	if at.After(l.end) {
		at = l.end
	}
	l.wait(at)
}

// record records facts of the run after a few minutes, scaled by pace.
func (l *simulatedRun) record(facts ...events.Event) *simulatedRun {
	if l.err != nil {
		return l
	}
	l.advance(time.Duration(1+l.s.random.IntN(6)) * l.pace)
	return l.store(facts...)
}

// store records facts of the run at once.
func (l *simulatedRun) store(facts ...events.Event) *simulatedRun {
	if l.err != nil {
		return l
	}
	_, err := l.s.commands.RecordRun(l.s.ctx, commands.RecordRun{Meta: l.workspace.bySystem("loop"), Run: l.run, Facts: facts})
	if err != nil {
		l.err = fmt.Errorf("run of issue %d, %s: %w", l.issue, facts[0].Kind(), err)
	}
	return l
}

// enter completes the present stage, if any, and begins another.
func (l *simulatedRun) enter(to events.Stage) *simulatedRun {
	var facts []events.Event
	if l.stage != "" {
		facts = append(facts, events.RunStageSucceeded{Stage: l.stage, Attempt: l.attempt[l.stage]})
	}
	return l.begin(to, facts...)
}

func (l *simulatedRun) begin(to events.Stage, before ...events.Event) *simulatedRun {
	if l.stage == "" {
		before = append(before, l.start()...)
	}
	l.stage = to
	l.attempt[to]++
	return l.record(append(before, events.RunStageEntered{Stage: to, Attempt: l.attempt[to]})...)
}

// start returns what a run begins with: its places, the issue and the base.
func (l *simulatedRun) start() []events.Event {
	l.place = events.RunStarted{Slot: l.s.takePlace(l.workspace.id), RepoSlot: l.s.takePlace(l.repo.ID)}
	l.base = l.commitOf("base")
	return []events.Event{
		l.place,
		events.RunIssueRead{Title: l.title, Open: true},
		events.RunBaseRead{Branch: mainBranch, Commit: l.base, Policy: policy, RequiredJobs: []string{requiredJob}},
	}
}

// over gives the run's places back, and tidies up its branch and what became of its pull request.
func (l *simulatedRun) over(pullRequest string) *simulatedRun {
	delete(l.s.places[l.workspace.id], l.place.Slot)
	delete(l.s.places[l.repo.ID], l.place.RepoSlot)
	branch := "deleted"
	if l.head == "" {
		branch = "none"
	}
	return l.store(events.RunTidied{PullRequest: pullRequest, Branch: branch})
}

// takePlace takes the first free place among the active runs of a workspace or a repository.
func (s *seed) takePlace(of events.ID) int {
	if s.places[of] == nil {
		s.places[of] = map[int]bool{}
	}
	n := 1
	for s.places[of][n] {
		n++
	}
	s.places[of][n] = true
	return n
}

func (l *simulatedRun) plan() *simulatedRun {
	l.enter(events.StageAnalyze).record(events.RunFactsRecorded{Facts: []string{"The issue names the faulty file.",
		"A test can reproduce it."}}, l.cost("model", 4))
	return l.enter(events.StagePlan).record(events.RunPlanRecorded{
		Summary: "Change one function and add a test.", Steps: []string{"Reproduce it in a test", "Fix the function", "Run all tests"},
	}, events.RunBudgetSet{Cents: budgetCents, ComputeMS: budgetCompute.Milliseconds(), Rounds: budgetRounds}, l.cost("model", 7))
}

func (l *simulatedRun) toCode() *simulatedRun {
	l.plan().enter(events.StageImplementing).record(events.RunBranchCreated{Branch: fmt.Sprintf("run/%d", l.issue)})
	return l.push("clean", noPath)
}

// noPath is the check of a push that touches no protected path.
var noPath = events.Guardrail{Check: "protected_paths", Status: "pass", Note: "none touched"}

// push simulates a push and its guardrail checks. paths is the check that may fail.
func (l *simulatedRun) push(status string, paths events.Guardrail) *simulatedRun {
	l.head, l.tree, l.candidate = l.s.sha(), l.s.sha(), l.s.sha()
	file := events.FileChange{
		Path: "internal/app/change.go", Change: events.FileModified, Added: 5 + l.s.random.IntN(60), Removed: l.s.random.IntN(30),
	}
	test := events.FileChange{Path: "internal/app/change_test.go", Change: events.FileAdded, Added: 10 + l.s.random.IntN(40)}
	files := append([]events.FileChange{file, test}, l.changed...)
	lines := 0
	for _, f := range files {
		lines += f.Added + f.Removed
	}
	pass := func(check, note string) events.Guardrail {
		return events.Guardrail{Check: check, Status: "pass", Note: note}
	}
	return l.record(
		events.RunCommitsPushed{Head: l.head, Base: l.base, Files: files, By: events.PushedByLoop, Tree: l.tree},
		events.RunGuardrailsChecked{Head: l.head, Policy: policy, Status: status, Checks: []events.Guardrail{
			paths, pass("max_files", fmt.Sprintf("%d of 50 files", len(files))), pass("max_lines", fmt.Sprintf("%d of 1,500 lines", lines)),
			pass("secrets", "none found"), pass("deleted_tests", "none"),
			pass("budget", fmt.Sprintf("$%d.%02d of $%d.%02d", l.cents/100, l.cents%100, budgetCents/100, budgetCents%100)),
		}},
		l.cost("model", 10+int64(l.s.random.IntN(60))),
	)
}

func (l *simulatedRun) ask(about events.DecisionKind, question, head string) *simulatedRun {
	l.decision, l.answered = l.s.id(), false
	return l.record(events.DecisionRaised{Decision: l.decision, About: about, Question: question, Head: head})
}

// answer answers the open decision as the Owner.
func (l *simulatedRun) answer(action, note string) *simulatedRun {
	if l.err != nil {
		return l
	}
	l.advance(time.Duration(2+l.s.random.IntN(40)) * l.pace)
	l.answered = true
	_, l.err = l.s.commands.AnswerDecision(l.s.ctx, commands.AnswerDecision{
		Meta: l.workspace.by(l.workspace.owner), Run: l.run,
		Answer: aggregates.Answer{Decision: l.decision, Action: action, Note: note, ExpectedHead: l.head},
	})
	return l
}

func (l *simulatedRun) build() *simulatedRun {
	l.enter(events.StageBuildFarm)
	return l.record(l.requestJob())
}

// buildAtOnce is build with a job that succeeds before anything else happens.
func (l *simulatedRun) buildAtOnce() *simulatedRun {
	l.enter(events.StageBuildFarm)
	return l.record(l.requestJob(),
		events.RunJobSettled{Job: l.job, Status: string(events.JobStateSucceeded), ComputeMS: 94_000, ExitCode: new(0)})
}

func (l *simulatedRun) requestJob() events.Event {
	l.job = l.s.id()
	return events.RunJobRequested{Job: l.job, Name: requiredJob, Head: l.head, Purpose: events.JobRequired, Attempt: 1}
}

func (l *simulatedRun) settle(status string) *simulatedRun {
	e := events.RunJobSettled{Job: l.job, Status: status, ComputeMS: 30_000 + int64(l.s.random.IntN(400_000)), ExitCode: new(0)}
	if status == "failed" {
		*e.ExitCode, e.Reason = 1, "step_failed"
	}
	return l.record(e, l.cost("farm", 3))
}

func (l *simulatedRun) review() *simulatedRun {
	return l.settle("succeeded").enter(events.StageSelfReview)
}

// toReview takes the run through its self-review. An eventful run needs a second build and a
// person's answer.
func (l *simulatedRun) toReview(eventful bool) *simulatedRun {
	l.toCode()
	if eventful {
		l.build().rework()
		l.blocked().answer(aggregates.ActionAllowOnce, "")
	}
	return l.build().review().record(events.RunReviewed{Head: l.head, Verdict: "pass"}, l.cost("model", 5))
}

func (l *simulatedRun) approvable() *simulatedRun {
	l.enter(events.StageMerge).record(events.RunPullRequestOpened{Number: 1000 + l.issue})
	return l.ask(events.MergeApproval, fmt.Sprintf("Merge #%d into main?", 1000+l.issue), l.head)
}

func (l *simulatedRun) merge() *simulatedRun {
	return l.approvable().merging().record(
		events.RunStageSucceeded{Stage: events.StageMerge, Attempt: l.attempt[events.StageMerge]},
		events.RunMerged{Repo: l.repo.ID, Head: l.head, MergeCommit: l.s.sha(), Tree: l.tree, Base: l.base, Method: "merge"},
	).over("merged")
}

func (l *simulatedRun) fail() *simulatedRun {
	l.toCode().build().settle("failed")
	return l.record(
		events.RunStageFailed{Stage: events.StageBuildFarm, Attempt: l.attempt[events.StageBuildFarm],
			Reason: "The build fails on the base branch too."},
		events.RunFailed{Repo: l.repo.ID, Stage: events.StageBuildFarm, Reason: "Three attempts did not make the build succeed.",
			Code: events.FailRounds},
	).over("none")
}

// cancel cancels the run as the Owner.
func (l *simulatedRun) cancel(reason string) *simulatedRun {
	if l.err == nil {
		_, l.err = l.s.commands.CancelRun(l.s.ctx, commands.CancelRun{Meta: l.workspace.by(l.workspace.owner), Run: l.run, Reason: reason})
	}
	return l.over("none")
}

func (l *simulatedRun) cost(source string, cents int64) events.RunCostRecorded {
	l.cents += cents
	l.costs++
	return events.RunCostRecorded{
		Repo: l.repo.ID, Cents: cents, Source: source, Quantity: 1, Key: fmt.Sprintf("%s/%d", source, l.costs),
	}
}

// commitOf returns the id of a commit that the run names.
func (l *simulatedRun) commitOf(what string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s#%d %s", l.repo.Name, l.issue, what))
	return hex.EncodeToString(sum[:20])
}

// sha returns a random commit id.
func (s *seed) sha() string {
	return fmt.Sprintf("%016x%016x%08x", s.random.Uint64(), s.random.Uint64(), s.random.Uint32())
}
