package aggregates

import (
	"testing"

	"svc/events"
	"svc/fault"
)

// No text that a decision would store contains a service token, whoever sends it.
func TestNoDecisionStoresAToken(t *testing.T) {
	const secret = "as curl -H 'Authorization: Bearer tok_svc_0123456789ABCDEFGHIJKLMNOPQRSTUV2ArA0E'"
	refused := func(field string) *fault.Fault { return fault.Field(field, "must not hold a service token") }
	queue := func(e events.RunQueued) func(*Run) ([]events.Event, error) {
		e.Repo, e.IssueNumber = repo, 7
		return func(r *Run) ([]events.Event, error) { return r.Queue(e) }
	}
	record := func(facts ...events.Event) func(*Run) ([]events.Event, error) {
		return func(r *Run) ([]events.Event, error) { return r.Record(facts...) }
	}
	answer := func(action string) func(*Run) ([]events.Event, error) {
		return func(r *Run) ([]events.Event, error) {
			return r.Answer(Answer{Decision: question, Action: action, Note: secret})
		}
	}
	check(t, []spec[Run]{
		{name: "a title", when: queue(events.RunQueued{IssueTitle: secret}), err: refused("title")},
		{name: "the text of an issue", when: queue(events.RunQueued{IssueTitle: "Fix it", IssueBody: secret}), err: refused("body")},
		{name: "a fact", given: inAnalysis, when: record(events.RunFactsRecorded{Facts: []string{"It fails.", secret}}), err: refused("facts")},
		{name: "a reason", given: building, when: record(events.RunStageFailed{Stage: events.StageBuildFarm, Attempt: 1, Reason: secret}),
			err: refused("facts")},
		{name: "a note", given: waiting, when: answer(ActionAllowOnce), err: refused("note")},
		{name: "why a run is cancelled", given: coding, when: func(r *Run) ([]events.Event, error) { return r.Cancel(secret) },
			err: refused("reason")},
	})
	export := func(f events.AuditFilter) func(*Workspace) ([]events.Event, error) {
		return func(w *Workspace) ([]events.Event, error) {
			return w.Export(ann, events.AuditExported{Format: "csv", Filter: f})
		}
	}
	check(t, []spec[Workspace]{
		{name: "whose records", given: team, when: export(events.AuditFilter{Actor: secret}), err: refused("actor")},
		{name: "which records", given: team, when: export(events.AuditFilter{Action: secret}), err: refused("action")},
		{name: "records about what", given: team, when: export(events.AuditFilter{Target: secret}), err: refused("target")},
		{name: "a search", given: team, when: export(events.AuditFilter{Q: secret}), err: refused("q")},
		{name: "a name", given: team, when: func(w *Workspace) ([]events.Event, error) { return w.Rename(ann, new(secret), nil) },
			err: refused("name")},
	})
}
