package runs

import (
	"slices"
	"strings"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// waitTitles say what a run waits for, by the code. Those of codes that need somebody are in [needsSomebody].
var waitTitles = map[string]string{
	"slot": "Waits for a place among the active runs.", "tidy": "Waits until an earlier run of its issue has cleaned up.",
	"lane":   "Waits for its turn to merge.",
	"paused": "The repository is paused.", "disconnected": "The repository is not connected.",
	"engine_away": "The engine does not answer.", "host_away": "The code host does not answer.",
	"host_limited": "The code host limits requests.",
	"host_lag":     "The code host does not show yet what it has accepted.", "host_rule": "The code host does not allow the merge for now.",
	"base_moving": "The branch moves faster than merges into it are tested.", "policy": "The policy file of the repository has errors.",
	"farm": "The build farm takes no more jobs for now.", "backoff": "Waits for the next try.",
	"implementer": "The implementer is not available.",
}

// waitMarks are the same in a word or two, for cards.
var waitMarks = map[string]string{
	"slot": "In line", "tidy": "Cleanup", "lane": "In line to merge",
	"paused": "Paused", "disconnected": "Disconnected", "engine_away": "Engine down",
	"host_away": "Host down", "host_limited": "Host limit", "host_lag": "Host", "host_rule": "Host rule", "base_moving": "Branch moves",
	"policy": "Policy", "farm": "Farm", "backoff": "Next try", "implementer": "Implementer",
}

// waitTitle says what a run waits for, also for a code that only a newer version of the service knows.
func waitTitle(w client.RunWait) string {
	if title, ok := waitTitles[w.Code]; ok {
		return title
	}
	return "Waits: " + strings.ToLower(kit.Words(w.Code)) + "."
}

func waitMark(w client.RunWait) string {
	if mark, ok := waitMarks[w.Code]; ok {
		return mark
	}
	return kit.Words(w.Code)
}

// needsSomebody reports whether the wait does not end by itself.
func needsSomebody(w client.RunWait) bool {
	return slices.Contains([]string{"paused", "disconnected", "policy", "host_rule"}, w.Code)
}

func waitIcon(w client.RunWait) string {
	switch w.Code {
	case "paused":
		return "pause"
	case "disconnected", "policy", "host_rule":
		return "triangle-alert"
	case "engine_away", "host_away":
		return "wifi-off"
	case "lane":
		return "git-merge"
	}
	return "hourglass"
}

// retry queues the issue of an ended run once more, and leads to the new run.
func retry(v *page.Visit) (page.Notice, error) {
	params := client.RetryRunParams{IdempotencyKey: v.IdempotencyKey()}
	r, err := client.Decode[client.Run](v.API.RetryRun(v.Context(), v.PathValue("id"), &params))
	return page.Notice{Text: "Queued again. This is the new run.", To: v.Path("runs", r.Id)}, err
}

// purposes name what jobs of a run are for.
var purposes = map[client.RunJobPurpose]string{
	client.RunJobPurposeImplement: "implements", client.RunJobPurposeRequired: "tests the head",
	client.RunJobPurposeAnalyze: "analyzes the issue", client.RunJobPurposePlan: "plans", client.RunJobPurposeReview: "reviews the change",
	client.RunJobPurposeLane: "tests the merge", client.RunJobPurposeMerged: "tests what was merged",
}

func mergeMethod(m client.RunMergeMethod) string {
	if m == client.RunMergeMethodSquash {
		return "squashed"
	}
	return "with a merge commit"
}

// tidiedText says what became of the pull request and the branch.
func tidiedText(t client.RunTidied) string {
	var parts []string
	switch t.PullRequest {
	case client.RunTidiedPullRequestClosed:
		parts = append(parts, "pull request closed")
	case client.RunTidiedPullRequestLeft:
		parts = append(parts, "pull request left open")
	}
	switch t.Branch {
	case client.RunTidiedBranchDeleted:
		parts = append(parts, "branch deleted")
	case client.RunTidiedBranchLeft:
		parts = append(parts, "branch left: somebody else pushed to it")
	}
	return strings.Join(parts, ", ")
}

// A plan is what the implementer said about the change.
type plan struct {
	summary, risk string
	steps         []string
}

// planned returns the newest plan, with what the page's events tell of it.
func (d runData) planned() plan {
	p := plan{risk: d.Plan.Risk}
	for _, e := range d.Events {
		if e.Kind == "run.plan_recorded" {
			data := parseEventData(e)
			p.summary, p.steps = data.Summary, data.Steps
			break
		}
	}
	return p
}

func riskTone(risk string) kit.Tone {
	switch risk {
	case "high":
		return kit.Bad
	case "medium":
		return kit.Warn
	}
	return kit.Plain
}

// isUntouched reports whether the run has changed files, but not this one that its plan names.
func (d runData) isUntouched(file string) bool {
	return len(d.Changes.Items) > 0 && !slices.ContainsFunc(d.Changes.Items, func(f client.FileChange) bool { return f.Path == file })
}

// unplanned returns up to ten files that git says were changed, and the plan does not name; none if there is no plan.
func (d runData) unplanned() (list []string) {
	const most = 10
	for _, f := range d.Changes.Items {
		if len(d.Plan.Files) > 0 && len(list) < most && !slices.Contains(d.Plan.Files, f.Path) {
			list = append(list, f.Path)
		}
	}
	return list
}

// findingRule says why a guardrail named a file: a pattern that it matches, or a sentence.
func findingRule(c client.Check, f client.GuardrailFinding) string {
	if c.Id == "protected_paths" {
		return "matches " + f.Rule
	}
	return f.Rule
}

func waitTone(w client.RunWait) string {
	if needsSomebody(w) {
		return "warn"
	}
	return "plain"
}
