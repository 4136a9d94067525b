package rest

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"svc/aggregates"
	"svc/commands"
	"svc/fault"
	"svc/projections"
	"svc/projections/fold"
	"svc/proof"
)

// A description is what the OpenAPI document says of a route.
type description struct {
	tag, summary, text string
	status             int            // of success; 200 if 0
	refuses            []*fault.Fault // beyond what its guard does
	unchanged          bool           // may answer 304
}

var descriptions = map[string]description{
	"listRuns": {tag: "Runs", summary: "List runs",
		text: "Runs that still move (`status=active`), the oldest first within each stage, or runs that have stopped (`status=terminal`), the newest first."},
	"getRun": {tag: "Runs", summary: "Get a run",
		refuses: []*fault.Fault{aggregates.ErrNoRun},
		text:    "One run with its timeline, changes, resources and guardrails. A run of another workspace is answered like one that does not exist: 404 `run_not_found`."},

	"cancelRun": {tag: "Runs", summary: "Cancel a run", status: http.StatusAccepted,
		refuses: []*fault.Fault{aggregates.ErrNoRun, aggregates.ErrRunOver, aggregates.ErrRunOutOfStep},
		text:    "Stops a run. What it asked nobody has to answer any more. 409 `run_over` if it has stopped already, 409 `run_out_of_step` while it is being merged."},
	"queueIssue": {tag: "Backlog", summary: "Queue an issue", status: http.StatusCreated,
		refuses: []*fault.Fault{errNoRepo, aggregates.ErrQueued, commands.ErrKeyReused, fold.ErrNotCaughtUp},
		text:    "Begins a run that works on an issue: one of the repository, by its number, or one that is written here. An issue has one active run: 409 `already_queued`. 404 `repo_not_found` if the workspace does not know the repository."},

	"listInbox": {tag: "Inbox", summary: "List the decisions that wait",
		text: "What runs ask people, the newest first. Each action says whether the caller may choose it: `role_required` names a role that is missing, `capability_required` that the caller may not approve loops. A token may choose none."},
	"answerDecision": {tag: "Inbox", summary: "Answer a decision",
		refuses: []*fault.Fault{aggregates.ErrNoDecision, aggregates.ErrRoleRequired, aggregates.ErrCapabilityRequired, aggregates.ErrDecisionStale, aggregates.ErrDecisionAnswered, commands.ErrKeyReused},
		text:    "Decides what a run waits for; the run goes on at once. 409 `decision_stale` if the branch has moved since or the run has stopped, 409 `decision_answered` if somebody was faster. 403 `role_required` or `capability_required`, by the kind of the decision."},

	"getInsights": {tag: "Insights", summary: "How well the loop does",
		text: "Five numbers over the last days and over the days before, each with how it is computed."},
	"getDashboard": {tag: "Dashboard", summary: "What goes on", unchanged: true,
		text: "What the workspace is busy with, for clients that ask again and again: send the `ETag` of the last answer as `If-None-Match` and wait `X-Svc-Poll-After` seconds in between. While nothing has changed the answer is 304, without a body."},

	"streamEvents": {tag: "Live updates", summary: "Follow what happens",
		text: "What changed in the workspace, as server-sent events, each once and in the order of `seq`, which is its id: what happened to what (`kind`, `target`), not how it is now. " +
			"Whoever comes again with the `Last-Event-ID` that they have (browsers do by themselves) misses nothing. The first event, `ready`, says in which workspace the stream is and after which `seq` it begins: if that is not what you asked for, read anew what you show. " +
			"Events are left out that the caller could not read elsewhere. " +
			"The stream ends when the caller's rights change, after an hour, or when the service stops. A line that begins with a colon every 15 seconds says that it is still there. A reader has to take what is sent within 10 seconds. " +
			"A caller may have 12 streams: 429 `rate_limited`."},

	"getWorkspace": {tag: "Workspace", summary: "Get the workspace",
		text: "The name and slug of the workspace, and the caller's place in it."},
	"renameWorkspace": {tag: "Workspace", summary: "Rename the workspace",
		refuses: []*fault.Fault{aggregates.ErrSlugTaken},
		text:    "Gives the workspace another name, another slug, or both. The old slug is free for others at once."},

	"listMembers": {tag: "Members & roles", summary: "List members",
		text: "The members of the workspace, by name: in the order of letters without case and accents, those whose name is not known by address. The order and a search take the name that a member joined with. `total` counts all pages, of a search what it finds, which is up to 250 members. `nextCursor` leads to the page that follows, wherever that is; `offset` to the first 1,000."},
	"updateMember": {tag: "Members & roles", summary: "Change a member",
		refuses: []*fault.Fault{aggregates.ErrNoMember, aggregates.ErrMemberForbidden, aggregates.ErrOwnerRequired, aggregates.ErrLastOwner},
		text:    "Gives a member another role, ticks or unticks approve-loops, or both. It applies at once. Only an Owner makes somebody an Owner or changes one; the last Owner stays. Invitations that the member sent, and could not send in the new role, are withdrawn."},
	"removeMember": {tag: "Members & roles", summary: "Remove a member", status: http.StatusNoContent,
		refuses: []*fault.Fault{aggregates.ErrRoleRequired, aggregates.ErrNoMember, aggregates.ErrMemberForbidden, aggregates.ErrLastOwner},
		text:    "Takes a member out of the workspace; their access ends at once. Members who remove themselves leave. The last Owner stays. Invitations that the member sent are withdrawn."},

	"listInvitations": {tag: "Members & roles", summary: "List invitations",
		text: "The invitations that wait for an answer, the newest first; one whose time is up reads `expired`."},
	"sendInvitation": {tag: "Members & roles", summary: "Invite somebody", status: http.StatusCreated,
		refuses: []*fault.Fault{aggregates.ErrOwnerRequired, aggregates.ErrAlreadyMember, aggregates.ErrAlreadyInvited, commands.ErrKeyReused},
		text:    "Asks the holder of an e-mail address to join. No e-mail is sent. The invitation can be accepted for 48 hours. A person sends, or sends again, 200 a day unless operators say otherwise: 429 `rate_limited`, with `Retry-After`. Only an Owner invites an Owner."},
	"resendInvitation": {tag: "Members & roles", summary: "Resend an invitation",
		refuses: []*fault.Fault{aggregates.ErrNoInvitation, aggregates.ErrOwnerRequired, aggregates.ErrInvitationNotPending},
		text:    "Lets the 48 hours begin again, also after they are up. Whoever asks is the sender from then on."},
	"revokeInvitation": {tag: "Members & roles", summary: "Revoke an invitation", status: http.StatusNoContent,
		refuses: []*fault.Fault{aggregates.ErrNoInvitation, aggregates.ErrOwnerRequired, aggregates.ErrInvitationNotPending},
		text:    "Takes an invitation back."},

	"listServiceAccounts": {tag: "Service accounts", summary: "List service accounts",
		text: "The active service accounts by name, then the revoked ones. Of a token only the last four characters are shown."},
	"createServiceAccount": {tag: "Service accounts", summary: "Create a service account", status: http.StatusCreated,
		refuses: []*fault.Fault{aggregates.ErrServiceAccountNameUsed, errTokenShown, commands.ErrKeyReused},
		text:    "Makes a service account and its token. The token is in this answer and can never be read again."},
	"rotateServiceAccount": {tag: "Service accounts", summary: "Rotate a token",
		refuses: []*fault.Fault{aggregates.ErrNoServiceAccount, aggregates.ErrServiceAccountRevoked, errTokenShown, commands.ErrKeyReused},
		text:    "Replaces the account's token by a new one, which is in this answer and can never be read again. The old one has stopped working when this is answered."},
	"revokeServiceAccount": {tag: "Service accounts", summary: "Revoke a service account",
		refuses: []*fault.Fault{aggregates.ErrNoServiceAccount, aggregates.ErrServiceAccountRevoked},
		text:    "Disables the account and its token, at once and for good."},

	"listAudit": {tag: "Audit", summary: "Search the audit log",
		text: "Who did what, the newest first. Each record is an event of the workspace's log; `seq` counts them without a gap. The same refusal of the same person is recorded once a minute, and 30 a minute of all that they are refused; how many more there were is a record too, `command.denials_omitted`, a minute later at most. `nextCursor` leads to older ones and is absent on the last page. A search by `q`, or by several filters at once, looks through 20,000 records a page: it may answer with fewer than `limit`, or none, and a `nextCursor` to go on by."},
	"getAuditRecord": {tag: "Audit", summary: "Get a record",
		refuses: []*fault.Fault{errNoRecord},
		text:    "One record, and the event as it is stored. 404 `audit_record_not_found` if the workspace has none of this id."},
	"exportAudit": {tag: "Audit", summary: "Export the audit log",
		text: "All records or those that the filter leaves, the oldest first, up to the newest one of the moment before the export. It is recorded itself, as `audit.exported`, before the first byte. In CSV every cell is quoted, and what a spreadsheet would run has an apostrophe before it, also within a cell that it may split. A browser has to ask from the service's own site: 403 `cross_origin_refused`. A reader may be slow, but has to read something every 30 seconds. A person or a workspace may have two under way: 429 `rate_limited`."},
	"getAuditState": {tag: "Audit", summary: "The workspace as it was",
		refuses: []*fault.Fault{projections.ErrUnreadable, projections.ErrStateTooLarge},
		text:    "Name, members, invitations and service accounts after one event (`seq`) or at a time (`at`), folded from the events. 409 `event_unreadable` if one of them cannot be taken in, `state_too_large` if there were more than 100,000 members, invitations and service accounts."},
	"replayAudit": {tag: "Audit", summary: "Replay events",
		refuses: []*fault.Fault{projections.ErrUnreadable, projections.ErrStateTooLarge},
		text:    "What each event from `fromSeq` to `toSeq` did to the state that `/audit/state` tells, as RFC 6902 patches: all of them applied to `before` make `after`."},
	"verifyAudit": {tag: "Audit", summary: "Verify the audit log",
		refuses: []*fault.Fault{proof.ErrSigningKey},
		text:    "Recomputes the Merkle log of the workspace from its events and holds it against the stored hashes and the signed checkpoints, and goes on to the head of the log. It reads the whole log, so it takes a while; what has just been recorded it gives ten seconds to be signed for. 503 `signing_key_unavailable` if the key of the checkpoints cannot be opened, until its operator restores or replaces it; a replacement is a record, `signing_key.replaced`. Keep `checkpoint` and `verifierKey` elsewhere: who may write to the database can set everything back and have it signed anew, but not so that a checkpoint which was kept (`since`) still leads to it."},
}

// responses lists those that are neither the usual one nor an error.
func (d description) responses() map[string]*huma.Response {
	if !d.unchanged {
		return nil
	}
	return map[string]*huma.Response{"304": {Description: "Nothing has changed since the answer with that ETag.", Headers: map[string]*huma.Param{
		"ETag":             {Schema: &huma.Schema{Type: huma.TypeString}},
		"X-Svc-Poll-After": {Schema: &huma.Schema{Type: huma.TypeInteger}},
		"Cache-Control":    {Schema: &huma.Schema{Type: huma.TypeString}},
	}}}
}
