package audit

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// sentences describe each action: when it was done, and as the end of "Tried to …" when it
// was refused. A kind that is not here is described by its words.
var sentences = map[string][2]string{
	"audit.exported":                   {"Exported the audit log", "export the audit log"},
	"authority.created":                {"Created the farm’s certificate authority", "create the farm’s certificate authority"},
	"authority.retired":                {"Retired a certificate authority of the farm", "retire a certificate authority of the farm"},
	"command.denials_omitted":          {"Was refused more often than the log lists", ""},
	"decision.answered":                {"Answered a decision", "answer a decision"},
	"decision.raised":                  {"Asked people for a decision", ""},
	"decision.voided":                  {"Withdrew a decision", ""},
	"enrollment.expired":               {"Used an expired enroll command", ""},
	"enrollment.minted":                {"Created an enroll command", "create an enroll command"},
	"enrollment.refused":               {"Used an enroll command too often", ""},
	"enrollment.used":                  {"Added a machine with an enroll command", ""},
	"enrollment.withdrawn":             {"Withdrew an enroll command", "withdraw an enroll command"},
	"farm_secret.removed":              {"Removed a secret of the farm", "remove a secret of the farm"},
	"farm_secret.scoped":               {"Changed which jobs may use a secret", "change which jobs may use a secret"},
	"farm_secret.set":                  {"Set a secret of the farm", "set a secret of the farm"},
	"invitation.accepted":              {"Accepted an invitation", "accept an invitation"},
	"invitation.rejected":              {"Rejected an invitation", "reject an invitation"},
	"invitation.resent":                {"Sent an invitation again", "send an invitation again"},
	"invitation.revoked":               {"Withdrew an invitation", "withdraw an invitation"},
	"invitation.sent":                  {"Invited somebody", "invite somebody"},
	"issue.cost_recorded":              {"Added to the cost of an issue", ""},
	"job.accepted":                     {"Accepted a job on a runner", ""},
	"job.artifact_stored":              {"Stored a file of a job", ""},
	"job.artifacts_abandoned":          {"Gave up waiting for files of a job", ""},
	"job.artifacts_completed":          {"Stored all files of a job", ""},
	"job.artifacts_declared":           {"Listed the files that a job leaves", ""},
	"job.artifacts_removed":            {"Removed old files of a job", ""},
	"job.cancel_requested":             {"Asked to cancel a job", "cancel a job"},
	"job.cancelled":                    {"Cancelled a job", "cancel a job"},
	"job.checked_out":                  {"Checked out a commit for a job", ""},
	"job.declined":                     {"Declined a job", ""},
	"job.expired":                      {"Gave up on a job that no runner took", ""},
	"job.finished":                     {"Finished a job", ""},
	"job.lease_expired":                {"Lost contact with the runner of a job", ""},
	"job.leased":                       {"Gave a job to a runner", ""},
	"job.log_sealed":                   {"Completed the log of a job", ""},
	"job.lost":                         {"Gave up on a job after its last attempt", ""},
	"job.requeued":                     {"Put a job back in the queue", ""},
	"job.started":                      {"Started a job", ""},
	"job.step_finished":                {"Finished a step of a job", ""},
	"job.step_started":                 {"Started a step of a job", ""},
	"job.submitted":                    {"Submitted a job", "submit a job"},
	"member.approve_loops_set":         {"Set who may approve merges", "set who may approve merges"},
	"member.joined":                    {"Joined", "join"},
	"member.left":                      {"Left", "leave"},
	"member.profile_changed":           {"Updated a name or picture", ""},
	"member.removed":                   {"Removed a member", "remove a member"},
	"member.role_changed":              {"Changed a member’s role", "change a member’s role"},
	"repo.checked":                     {"Checked a repository", ""},
	"repo.connected":                   {"Connected a repository", "connect a repository"},
	"repo.credential_replaced":         {"Replaced a repository’s credential", "replace a repository’s credential"},
	"repo.disconnected":                {"Disconnected a repository", "disconnect a repository"},
	"repo.hook_set":                    {"Set up a repository’s hook", "set up a repository’s hook"},
	"repo.implementer_tried":           {"Noted whether an implementer was available", ""},
	"repo.paused":                      {"Paused a repository", "pause a repository"},
	"repo.renamed":                     {"Noticed a repository’s new name", ""},
	"repo.resumed":                     {"Resumed a repository", "resume a repository"},
	"repo.settings_changed":            {"Changed a repository’s settings", "change a repository’s settings"},
	"run.base_read":                    {"Read the branch and the policy that a run starts from", ""},
	"run.branch_created":               {"Created a branch for a run", ""},
	"run.budget_set":                   {"Set the budget of a run", ""},
	"run.cancelled":                    {"Cancelled a run", "cancel a run"},
	"run.commits_pushed":               {"Pushed commits of a run", ""},
	"run.cost_recorded":                {"Added to the cost of a run", ""},
	"run.estimated":                    {"Estimated a run", ""},
	"run.facts_recorded":               {"Recorded what is known about an issue", ""},
	"run.failed":                       {"Marked a run as failed", ""},
	"run.guardrails_checked":           {"Checked the changes of a run against the rules", ""},
	"run.human_intervened":             {"Noted that a person helped with a run", ""},
	"run.issue_read":                   {"Read the issue of a run", ""},
	"run.job_requested":                {"Asked the build farm for a job", ""},
	"run.job_settled":                  {"Noted how a job of a run ended", ""},
	"run.lane_entered":                 {"Gave a run its turn to merge", ""},
	"run.merge_approval_voided":        {"Withdrew the approval of a merge", ""},
	"run.merge_approved":               {"Approved a merge", "approve a merge"},
	"run.merge_attempted":              {"Started to merge a run", ""},
	"run.merge_candidate":              {"Prepared the merge of a run", ""},
	"run.merge_postponed":              {"Postponed the merge of a run", ""},
	"run.merged":                       {"Merged a run", ""},
	"run.plan_recorded":                {"Recorded the plan of a run", ""},
	"run.pull_request_opened":          {"Opened the pull request of a run", ""},
	"run.queued":                       {"Queued an issue", "queue an issue"},
	"run.rejected":                     {"Rejected a run", "reject a run"},
	"run.reviewed":                     {"Reviewed a run", ""},
	"run.stage_entered":                {"Started a stage of a run", ""},
	"run.stage_failed":                 {"Failed in a stage of a run", ""},
	"run.stage_succeeded":              {"Finished a stage of a run", ""},
	"run.started":                      {"Started a run", ""},
	"run.stop_requested":               {"Stopped a run after its merge attempt", "stop a run"},
	"run.tidied":                       {"Cleaned up after a run", ""},
	"run.waiting":                      {"Noted what a run waits for", ""},
	"runner.certificate_renewed":       {"Renewed a runner’s certificate", ""},
	"runner.certificate_reused":        {"Used a certificate that was replaced", ""},
	"runner.certificate_superseded":    {"Replaced a runner’s certificate", ""},
	"runner.drain_ended":               {"Resumed a runner", "resume a runner"},
	"runner.drain_requested":           {"Drained a runner", "drain a runner"},
	"runner.enrolled":                  {"Enrolled a runner", "enroll a runner"},
	"runner.job_returned":              {"Gave a job back", ""},
	"runner.job_taken":                 {"Took a job", ""},
	"runner.offline":                   {"Went offline", ""},
	"runner.online":                    {"Came online", ""},
	"runner.retired":                   {"Retired a runner", ""},
	"runner.revoked":                   {"Revoked a runner", "revoke a runner"},
	"runner.suspended":                 {"Suspended a runner", "suspend a runner"},
	"service_account.created":          {"Created a service account", "create a service account"},
	"service_account.revoked":          {"Revoked a service account", "revoke a service account"},
	"service_account.rotated":          {"Rotated a token", "rotate a token"},
	"service_account.stale_token_used": {"Used a token that is no longer valid", ""},
	"signing_key.replaced":             {"Replaced the key that signs the log", "replace the key that signs the log"},
	"user.account_linked":              {"Linked an account for signing in", ""},
	"user.emails_verified":             {"Confirmed email addresses", ""},
	"user.registered":                  {"Registered", ""},
	"user.signed_in":                   {"Signed in", ""},
	"user.signed_out":                  {"Signed out", ""},
	"workspace.created":                {"Created the workspace", "create a workspace"},
	"workspace.deleted":                {"Deleted the workspace", "delete the workspace"},
	"workspace.purge_began":            {"Began to erase the workspace", ""},
	"workspace.renamed":                {"Renamed the workspace", "rename the workspace"},
	"workspace.restored":               {"Restored the workspace", "restore the workspace"},
}

// sentence describes the action of a record.
func sentence(r client.AuditRecord) string { return describeAction(r.Action, denied(r)) }

// describeAction describes an action by its sentence, or by the words of its name: "Member greeted".
func describeAction(action string, denied bool) string {
	words := sentences[action]
	plain := strings.NewReplacer(".", " ", "_", " ").Replace(action)
	switch {
	case denied && words[1] != "":
		return "Tried to " + words[1]
	case denied:
		return "Tried: " + plain
	case words[0] != "":
		return words[0]
	}
	return strings.ToUpper(plain[:min(1, len(plain))]) + plain[min(1, len(plain)):]
}

// actionPhrases describe actions after the actor's name. {} stands for the target's name.
var actionPhrases = map[string]string{
	"invitation.accepted":              "accepted the invitation",
	"invitation.rejected":              "rejected the invitation",
	"invitation.resent":                "invited {} again",
	"invitation.revoked":               "withdrew the invitation of {}",
	"invitation.sent":                  "invited {}",
	"member.approve_loops_set":         "set whether {} may approve merges",
	"member.joined":                    "joined",
	"member.left":                      "left",
	"member.profile_changed":           "updated the name or picture of {}",
	"member.removed":                   "removed {}",
	"member.role_changed":              "changed the role of {}",
	"service_account.created":          "created {}",
	"service_account.revoked":          "revoked {}",
	"service_account.rotated":          "rotated the token of {}",
	"service_account.stale_token_used": "used a token of {} that is no longer valid",
	"workspace.created":                "created the workspace",
	"workspace.deleted":                "deleted the workspace",
	"workspace.renamed":                "renamed the workspace",
	"workspace.restored":               "restored the workspace",
}

// actionPhrase describes what the actor of a record did, as the text before and after the
// target's name; named is false if the name is not part of it.
func actionPhrase(r client.AuditRecord) (before, after string, named bool) {
	text := actionPhrases[r.Action]
	if denied(r) || text == "" {
		text = sentence(r)
		text = strings.ToLower(text[:1]) + text[1:] + ": {}"
	}
	if r.Target.Name == "" {
		return strings.TrimSuffix(strings.ReplaceAll(text, " {}", ""), ":"), "", false
	}
	return strings.Cut(text, "{}")
}

func denied(r client.AuditRecord) bool { return r.Outcome == client.AuditRecordOutcomeDenied }

var origins = map[client.AuditContextOrigin]string{
	"ui": "Web app", "api": "API", "auth": "Sign-in", "farm": "Build farm", "cli": "Command line", "system": "The service itself",
}

// formatValue formats the value of a changed field, "—" for none.
func formatValue(v any) string {
	switch s := v.(type) {
	case nil:
		return "—"
	case string:
		return s
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "—"
	}
	return string(text)
}

// maxSummary bounds the letters of a change in a row.
const maxSummary = 100

// tellingFields are those that a row shows although they had no value before, or have none now.
var tellingFields = []string{"role", "scopes", "labels", "action", "reason", "note"}

// repeatedFields say what the sentence of an event says.
var repeatedFields = []string{"status", "state", "draining", "tokenTail"}

// changeSummary describes what an event changed as the row shows it: "role: Viewer → Maintainer". It leaves out
// ids, times and structures, which are below the row.
func changeSummary(r client.AuditRecord) string {
	var list []string
	length := 0
	for _, c := range r.Changes {
		before, ok := briefValue(c.Field, c.From)
		after, ok2 := briefValue(c.Field, c.To)
		oneSided := c.From == nil || c.To == nil
		if !ok || !ok2 || before == after || slices.Contains(repeatedFields, c.Field) || oneSided && !slices.Contains(tellingFields, c.Field) {
			continue
		}
		text := fieldName(c.Field) + ": " + after
		switch {
		case before != "" && after != "":
			text = fieldName(c.Field) + ": " + before + " → " + after
		case after == "":
			text = fieldName(c.Field) + ": " + before + " → none"
		}
		if length += len(text); length > maxSummary {
			break
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

var identifier = regexp.MustCompile(`^[0-9a-f]{8}-|^[0-9a-f]{16,}$|^\d{4}-\d\d-\d\dT`)

// briefValue returns a value as a row shows it, "" for none; ok is false if a row does not show such values.
func briefValue(field string, value any) (text string, ok bool) {
	switch v := value.(type) {
	case nil:
		return "", true
	case bool:
		if v {
			return "yes", true
		}
		return "no", true
	case string:
		if field == "role" {
			v = kit.Role(v)
		}
		return v, len(v) <= maxSummary && !identifier.MatchString(v) && !strings.Contains(v, "\n")
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	case []any:
		var list []string
		for _, item := range v {
			one, is := item.(string)
			if !is {
				return "", false
			}
			list = append(list, one)
		}
		text = strings.Join(list, " ")
		return text, len(text) <= maxSummary
	}
	return "", false
}

// fieldName returns the words of a field's name: "expires at" for expiresAt.
func fieldName(field string) string {
	if field == "canApproveLoops" {
		return "may approve merges"
	}
	var words strings.Builder
	for _, letter := range field {
		if unicode.IsUpper(letter) {
			words.WriteByte(' ')
		}
		words.WriteRune(unicode.ToLower(letter))
	}
	return words.String()
}

// programName shortens a User-Agent: "Firefox 144 on Linux". A program that is not known stays as it is.
func programName(agent string) string {
	program, version, system := kit.UserAgent(agent)
	if program == "" {
		return agent
	}
	if version != "" {
		program += " " + version
	}
	if system != "" {
		program += " on " + system
	}
	return program
}

// A jsonToken is a part of a JSON text.
type jsonToken struct{ class, text string } // class is json-key, json-text or ""

var jsonString = regexp.MustCompile(`"(?:[^"\\]|\\.)*"(\s*:)?`)

// jsonTokens splits a JSON text into keys, string values, and the rest.
func jsonTokens(text string) (list []jsonToken) {
	at := 0
	for _, m := range jsonString.FindAllStringSubmatchIndex(text, -1) {
		class := "json-text"
		if m[2] >= 0 {
			class = "json-key"
		}
		list = append(list, jsonToken{"", text[at:m[0]]}, jsonToken{class, text[m[0]:m[1]]})
		at = m[1]
	}
	return append(list, jsonToken{"", text[at:]})
}

// targetPath returns the page of an event's target, "" if it has none.
func targetPath(v *page.Visit, t client.AuditTarget) string {
	switch t.Type {
	case "run":
		return v.Path("runs", t.Id)
	case "job":
		return v.Path("farm", "jobs", t.Id)
	}
	return ""
}

// replayRange returns the shortest range of the replay that includes a time.
func replayRange(at, now time.Time) string {
	const day = 24 * time.Hour
	switch age := now.Sub(at); {
	case age < 6*day:
		return "7d"
	case age < 29*day:
		return "30d"
	}
	return "90d"
}
