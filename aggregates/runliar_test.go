package aggregates

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// Whatever a scheduler says, in whatever order, a run merges only what a person approved, what keeps the
// guardrails, and what passed its review and every required job. The scheduler of this test tells the truth
// half of the time, so that runs get far enough for its lies to matter.
func TestALyingSchedulerMergesNothingElse(t *testing.T) {
	facts := 1_000_000
	if testing.Short() {
		facts = 50_000
	}
	l := &liar{t: t, random: rand.New(rand.NewPCG(7, 1))}
	for l.told < facts {
		l.begin()
		for range 120 {
			l.step()
		}
	}
	l.t.Logf("%d facts, %d accepted: %d merges, %d attempts, %d with jobs on a candidate, %d with a path allowed once, %d outside",
		l.told, l.accepted, l.seen.merges, l.seen.attempts, l.seen.byLane, l.seen.allowed, l.seen.outside)
	require.Greater(t, l.seen.merges, facts/1500)
	require.Greater(t, l.seen.byLane, facts/5000)
	require.Greater(t, l.seen.allowed, facts/20000)
	require.Greater(t, l.seen.outside, facts/5000)
	require.Greater(t, l.accepted, facts/10)
	require.Less(t, l.accepted, facts*9/10)
}

// A liar records facts of one run after the other, and watches what the runs accept.
type liar struct {
	t              *testing.T
	random         *rand.Rand
	run            *Run
	asked          []events.ID
	ids            byte
	told, accepted int
	watcher        watcher
	seen           sightings
}

type sightings struct{ merges, attempts, byLane, allowed, outside int }

// The few names that there are, so that lies are near the truth.
var (
	someHeads    = []string{"h1", "h2", "h3"}
	someCommits  = []string{"m1", "m2"}
	someTrees    = []string{"t-h1", "t-h2", "t-m"}
	somePolicies = []string{"p1", "p1", "p1", "p2"}
	someJobs     = []string{"test", "lint"}
	someStates   = []events.JobState{events.JobStateSucceeded, events.JobStateSucceeded, events.JobStateFailed, events.JobStateLost, "done"}
)

func oneOf[T any](l *liar, list []T) T { return list[l.random.IntN(len(list))] }

func (l *liar) id() events.ID {
	l.ids++
	return id(l.ids)
}

func (l *liar) begin() {
	l.run, l.asked, l.ids, l.watcher = &Run{}, nil, 0, watcher{t: l.t, seen: &l.seen, jobs: map[events.ID]watchedJob{}}
	l.add(true, queued)
}

// add applies accepted events. Those that a person caused are told apart.
func (l *liar) add(byPerson bool, list ...events.Event) {
	for _, e := range list {
		l.run.Apply(e, events.Actor{Type: events.ByUser, ID: ann})
		l.watcher.watch(e, byPerson)
		if raised, ok := e.(events.DecisionRaised); ok {
			l.asked = append(l.asked, raised.Decision)
		}
	}
}

// step lets a person answer, or tells one fact or a few.
func (l *liar) step() {
	if len(l.asked) > 0 && l.random.IntN(6) == 0 {
		l.answer()
		return
	}
	var facts []events.Event
	for range 1 + l.random.IntN(5)/4 {
		if l.random.IntN(100) < 60 {
			facts = append(facts, l.truth())
		} else {
			facts = append(facts, l.lie())
		}
	}
	l.told += len(facts)
	if list, err := l.run.Record(facts...); err == nil {
		l.accepted += len(facts)
		l.add(false, list...)
	}
}

// answer lets a person answer the newest question or an earlier one, sometimes about another commit.
func (l *liar) answer() {
	a := Answer{Decision: l.asked[len(l.asked)-1], Note: "Well.", ExpectedHead: l.run.p.Head}
	if l.random.IntN(10) == 0 {
		a.Decision, a.ExpectedHead = oneOf(l, l.asked), oneOf(l, someHeads)
	}
	a.Action = oneOf(l, Actions(l.run.decisions[a.Decision].kind))
	if l.random.IntN(2) == 0 {
		a.Action = Actions(l.run.decisions[a.Decision].kind)[0]
	}
	if list, err := l.run.Answer(a); err == nil {
		l.add(true, list...)
	}
}

// truth returns what a good scheduler would record next. In the stage Merge it is in a hurry.
func (l *liar) truth() events.Event {
	p := &l.run.p
	again := events.RunStageEntered{Stage: events.StageAt(p.Stage.Index() + 1), Attempt: p.Attempts[events.StageAt(p.Stage.Index()+1)] + 1}
	done := events.RunStageSucceeded{Stage: p.Stage, Attempt: p.Attempts[p.Stage]}
	switch {
	case p.Status == events.RunStatusMerging:
		return l.outcome()
	case p.Started == nil:
		return place
	case p.Base == nil:
		return events.RunBaseRead{Branch: "main", Commit: "b1", Policy: "p1", RequiredJobs: someJobs[:1+l.random.IntN(2)]}
	case p.Stage == events.StageMerge && (p.Mergeable() || l.random.IntN(2) == 0):
		return l.towardsMerge()
	case p.Stage == events.StageMerge && p.Guarded():
		return events.RunStageEntered{Stage: events.StageBuildFarm, Attempt: p.Attempts[events.StageBuildFarm] + 1}
	case p.StageSucceeded:
		return again
	case p.Stage.Index() < events.StageImplementing.Index():
		return done
	case p.Stage == events.StageImplementing && l.run.p.HeadRound < p.Round():
		return l.push(events.PushedByLoop)
	case !p.Guarded():
		return l.guard()
	case p.Stage == events.StageBuildFarm && !p.Built():
		return l.test(events.JobRequired, p.Head)
	case p.Stage == events.StageSelfReview && p.Review == nil:
		return events.RunReviewed{Head: p.Head, Verdict: ReviewPass}
	}
	return done
}

// outcome returns how an attempt to merge ended.
func (l *liar) outcome() events.Event {
	if l.random.IntN(3) == 0 || l.run.p.Candidate == nil {
		return events.RunMergePostponed{Head: l.run.p.Head, Reason: "base_moved"}
	}
	return events.RunMerged{Head: l.run.p.Head, MergeCommit: l.run.p.Candidate.Commit, Tree: l.run.p.Candidate.Tree}
}

func (l *liar) push(by string) events.Event {
	head := oneOf(l, someHeads)
	return events.RunCommitsPushed{Head: head, Tree: "t-" + head, By: by}
}

func (l *liar) guard() events.Event {
	p := &l.run.p
	e := events.RunGuardrailsChecked{Head: p.Head, Policy: p.Base.Policy,
		Status: oneOf(l, []string{GuardrailsClean, GuardrailsAllowed, GuardrailsBlocked})}
	if g := p.Guardrails; g != nil && g.Status == GuardrailsBlocked && l.random.IntN(2) == 0 {
		return events.DecisionRaised{Decision: l.id(), About: events.ProtectedPathOnce, Head: p.Head}
	}
	return e
}

// test requests or settles a required job.
func (l *liar) test(purpose events.JobPurpose, commit string) events.Event {
	name := oneOf(l, l.run.p.Base.RequiredJobs)
	if j := l.run.p.Newest(purpose, name, commit); j != nil && j.State == "" {
		return events.RunJobSettled{Job: j.Job, Status: string(oneOf(l, someStates))}
	}
	return events.RunJobRequested{Job: l.id(), Name: name, Head: commit, Purpose: purpose, Attempt: 1}
}

func (l *liar) towardsMerge() events.Event {
	switch p := &l.run.p; {
	case p.Approved == "":
		return events.DecisionRaised{Decision: l.id(), About: events.MergeApproval, Head: p.Head}
	case !p.Lane:
		return turn
	case p.Candidate == nil:
		return events.RunMergeCandidate{Head: p.Head, Base: "b1", Commit: oneOf(l, someCommits), Tree: oneOf(l, someTrees)}
	case !p.CandidateBuilt() && l.random.IntN(4) > 0:
		return l.test(events.JobLane, p.Candidate.Commit)
	default:
		return events.RunMergeAttempted{Head: p.Head, Commit: p.Candidate.Commit}
	}
}

// lie returns any fact.
func (l *liar) lie() events.Event {
	stage := events.StageAt(1 + l.random.IntN(6))
	head, commit, tree, name := oneOf(l, someHeads), oneOf(l, someCommits), oneOf(l, someTrees), oneOf(l, someJobs)
	if l.random.IntN(2) == 0 && l.run.p.Head != "" {
		head = l.run.p.Head
	}
	switch l.random.IntN(62) {
	case 0, 1, 2, 3:
		return events.RunMerged{Head: head, MergeCommit: commit, Tree: tree}
	case 4, 5, 6, 7:
		return events.RunMergeAttempted{Head: head, Commit: commit}
	case 8, 9, 10:
		return events.RunMergeApproved{Head: head}
	case 11, 12:
		return events.DecisionAnswered{Decision: id(l.ids), About: events.MergeApproval, Action: ActionApproveAndMerge, Head: head}
	case 13, 14:
		return events.RunStageEntered{Stage: stage, Attempt: l.run.p.Attempts[stage] + 1}
	case 15, 16, 17:
		return events.RunStageSucceeded{Stage: l.run.p.Stage, Attempt: l.run.p.Attempts[l.run.p.Stage]}
	case 18, 19, 20:
		return events.RunGuardrailsChecked{Head: head, Policy: oneOf(l, somePolicies),
			Status: oneOf(l, []string{GuardrailsClean, GuardrailsAllowed, GuardrailsAllowed, GuardrailsBlocked})}
	case 21, 22:
		return events.RunReviewed{Head: head, Verdict: oneOf(l, []string{ReviewPass, ReviewBlocking})}
	case 23, 24, 25:
		return events.RunJobRequested{Job: id(byte(l.random.IntN(40))), Name: name, Head: oneOf(l, []string{head, commit}),
			Purpose: oneOf(l, []events.JobPurpose{events.JobRequired, events.JobLane, events.JobImplements, events.JobAfterMerge, ""}), Attempt: 1}
	case 26, 27, 28:
		return events.RunJobSettled{Job: id(byte(l.random.IntN(40))), Status: string(oneOf(l, someStates))}
	case 29, 30:
		return events.RunMergeCandidate{Head: head, Base: "b1", Commit: commit, Tree: tree}
	case 31, 32:
		return turn
	case 33, 34:
		return events.DecisionRaised{Decision: id(byte(l.random.IntN(40))), Head: head,
			About: oneOf(l, []events.DecisionKind{events.MergeApproval, events.ProtectedPathOnce})}
	case 35:
		return events.RunBaseRead{Branch: oneOf(l, []string{"main", "main", "next"}), Commit: "b1", Policy: oneOf(l, somePolicies),
			RequiredJobs: someJobs[l.random.IntN(2):]}
	case 36:
		return events.RunMergePostponed{Head: head}
	case 37:
		return events.RunMergeApprovalVoided{Head: head}
	case 38, 39:
		return l.push(events.PushedByLoop)
	case 40:
		return l.push(events.PushedByPerson)
	case 41:
		return events.RunStopRequested{}
	case 43, 44:
		return events.RunBaseRead{Branch: "main", Commit: "b1", Policy: oneOf(l, []string{"p1", "p2"}), RequiredJobs: someJobs[:1]}
	case 42:
		return oneOf(l, []events.Event{events.RunMerged{MergeCommit: commit, Outside: true}, events.RunWaiting{Code: events.WaitHost}})
	}
	return l.truth()
}

// A watcher checks what a run accepts by a memory of its own, which knows nothing of how the run decides.
type watcher struct {
	t          *testing.T
	seen       *sightings
	base       events.RunBaseRead
	push       events.RunCommitsPushed
	approval   bool // a person approved this head, and nobody took it back
	allowance  bool // a person allowed what the guardrails found on this head under this policy
	guardrails events.RunGuardrailsChecked
	review     events.RunReviewed
	candidate  events.RunMergeCandidate
	jobs       map[events.ID]watchedJob
	attempted  bool
}

type watchedJob struct {
	events.RunJobRequested
	succeeded bool
}

func (w *watcher) watch(e events.Event, byPerson bool) {
	switch e := e.(type) {
	case events.RunBaseRead:
		if e.Policy != w.base.Policy {
			w.allowance, w.guardrails = false, events.RunGuardrailsChecked{}
		}
		w.base = e
	case events.RunCommitsPushed:
		w.push, w.approval, w.allowance, w.attempted = e, false, false, false
		w.guardrails, w.review = events.RunGuardrailsChecked{}, events.RunReviewed{}
	case events.DecisionRaised:
		if e.About == events.MergeApproval {
			w.requireWork(events.JobRequired, w.push.Head)
		}
	case events.DecisionAnswered:
		require.True(w.t, byPerson)
		w.approval = w.approval || e.Action == ActionApproveAndMerge && e.Head == w.push.Head
		w.allowance = w.allowance || e.Action == ActionAllowOnce && e.Head == w.push.Head
	case events.RunMergeApproved:
		require.True(w.t, byPerson)
	case events.RunMergeApprovalVoided:
		w.approval, w.attempted = false, false
	case events.RunGuardrailsChecked:
		w.guardrails = e
	case events.RunReviewed:
		w.review = e
	case events.RunJobRequested:
		w.jobs[e.Job] = watchedJob{e, false}
	case events.RunJobSettled:
		j := w.jobs[e.Job]
		j.succeeded = e.Status == "succeeded"
		w.jobs[e.Job] = j
	case events.RunMergeCandidate:
		w.candidate = e
	case events.RunMergePostponed:
		w.attempted = false
	case events.RunMergeAttempted:
		w.attempt(e)
	case events.RunMerged:
		w.merge(e)
	}
}

func (w *watcher) attempt(e events.RunMergeAttempted) {
	w.attempted = true
	w.seen.attempts++
	require.Equal(w.t, w.push.Head, e.Head)
	require.True(w.t, w.approval, "a person approved exactly this head")
	if w.candidate.Tree == w.push.Tree {
		w.requireWork(events.JobRequired, w.push.Head)
	} else {
		w.requireWork(events.JobLane, w.candidate.Commit)
		w.seen.byLane++
	}
	if w.guardrails.Status == GuardrailsAllowed {
		w.seen.allowed++
	}
	require.Equal(w.t, []string{e.Head, e.Commit}, []string{w.candidate.Head, w.candidate.Commit})
}

func (w *watcher) merge(e events.RunMerged) {
	if e.Outside {
		w.seen.outside++
		return
	}
	w.seen.merges++
	require.True(w.t, w.attempted)
	require.Equal(w.t, []string{w.push.Head, w.candidate.Tree}, []string{e.Head, e.Tree})
	require.True(w.t, w.approval)
}

// requireWork requires that the head keeps the guardrails and passed its review, and that a commit passed the
// required jobs.
func (w *watcher) requireWork(purpose events.JobPurpose, commit string) {
	head := w.push.Head
	require.Equal(w.t, []string{head, w.base.Policy}, []string{w.guardrails.Head, w.guardrails.Policy})
	require.True(w.t, w.guardrails.Status == GuardrailsClean || w.guardrails.Status == GuardrailsAllowed && w.allowance,
		"the guardrails hold, or a person allowed exactly this")
	require.Equal(w.t, []string{head, ReviewPass}, []string{w.review.Head, w.review.Verdict})
	require.NotEmpty(w.t, w.base.RequiredJobs)
	for _, name := range w.base.RequiredJobs {
		passed := false
		for _, j := range w.jobs {
			passed = passed || j.succeeded && j.Name == name && j.Purpose == purpose && j.Head == commit
		}
		require.True(w.t, passed, "%s passed on %s", name, commit)
	}
}
