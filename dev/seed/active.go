package seed

import (
	"iter"
	"time"

	"svc/aggregates"
	"svc/events"
)

// stuckTitle is the title of the run that is stuck on purpose: its job has passed, and nothing follows.
const stuckTitle = "Flaky test in the scheduler"

// An activeRun is a run that has not ended. It was queued age ago and recorded something last idle ago.
type activeRun struct {
	title     string
	repo      int
	age, idle time.Duration
	pace      time.Duration // length of a minute in the simulation
	tell      func(*simulatedRun) *simulatedRun
}

// activeRuns are the active runs of a demonstration, the oldest first: some in every stage.
var activeRuns = []activeRun{
	{"Retry webhooks with backoff", 0, minutes(211), minutes(12), minutes(2),
		func(l *simulatedRun) *simulatedRun { return l.toReview(false).approvable() }},
	{stuckTitle, 0, minutes(200), minutes(38), minutes(4), func(l *simulatedRun) *simulatedRun { return l.toCode().buildAtOnce() }},
	{"Typo in the invitation text", 1, minutes(178), minutes(3), minutes(1),
		func(l *simulatedRun) *simulatedRun { return l.toReview(false).approvable().merging() }},
	{"Cache the avatar images", 1, minutes(151), minutes(6), minutes(2),
		func(l *simulatedRun) *simulatedRun { return l.toCode().build().review() }},
	{"Show the run's cost in the list", 1, minutes(144), minutes(9), minutes(2),
		func(l *simulatedRun) *simulatedRun { return l.toCode().build().rework() }},
	{"Upgrade the TLS library", 2, minutes(125), minutes(48), minutes(2), (*simulatedRun).blocked},
	{"Memory grows while exporting", 0, minutes(110), minutes(4), minutes(2),
		func(l *simulatedRun) *simulatedRun { return l.toCode().build() }},
	{"Refuse file names with a NUL", 2, minutes(104), minutes(19), 30 * time.Second,
		func(l *simulatedRun) *simulatedRun { return l.toReview(true).approvable() }},
	{"Handle an empty repository", 0, minutes(87), minutes(7), minutes(3), (*simulatedRun).plan},
	{"Wrong time zone in reports", 0, minutes(72), minutes(61), minutes(1), (*simulatedRun).unsure},
	{"Keyboard shortcut for search", 1, minutes(41), minutes(2), minutes(1), (*simulatedRun).toCode},
	{"Split the build into stages", 2, minutes(38), minutes(5), minutes(1),
		func(l *simulatedRun) *simulatedRun { return l.enter(events.StageAnalyze) }},
	{"Log the request id everywhere", 0, minutes(34), 0, 0, nil},
	{"Validate the slug on rename", 0, minutes(11), 0, 0, nil},
	{"Sort labels by name", 1, minutes(4), 0, 0, nil},
}

func minutes(n int) time.Duration { return time.Duration(n) * time.Minute }

// simulateActiveRuns simulates the active runs at the same time: the log of a workspace is in the order of time.
func (s *seed) simulateActiveRuns(p demoWorkspace) error {
	type player struct {
		at   time.Time // when it goes on
		next func() (time.Time, bool)
	}
	var players []*player
	var failed error
	for _, a := range activeRuns {
		next, stop := iter.Pull(func(wait func(time.Time) bool) {
			if err := s.play(p, a, wait); err != nil {
				failed = err
			}
		})
		defer stop()
		players = append(players, &player{s.now.Add(-a.age), next})
	}
	for failed == nil {
		var first *player
		for _, one := range players {
			if one.next != nil && (first == nil || one.at.Before(first.at)) {
				first = one
			}
		}
		if first == nil {
			break
		}
		s.at = first.at
		var ok bool
		if first.at, ok = first.next(); !ok {
			first.next = nil
		}
	}
	return failed
}

// play simulates one active run. It calls wait with the time of each next event.
func (s *seed) play(p demoWorkspace, a activeRun, wait func(time.Time) bool) error {
	l := s.queueIssue(p, a.title, p.repos[a.repo%len(p.repos)])
	if a.tell == nil || l.err != nil {
		return l.err
	}
	l.pace, l.end, l.wait = a.pace, s.now.Add(-a.idle), wait
	if l = a.tell(l); l.decision.IsZero() || l.answered {
		l.pace = a.age // until the end
		l.record(l.cost("model", 2))
	}
	return l.err
}

// rework simulates a build that fails and the next round.
func (l *simulatedRun) rework() *simulatedRun {
	l.settle("failed")
	failed := events.RunStageFailed{Stage: events.StageBuildFarm, Attempt: l.attempt[events.StageBuildFarm], Reason: "A test failed."}
	return l.begin(events.StageImplementing, failed).push("clean", noPath)
}

// unsure simulates an analysis that asks a question.
func (l *simulatedRun) unsure() *simulatedRun {
	l.enter(events.StageAnalyze).record(events.RunFactsRecorded{Facts: []string{
		"The issue says: “The weekly report shows Friday's runs on Saturday.”",
		"The code says: reports/week.go:42 cuts days at midnight UTC.",
		"The run assumes: Days are cut at midnight where the reader is.",
	}}, l.cost("model", 4))
	return l.ask(events.FactReview, "Are report times meant to be in the reader's own time zone?", "")
}

// blocked simulates a change of a protected path, which is blocked.
func (l *simulatedRun) blocked() *simulatedRun {
	if l.stage != events.StageImplementing {
		l.toCode()
	}
	const path = ".github/workflows/ci.yml"
	l.changed = []events.FileChange{{Path: path, Change: events.FileModified, Added: 2, Removed: 1}}
	l.push("blocked", events.Guardrail{
		Check: "protected_paths", Status: "block", Findings: []events.GuardrailFinding{{Path: path, Rule: ".github/**"}},
	})
	return l.ask(events.ProtectedPathOnce, "Allow the change of "+path+" this once?", l.head)
}

func (l *simulatedRun) merging() *simulatedRun {
	return l.answer(aggregates.ActionApproveAndMerge, "").record(
		events.RunLaneEntered{Branch: mainBranch},
		events.RunMergeCandidate{Head: l.head, Base: l.base, Commit: l.candidate, Tree: l.tree},
		events.RunMergeAttempted{Head: l.head, Commit: l.candidate},
	)
}
