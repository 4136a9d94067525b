package audit

import (
	"encoding/json"
	"strings"

	"svc/ui/client"
)

// sentences say what an action did, and what was tried where it was refused.
var sentences = map[string][2]string{
	"audit.exported":                   {"Exported the audit log", "export the audit log"},
	"decision.answered":                {"Answered a decision", "answer a decision"},
	"decision.raised":                  {"Asked for a decision", ""},
	"decision.voided":                  {"Withdrew a decision", ""},
	"enrollment.minted":                {"Made an enroll command", "make an enroll command"},
	"enrollment.withdrawn":             {"Withdrew an enroll command", "withdraw an enroll command"},
	"farm_secret.set":                  {"Set a secret of the farm", "set a secret of the farm"},
	"farm_secret.removed":              {"Removed a secret of the farm", "remove a secret of the farm"},
	"invitation.sent":                  {"Invited somebody", "invite somebody"},
	"invitation.resent":                {"Sent an invitation again", "send an invitation again"},
	"invitation.revoked":               {"Withdrew an invitation", "withdraw an invitation"},
	"invitation.accepted":              {"Accepted an invitation", "accept an invitation"},
	"invitation.rejected":              {"Rejected an invitation", "reject an invitation"},
	"job.submitted":                    {"Submitted a job", "submit a job"},
	"job.cancel_requested":             {"Cancelled a job", "cancel a job"},
	"member.joined":                    {"Joined", "join"},
	"member.left":                      {"Left", "leave"},
	"member.removed":                   {"Removed a member", "remove a member"},
	"member.role_changed":              {"Changed a member’s role", "change a member’s role"},
	"member.approve_loops_set":         {"Set who may approve loops", "set who may approve loops"},
	"member.profile_changed":           {"Took in a new name or picture", ""},
	"run.queued":                       {"Queued an issue", "queue an issue"},
	"run.cancelled":                    {"Cancelled a run", "cancel a run"},
	"runner.drain_requested":           {"Drained a runner", "drain a runner"},
	"runner.drain_ended":               {"Ended the draining of a runner", "end the draining of a runner"},
	"runner.revoked":                   {"Revoked a runner", "revoke a runner"},
	"service_account.created":          {"Created a service account", "create a service account"},
	"service_account.rotated":          {"Rotated a token", "rotate a token"},
	"service_account.revoked":          {"Revoked a service account", "revoke a service account"},
	"service_account.stale_token_used": {"Used a token that is no longer valid", ""},
	"command.denials_omitted":          {"Was refused more often than is recorded", ""},
	"workspace.created":                {"Created the workspace", "create a workspace"},
	"workspace.renamed":                {"Renamed the workspace", "rename the workspace"},
}

// sentence says what a record is about. Actions without a sentence of their own are said
// in the words of their names.
func sentence(r client.AuditRecord) string { return say(r.Action, denied(r)) }

func say(action string, denied bool) string {
	words := sentences[action]
	plain := strings.NewReplacer(".", ": ", "_", " ").Replace(action)
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

func denied(r client.AuditRecord) bool { return r.Outcome == client.AuditRecordOutcomeDenied }

var origins = map[client.AuditContextOrigin]string{
	"ui": "Web app", "api": "API", "auth": "Sign-in", "farm": "Build farm", "cli": "Command line", "system": "The service itself",
}

// value writes what a field was or is.
func value(of any) string {
	switch is := of.(type) {
	case nil:
		return "—"
	case string:
		return is
	}
	text, err := json.Marshal(of)
	if err != nil {
		return "—"
	}
	return string(text)
}
