package runs

import (
	"encoding/json"
	"slices"
	"strings"

	"svc/ui/client"
	"svc/ui/kit"
)

// A step is an event of a run as the page shows it.
type step struct {
	icon, text string
	notes      []string // texts from the event
	by         string   // the person; "" for the service itself
	event      client.EventRecord
}

// eventData has the fields of a run's events that the page shows.
type eventData struct {
	Stage, Reason, Summary, Branch, Head, Commit, Status, Name, Verdict, Action, Note string
	Attempt, Number                                                                   int64
	Facts, Steps                                                                      []string
	Files                                                                             []json.RawMessage
	Total                                                                             struct{ Files int64 } // if there are more files
}

// parseEventData decodes the data of an event. It returns zero if the data has another form,
// as it may in a newer version of the service.
func parseEventData(e client.EventRecord) eventData {
	var d eventData
	if text, err := json.Marshal(e.Data); err != nil || json.Unmarshal(text, &d) != nil {
		return eventData{}
	}
	return d
}

// actorName returns the current name of an actor, or the one in the event if it is unknown.
func actorName(a client.AuditActor) string {
	if a.DisplayName != nil && *a.DisplayName != "" {
		return *a.DisplayName
	}
	return a.Name
}

// history returns the steps of a list of events, in its order, without those that the
// timeline and the resources show.
func history(list []client.EventRecord) (out []step) {
	for _, e := range list {
		s, ok := parseEventData(e).describe(e.Kind)
		if !ok {
			continue
		}
		s.event = e
		if e.Actor.Type != "system" {
			s.by = actorName(e.Actor)
		}
		out = append(out, s)
	}
	return out
}

// describe returns the step of an event; ok is false if it is left out of the history.
func (d eventData) describe(kind string) (s step, ok bool) {
	switch kind {
	case "run.stage_succeeded", "run.cost_recorded", "run.job_settled", "run.merge_attempted", "run.human_intervened", "run.budget_set",
		"run.estimated", "run.started", "run.base_read", "run.waiting", "decision.raised":
		return step{}, false
	case "run.queued":
		return step{icon: "inbox", text: "Queued"}, true
	case "run.issue_read":
		return step{icon: "search", text: "Issue read"}, true
	case "run.stage_entered":
		return step{icon: "play", text: stageName(d.Stage) + " started" + roundSuffix(d.Attempt)}, true
	case "run.stage_failed":
		return step{icon: "circle-x", text: stageName(d.Stage) + " failed" + roundSuffix(d.Attempt), notes: optionalNote(d.Reason)}, true
	case "run.facts_recorded":
		return step{icon: "search", text: kit.Count(int64(len(d.Facts)), "fact", "facts") + " recorded", notes: d.Facts}, true
	case "run.plan_recorded":
		return step{icon: "list-checks", text: "Planned", notes: append(optionalNote(d.Summary), d.Steps...)}, true
	case "run.branch_created":
		return step{icon: "git-branch", text: "Branch created", notes: optionalNote(d.Branch)}, true
	case "run.commits_pushed":
		return step{icon: "git-commit-horizontal",
			text: "Pushed " + shortSHA(d.Head) + ", " + kit.Count(max(d.Total.Files, int64(len(d.Files))), "file", "files")}, true
	case "run.guardrails_checked":
		return step{icon: "shield-check", text: "Guardrails checked: " + strings.ReplaceAll(d.Status, "_", " ")}, true
	case "run.job_requested":
		return step{icon: "hammer", text: "Job requested", notes: optionalNote(d.Name)}, true
	case "run.reviewed":
		return step{icon: "eye", text: "Reviewed: " + strings.ReplaceAll(d.Verdict, "_", " ")}, true
	case "run.pull_request_opened":
		return step{icon: "git-pull-request", text: "Opened PR #" + kit.Digits(d.Number)}, true
	}
	return d.describeEnd(kind), true
}

// describeEnd returns the steps of decisions, of the end of a run, and of unknown kinds.
func (d eventData) describeEnd(kind string) step {
	switch kind {
	case "decision.answered":
		return step{icon: "check", text: "Answered: " + kit.Words(d.Action), notes: optionalNote(d.Note)}
	case "decision.voided":
		return step{icon: "rotate-ccw", text: "Decision no longer needed", notes: optionalNote(kit.Words(d.Reason))}
	case "run.merge_approved":
		return step{icon: "check", text: "Merge of " + shortSHA(d.Head) + " approved"}
	case "run.merge_approval_voided":
		return step{icon: "rotate-ccw", text: "Approval withdrawn", notes: optionalNote(kit.Words(d.Reason))}
	case "run.lane_entered":
		return step{icon: "git-merge", text: "Its turn to merge"}
	case "run.merge_candidate":
		return step{icon: "git-merge", text: "Merge to be tested: " + shortSHA(d.Commit)}
	case "run.merge_postponed":
		return step{icon: "rotate-ccw", text: "Merge postponed", notes: optionalNote(kit.Words(d.Reason))}
	case "run.stop_requested":
		return step{icon: "ban", text: "Asked to stop", notes: optionalNote(d.Reason)}
	case "run.tidied":
		return step{icon: "check", text: "Cleaned up"}
	case "run.merged":
		return step{icon: "git-merge", text: "Merged"}
	case "run.rejected":
		return step{icon: "ban", text: "Rejected", notes: optionalNote(d.Reason)}
	case "run.failed":
		return step{icon: "circle-x", text: "Failed in " + stageName(d.Stage), notes: optionalNote(d.Reason)}
	case "run.cancelled":
		return step{icon: "ban", text: "Cancelled", notes: optionalNote(d.Reason)}
	}
	return step{icon: "activity", text: kit.Words(strings.NewReplacer(".", ": ").Replace(kind))}
}

// stageName returns the name of a stage on pages: "Build farm" for build_farm.
func stageName(stage string) string {
	if stage == "self_review" {
		return "Self-review"
	}
	return kit.Words(stage)
}

func roundSuffix(attempt int64) string {
	if attempt > 1 {
		return ", round " + kit.Digits(attempt)
	}
	return ""
}

func optionalNote(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// queuedBy returns the name of who queued the run, "" if that is not among the page's events.
func (d runData) queuedBy() string {
	if n := len(d.Events); n > 0 && d.Events[n-1].Kind == "run.queued" {
		return actorName(d.Events[n-1].Actor)
	}
	return ""
}

// notes describes the results of stages, by the stage's label, as far as the page's events
// tell them.
func (d runData) notes() map[string]string {
	notes := map[string]string{}
	for _, s := range d.Timeline.Stages {
		switch {
		case s.Attempt > 1:
			notes[s.Label] = "round " + kit.Digits(s.Attempt)
		case s.Label == "Merge" && s.Status == client.StageStatusPending:
			notes[s.Label] = "needs a person who may approve loops"
		case s.Status == client.StageStatusSkipped:
			notes[s.Label] = skippedNote(d.Run.Status, s)
		}
	}
	for _, e := range slices.Backward(d.Events) {
		data := parseEventData(e)
		switch e.Kind {
		case "run.facts_recorded":
			notes["Analyze"] = kit.Count(int64(len(data.Facts)), "fact", "facts") + " recorded"
		case "run.plan_recorded":
			notes["Plan"] = kit.Count(int64(len(data.Steps)), "step", "steps")
		}
	}
	if n := len(d.Resources.Jobs); n > 0 {
		if j := d.Resources.Jobs[n-1]; j.Farm != nil && j.Farm.Runner != nil && j.Farm.State != client.JobAtFarmStateQueued {
			notes["Build farm"] = joinNotes(notes["Build farm"], "“"+j.Name+"” on "+j.Farm.Runner.Name)
		}
	}
	if text := waitLabel(d.Run); text != "" {
		notes[string(d.Run.StageLabel)] = joinNotes(notes[string(d.Run.StageLabel)], "waiting for a person")
	}
	return notes
}

// skippedNote says what happened to a stage that an ended run left, or never reached.
func skippedNote(status client.RunStatus, s client.Stage) string {
	switch {
	case status == client.RunStatusMerged:
		return "not needed"
	case s.StartedAt == nil:
		return "not reached"
	}
	return "stopped when the run was " + string(status)
}

func joinNotes(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}
