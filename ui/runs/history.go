package runs

import (
	"encoding/json"
	"slices"
	"strings"

	"svc/ui/client"
	"svc/ui/kit"
)

// A step is something that happened to a run, as a person says it.
type step struct {
	icon, text string
	notes      []string // what somebody or something wrote
	by         string   // the person; "" for the service itself
	event      client.EventRecord
}

// occurrence has of an event of a run what a person is told.
type occurrence struct {
	Stage, Reason, Summary, Branch, Head, Status, Name, Verdict, Action, Note string
	Attempt, Number                                                           int64
	Facts, Steps                                                              []string
	Findings                                                                  json.RawMessage
	Files                                                                     []json.RawMessage
}

// newOccurrence reads what is known of an event: nothing if it is of a newer version of the
// service, whose kind is said all the same.
func newOccurrence(e client.EventRecord) occurrence {
	var o occurrence
	if data, err := json.Marshal(e.Data); err != nil || json.Unmarshal(data, &o) != nil {
		return occurrence{}
	}
	return o
}

// who is what somebody is called.
func who(a client.AuditActor) string {
	if a.DisplayName != nil && *a.DisplayName != "" {
		return *a.DisplayName
	}
	return a.Name
}

// history says what happened, in the order of list. What only machines care for is left
// out: the timeline and the resources have it.
func history(list []client.EventRecord) (out []step) {
	for _, e := range list {
		s, ok := newOccurrence(e).step(e.Kind)
		if !ok {
			continue
		}
		s.event = e
		if e.Actor.Type != "system" {
			s.by = who(e.Actor)
		}
		out = append(out, s)
	}
	return out
}

func (o occurrence) step(kind string) (s step, ok bool) {
	switch kind {
	case "run.stage_succeeded", "run.cost_recorded", "run.job_settled", "run.merge_attempted", "run.human_intervened", "run.budget_set",
		"decision.raised":
		return step{}, false
	case "run.queued":
		return step{icon: "inbox", text: "Queued"}, true
	case "run.stage_entered":
		return step{icon: "play", text: stageName(o.Stage) + " started" + again(o.Attempt)}, true
	case "run.stage_failed":
		return step{icon: "circle-x", text: stageName(o.Stage) + " failed" + again(o.Attempt), notes: noted(o.Reason)}, true
	case "run.facts_recorded":
		return step{icon: "search", text: kit.Count(int64(len(o.Facts)), "fact", "facts") + " recorded", notes: o.Facts}, true
	case "run.plan_recorded":
		return step{icon: "list-checks", text: "Planned", notes: append(noted(o.Summary), o.Steps...)}, true
	case "run.branch_created":
		return step{icon: "git-branch", text: "Branch created", notes: noted(o.Branch)}, true
	case "run.commits_pushed":
		return step{icon: "git-commit-horizontal",
			text: "Pushed " + abbreviated(o.Head) + ", " + kit.Count(int64(len(o.Files)), "file", "files")}, true
	case "run.guardrails_checked":
		return step{icon: "shield-check", text: "Guardrails checked: " + strings.ReplaceAll(o.Status, "_", " ")}, true
	case "run.job_requested":
		return step{icon: "hammer", text: "Job requested", notes: noted(o.Name)}, true
	case "run.reviewed":
		return step{icon: "eye", text: "Reviewed: " + strings.ReplaceAll(o.Verdict, "_", " ")}, true
	case "run.pull_request_opened":
		return step{icon: "git-pull-request", text: "Opened PR #" + kit.Digits(o.Number)}, true
	}
	return o.end(kind), true
}

// end is the rest of step: what people decide, and how runs end.
func (o occurrence) end(kind string) step {
	switch kind {
	case "decision.answered":
		return step{icon: "check", text: "Answered: " + kit.Words(o.Action), notes: noted(o.Note)}
	case "decision.voided":
		return step{icon: "rotate-ccw", text: "Decision no longer needed", notes: noted(o.Reason)}
	case "run.merge_approved":
		return step{icon: "check", text: "Merge of " + abbreviated(o.Head) + " approved"}
	case "run.merge_approval_voided":
		return step{icon: "rotate-ccw", text: "Approval withdrawn", notes: noted(o.Reason)}
	case "run.merged":
		return step{icon: "git-merge", text: "Merged"}
	case "run.rejected":
		return step{icon: "ban", text: "Rejected", notes: noted(o.Reason)}
	case "run.failed":
		return step{icon: "circle-x", text: "Failed in " + stageName(o.Stage), notes: noted(o.Reason)}
	case "run.cancelled":
		return step{icon: "ban", text: "Cancelled", notes: noted(o.Reason)}
	}
	return step{icon: "activity", text: kit.Words(strings.NewReplacer(".", ": ").Replace(kind))}
}

// stageName is what people call a stage: "Build farm" for build_farm.
func stageName(stage string) string {
	if stage == "self_review" {
		return "Self-review"
	}
	return kit.Words(stage)
}

func again(attempt int64) string {
	if attempt > 1 {
		return ", round " + kit.Digits(attempt)
	}
	return ""
}

func noted(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// queuedBy is who queued the run, "" if that is not among the events of the page.
func (o one) queuedBy() string {
	if n := len(o.Past); n > 0 && o.Past[n-1].Kind == "run.queued" {
		return who(o.Past[n-1].Actor)
	}
	return ""
}

// notes says in a few words what the stages have come to, by their labels, as far as it is in
// the events of the page.
func (o one) notes() map[string]string {
	notes := map[string]string{}
	for _, s := range o.Timeline.Stages {
		switch {
		case s.Attempt > 1:
			notes[s.Label] = "round " + kit.Digits(s.Attempt)
		case s.Label == "Merge" && s.Status == client.StageStatusPending:
			notes[s.Label] = "needs a person with approve-loops"
		}
	}
	for _, e := range slices.Backward(o.Past) {
		said := newOccurrence(e)
		switch e.Kind {
		case "run.facts_recorded":
			notes["Analyze"] = kit.Count(int64(len(said.Facts)), "fact", "facts") + " recorded"
		case "run.plan_recorded":
			notes["Plan"] = kit.Count(int64(len(said.Steps)), "step", "steps")
		}
	}
	if n := len(o.Resources.Jobs); n > 0 {
		if j := o.Resources.Jobs[n-1]; j.Farm != nil && j.Farm.Runner != nil && j.Farm.State != client.JobAtFarmStateQueued {
			notes["Build farm"] = join(notes["Build farm"], "“"+j.Name+"” on "+j.Farm.Runner.Name)
		}
	}
	if text := waits(o.Run); text != "" {
		notes[string(o.Run.StageLabel)] = join(notes[string(o.Run.StageLabel)], "waiting for a person")
	}
	return notes
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}
