package aggregates

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/fault"
)

var question, later = id(80), id(81)

func asked(about events.DecisionKind, head string) events.Event {
	return events.DecisionRaised{Decision: question, About: about, Question: "May it?", Head: head}
}

func decided(about events.DecisionKind, action, note, head string) events.Event {
	return events.DecisionAnswered{Decision: question, About: about, Action: action, Note: note, Head: head}
}

func pointless(about events.DecisionKind, reason string) events.Event {
	return events.DecisionVoided{Decision: question, About: about, Reason: reason}
}

// The states in which a run may wait for a person.
var (
	unsure      = after(inAnalysis, asked(events.FactReview, ""))
	approvable  = after(awaiting, asked(events.MergeApproval, head1))
	waitsNoMore = after(waiting, decided(events.ProtectedPathOnce, ActionAllowOnce, "", head1))
)

var (
	otherPolicy = events.RunBaseRead{Branch: "main", Commit: base1, Policy: policy2, RequiredJobs: []string{"test"}}
	otherJobs   = events.RunBaseRead{Branch: "main", Commit: base1, Policy: policy1, RequiredJobs: []string{"test", "lint"}}
	otherBranch = events.RunBaseRead{Branch: "next", Commit: base1, Policy: policy1, RequiredJobs: []string{"test"}}
)

// A decision is raised only in the right state, and one at a time.
func TestRaise(t *testing.T) {
	other := func(about events.DecisionKind, head string) events.Event {
		return events.DecisionRaised{Decision: later, About: about, Question: "And that?", Head: head}
	}
	no := error(ErrRunOutOfStep)
	for _, c := range []struct {
		name  string
		given []events.Event
		fact  events.Event
		err   error
	}{
		{"facts are asked about in the analysis", inAnalysis, asked(events.FactReview, ""), nil},
		{"T8: and later", planning, asked(events.FactReview, ""), nil},
		{"T8: until the review", reviewing, asked(events.FactReview, ""), nil},
		{"not where it is too late", awaiting, asked(events.FactReview, ""), no},
		{"nor before", inQueue, asked(events.FactReview, ""), no},
		{"a merge is asked for where it would happen", awaiting, asked(events.MergeApproval, head1), nil},
		{"not before the review", reviewing, asked(events.MergeApproval, head1), no},
		{"not while it merges", merging, asked(events.MergeApproval, head1), no},
		{"not of another commit", awaiting, asked(events.MergeApproval, head2), no},
		{"not of no commit", awaiting, asked(events.MergeApproval, ""), no},
		{"T14: not with a path that is not allowed", after(awaiting, guarded(head1, "blocked")), asked(events.MergeApproval, head1), no},
		{"T14: not under a policy that nobody checked", after(awaiting, otherPolicy), asked(events.MergeApproval, head1), no},
		{"T14: not without the jobs that are required by now", after(awaiting, otherJobs), asked(events.MergeApproval, head1), no},
		{"T14: not of a head that was neither built nor reviewed", after(awaiting,
			events.RunCommitsPushed{Head: head2, By: "person"}, guarded(head2, "clean")), asked(events.MergeApproval, head2), no},
		{"not twice", approved, other(events.MergeApproval, head1), no},
		{"a protected path is asked about once it is blocked", blocked, asked(events.ProtectedPathOnce, head1), nil},
		{"not before", coded, asked(events.ProtectedPathOnce, head1), no},
		{"not if it is clean", clean, asked(events.ProtectedPathOnce, head1), no},
		{"also later", after(reviewing, guarded(head1, "blocked")), asked(events.ProtectedPathOnce, head1), nil},
		{"not before", planning, asked(events.ProtectedPathOnce, head1), no},
		{"not of another commit's path", coded, asked(events.ProtectedPathOnce, head2), no},
		{"there is no such question", coded, asked("lunch", head1), no},
		{"a question has an id", inAnalysis, events.DecisionRaised{About: events.FactReview}, no},
		{"the same is not asked twice", waiting, asked(events.ProtectedPathOnce, head1), no},
		{"another waits its turn", waiting, other(events.ProtectedPathOnce, head1), no},
		{"and comes after the answer", after(waitsNoMore, guarded(head1, "blocked")), other(events.ProtectedPathOnce, head1), nil},
		{"an id is not used again", waitsNoMore, asked(events.ProtectedPathOnce, head1), no},
		{"an answer is no fact of the loop's", waiting, decided(events.ProtectedPathOnce, ActionAllowOnce, "", head1), no},
		{"nor is that nobody needs one", waiting, pointless(events.ProtectedPathOnce, "run_over"), no},
		{"a run that waits enters no stage", unsure, entered(events.StageAnalyze, 2), no},
		{"nor while its merge is not approved", approvable, entered(events.StageImplementing, 2), no},
		{"a merge that was approved is not held up", merging, asked(events.ProtectedPathOnce, head1), no},
	} {
		s := spec[Run]{name: c.name, given: c.given, when: record(c.fact), err: c.err}
		if c.err == nil {
			s.then = []events.Event{c.fact}
		}
		check(t, []spec[Run]{s})
	}
}

// A decision that is no longer needed is voided.
func TestVoid(t *testing.T) {
	push := events.RunCommitsPushed{Head: head2, Base: head1, By: events.PushedByLoop}
	byPerson := events.RunCommitsPushed{Head: head2, Base: head1, By: events.PushedByPerson}
	taken := events.RunMergeApprovalVoided{Head: head1, Reason: "new_commits"}
	stop := events.RunCancelled{Repo: repo.ID}
	check(t, []spec[Run]{
		{name: "a new commit", given: approvable, when: record(push), then: []events.Event{push, pointless(events.MergeApproval, "new_commits")}},
		{name: "T9: not one that is there already", given: approvable, when: record(pushed), err: ErrRunOutOfStep},
		{name: "a new commit takes an approval back", given: approved, when: record(push),
			then: []events.Event{push, taken}},
		{name: "a new commit does not answer about facts", given: unsure, when: record(push), then: []events.Event{push}},
		{name: "the loop does not push to what is being merged", given: merging, when: record(push), err: ErrRunOutOfStep},
		{name: "T2: a person can", given: merging, when: record(byPerson), then: []events.Event{byPerson, taken}},
		{name: "another branch to merge into takes an approval back", given: laned, when: record(otherBranch),
			then: []events.Event{events.RunMergeApprovalVoided{Head: head1, Reason: "other_branch"}, otherBranch}},
		{name: "the end of the run", given: unsure, when: record(stop), then: []events.Event{pointless(events.FactReview, "run_over"), stop}},
		{name: "an answered one stays answered", given: waitsNoMore, when: record(stop), then: []events.Event{stop}},
	})
	require.Equal(t, events.RunStatusCoding, folded[Run](after(waiting, push, pointless(events.ProtectedPathOnce, "new_commits"))).p.Status,
		"the run goes on")
}

func TestAnswer(t *testing.T) {
	answer := func(action, note, head string) func(*Run) ([]events.Event, error) {
		return func(r *Run) ([]events.Event, error) {
			return r.Answer(Answer{Decision: question, Action: action, Note: note, ExpectedHead: head})
		}
	}
	then := func(list ...events.Event) []events.Event { return list }
	helped := events.RunHumanIntervened{Repo: repo.ID, What: events.InterventionAnswer}
	asksForChanges := events.RunHumanIntervened{Repo: repo.ID, What: events.InterventionChanges}
	pushedOn := after(approvable, events.RunCommitsPushed{Head: head2, Base: head1, By: events.PushedByLoop},
		pointless(events.MergeApproval, "new_commits"))
	check(t, []spec[Run]{
		{name: "facts are confirmed", given: unsure, when: answer(ActionConfirm, "", ""),
			then: then(decided(events.FactReview, ActionConfirm, "", ""), helped)},
		{name: "facts are corrected", given: unsure, when: answer(ActionCorrect, "It is the export.", ""),
			then: then(decided(events.FactReview, ActionCorrect, "It is the export.", ""), helped,
				events.RunFactsRecorded{Facts: []string{"It is the export."}})},
		{name: "the issue is turned down", given: unsure, when: answer(ActionReject, "Not now.", ""),
			then: then(decided(events.FactReview, ActionReject, "Not now.", ""), events.RunRejected{Repo: repo.ID, Reason: "Not now."})},
		{name: "a merge is approved", given: approvable, when: answer(ActionApproveAndMerge, "", head1),
			then: then(decided(events.MergeApproval, ActionApproveAndMerge, "", head1), events.RunMergeApproved{Head: head1})},
		{name: "changes are asked for", given: approvable, when: answer(ActionRequestChanges, "Add a test.", head1),
			then: then(decided(events.MergeApproval, ActionRequestChanges, "Add a test.", head1), asksForChanges,
				events.RunStageFailed{Stage: events.StageMerge, Attempt: 1, Reason: "Changes were asked for: Add a test."},
				entered(events.StageImplementing, 2))},
		{name: "the work is turned down", given: approvable, when: answer(ActionReject, "", ""),
			then: then(decided(events.MergeApproval, ActionReject, "", head1), events.RunRejected{Repo: repo.ID})},
		{name: "a path is allowed", given: waiting, when: answer(ActionAllowOnce, "", head1),
			then: then(decided(events.ProtectedPathOnce, ActionAllowOnce, "", head1), helped, guarded(head1, "allowed_once"))},
		{name: "with what was found", given: after(coded, events.RunGuardrailsChecked{Head: head1, Policy: policy1, Status: "blocked",
			Checks: []events.Guardrail{{Check: "protected_paths", Status: "block", Note: "1 path"}, {Check: "max_files", Status: "pass"}}},
			asked(events.ProtectedPathOnce, head1)), when: answer(ActionAllowOnce, "", head1),
			then: then(decided(events.ProtectedPathOnce, ActionAllowOnce, "", head1), helped,
				events.RunGuardrailsChecked{Head: head1, Policy: policy1, Status: "allowed_once",
					Checks: []events.Guardrail{{Check: "protected_paths", Status: "allowed_once", Note: "1 path"}, {Check: "max_files",
						Status: "pass"}}})},
		{name: "a path is not allowed", given: waiting, when: answer(ActionDeny, "", ""),
			then: then(decided(events.ProtectedPathOnce, ActionDeny, "", head1), helped,
				events.RunStageFailed{Stage: events.StageImplementing, Attempt: 1, Reason: "A protected path may not be changed."},
				entered(events.StageImplementing, 2))},
		{name: "nor after the stage was done",
			given: after(clean, succeeded(events.StageImplementing, 1), guarded(head1, "blocked"), asked(events.ProtectedPathOnce, head1)),
			when:  answer(ActionDeny, "", ""),
			then:  then(decided(events.ProtectedPathOnce, ActionDeny, "", head1), helped, entered(events.StageImplementing, 2))},

		{name: "there is no such question", given: coded, when: answer(ActionConfirm, "", ""), err: ErrNoDecision},
		{name: "there is no such run", when: answer(ActionConfirm, "", ""), err: ErrNoDecision},
		{name: "an answer to another question", given: unsure, when: answer(ActionDeny, "", ""),
			err: fault.Field("action", "must be one of confirm, correct, reject")},
		{name: "no answer", given: unsure, when: answer("", "", ""), err: fault.Field("action", "must be one of confirm, correct, reject")},
		{name: "a correction says something", given: unsure, when: answer(ActionCorrect, " \n", ""),
			err: fault.Field("note", "must say what is wanted")},
		{name: "changes are named", given: approvable, when: answer(ActionRequestChanges, "", head1),
			err: fault.Field("note", "must say what is wanted")},
		{name: "a note has an end", given: unsure, when: answer(ActionConfirm, strings.Repeat("é", maxNote+1), ""),
			err: fault.Field("note", "must have at most 10000 characters")},
		{name: "an approval names its commit", given: approvable, when: answer(ActionApproveAndMerge, "", ""),
			err: fault.Field("expectedHead", "must be the commit that is approved")},
		{name: "the commit is another", given: approvable, when: answer(ActionApproveAndMerge, "", head2), err: ErrDecisionStale},
		{name: "for whatever answer", given: approvable, when: answer(ActionReject, "", head2), err: ErrDecisionStale},
		{name: "the branch moved", given: pushedOn, when: answer(ActionApproveAndMerge, "", head1), err: ErrDecisionStale},
		{name: "also if that is known", given: pushedOn, when: answer(ActionApproveAndMerge, "", head2), err: ErrDecisionStale},
		{name: "the run is over", given: after(unsure, pointless(events.FactReview, "run_over"), events.RunCancelled{}),
			when: answer(ActionConfirm, "", ""), err: ErrDecisionStale},
		{name: "it was answered", given: waitsNoMore, when: answer(ActionAllowOnce, "", head1), err: ErrDecisionAnswered},
		{name: "it was answered, and the run is over", given: after(waitsNoMore, events.RunCancelled{}), when: answer(ActionDeny, "", head1),
			err: ErrDecisionAnswered},
	})
}

func TestCancel(t *testing.T) {
	stop := func(r *Run) ([]events.Event, error) { return r.Cancel("No longer needed.") }
	cancel := events.RunCancelled{Repo: repo.ID, Reason: "No longer needed."}
	check(t, []spec[Run]{
		{name: "a run is stopped", given: coded, when: stop, then: []events.Event{cancel}},
		{name: "nobody is asked any more", given: waiting, when: stop,
			then: []events.Event{pointless(events.ProtectedPathOnce, "run_over"), cancel}},
		{name: "T2: one that is being merged after this attempt", given: merging, when: stop,
			then: []events.Event{events.RunStopRequested{Reason: "No longer needed."}}},
		{name: "T2: which is asked for once", given: stopping, when: stop},
		{name: "T2: and then it stops", given: after(stopping, postponed[len(postponed)-1]), when: stop, then: []events.Event{cancel}},
		{name: "not once it is over", given: merged, when: stop, err: ErrRunOver},
		{name: "there is none", when: stop, err: ErrNoRun},
	})
}

// A missing role is reported before a missing approve-loops setting.
func TestMayDecide(t *testing.T) {
	role, tick := error(ErrRoleRequired), error(ErrCapabilityRequired)
	for _, c := range []struct {
		role                  events.Role
		tick                  bool
		facts, merge, protect error
	}{
		{events.Owner, true, nil, nil, nil},
		{events.Maintainer, true, nil, nil, nil},
		{events.Maintainer, false, nil, tick, tick},
		{events.Viewer, true, role, nil, role},
		{events.Viewer, false, role, tick, role},
		{events.Legacy, false, nil, tick, role},
		{"", false, role, tick, role}, // a service account
	} {
		require.ErrorIs(t, MayDecide(events.FactReview, c.role, c.tick), c.facts, "%s %t", c.role, c.tick)
		require.ErrorIs(t, MayDecide(events.MergeApproval, c.role, c.tick), c.merge, "%s %t", c.role, c.tick)
		require.ErrorIs(t, MayDecide(events.ProtectedPathOnce, c.role, c.tick), c.protect, "%s %t", c.role, c.tick)
	}
}

// Workspace.AllowAnswer applies this to members, and refuses everybody else.
func TestAllowAndAllowAnswer(t *testing.T) {
	w := folded[Workspace](team)
	require.NoError(t, w.AllowAnswer(ann, events.MergeApproval))
	require.ErrorIs(t, w.AllowAnswer(vic, events.FactReview), ErrRoleRequired)
	require.NoError(t, w.AllowAnswer(leo, events.FactReview))
	require.ErrorIs(t, w.AllowAnswer(stranger, events.FactReview), fault.ErrTenantNotFound)
	require.NoError(t, w.Allow(leo, events.QueueIssues))
	require.NoError(t, w.Allow(mel, events.QueueIssues))
	require.ErrorIs(t, w.Allow(vic, events.QueueIssues), ErrRoleRequired)
	require.ErrorIs(t, w.Allow(stranger, events.QueueIssues), fault.ErrTenantNotFound)
}
