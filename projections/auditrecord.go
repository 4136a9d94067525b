package projections

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"svc/events"
	"svc/events/feed"
)

// A Target is what an event happened to.
type Target struct {
	Type string // the noun of the event's kind: member, service_account, run …
	ID   events.ID
	Name string // as it was then; empty where the event does not say
}

// A Change is one field that an event changed. From is nil for what is new.
type Change struct {
	Field    string
	From, To any
}

// actionOf names what happened or, of a denial, what did not.
func actionOf(r events.Record) (action, code string) {
	switch e := r.Event.(type) {
	case events.CommandDenied:
		return e.Action, e.Code
	case events.CommandDenialsOmitted:
		return e.Kind(), "denials_omitted" // each had a code of its own
	}
	return r.Event.Kind(), ""
}

// Targets say what events happened to, as live updates tell it.
func Targets() feed.Targets {
	return feed.Targets{InData: []string{"member", "invitation", "command"}, Of: func(r events.Record) (string, events.ID) {
		t := targetOf(r)
		if t.Type == "decision" {
			t.Type = "run" // without its data it does not say so itself
		}
		return t.Type, t.ID
	}}
}

func targetOf(r events.Record) Target {
	noun, _, _ := strings.Cut(r.Event.Kind(), ".")
	t := Target{Type: noun, ID: r.Stream}
	if _, ok := r.Event.(runEvent); ok {
		t.Type = "run" // decisions are a run's
	}
	switch e := r.Event.(type) {
	case events.CommandDenied:
		t.Type, _, _ = strings.Cut(e.Action, ".")
		t.ID, t.Name = e.Target, e.Name
	case events.CommandDenialsOmitted:
		t.Type, t.ID = "workspace", r.Workspace
	case events.UserRegistered:
		t.Name = first(e.Emails)
	case events.UserEmailsVerified:
		t.Name = first(e.Emails)
	case events.UserSignedIn:
		t.Name = e.Email
	case events.WorkspaceCreated:
		t.Name = e.Slug
	case events.WorkspaceRenamed:
		t.Name = e.Slug
	case events.MemberJoined:
		t.ID, t.Name = e.Member, e.Email
	case events.MemberRoleChanged:
		t.ID, t.Name = e.Member, e.Email
	case events.MemberApproveLoopsSet:
		t.ID, t.Name = e.Member, e.Email
	case events.MemberProfileChanged:
		t.ID, t.Name = e.Member, e.Email
	case events.MemberLeft:
		t.ID, t.Name = e.Member, e.Email
	case events.MemberRemoved:
		t.ID, t.Name = e.Member, e.Email
	case events.InvitationSent:
		t.ID, t.Name = e.Invitation, e.Email
	case events.InvitationResent:
		t.ID, t.Name = e.Invitation, e.Email
	case events.InvitationRevoked:
		t.ID, t.Name = e.Invitation, e.Email
	case events.InvitationAccepted:
		t.ID, t.Name = e.Invitation, e.Email
	case events.InvitationRejected:
		t.ID, t.Name = e.Invitation, e.Email
	case events.RunQueued:
		t.Name = fmt.Sprintf("%s#%d", e.Repo.Name, e.IssueNumber)
	case events.ServiceAccountCreated:
		t.Name = "service:" + e.Name
	case events.ServiceAccountRotated:
		t.Name = "service:" + e.Name
	case events.ServiceAccountRevoked:
		t.Name = "service:" + e.Name
	case events.ServiceAccountStaleTokenUsed:
		t.Name = "service:" + e.Name
	}
	return t
}

// first returns the primary one of addresses. Damaged data may have none.
func first(emails []string) string {
	if len(emails) == 0 {
		return ""
	}
	return emails[0]
}

func changesOf(r events.Record) []Change {
	switch e := r.Event.(type) {
	case events.Unread:
		return []Change{}
	case events.UserEmailsVerified:
		return []Change{{"emails", e.From, e.Emails}}
	case events.CommandDenied:
		return []Change{}
	case events.WorkspaceRenamed:
		return differing(Change{"name", e.FromName, e.Name}, Change{"slug", e.FromSlug, e.Slug})
	case events.MemberJoined:
		return []Change{{"role", nil, e.Role}}
	case events.MemberRoleChanged:
		return []Change{{"role", e.From, e.To}}
	case events.MemberApproveLoopsSet:
		return []Change{{"canApproveLoops", e.From, e.To}}
	case events.MemberProfileChanged:
		return []Change{{"name", nil, e.Name}, {"email", nil, e.Email}}
	case events.MemberLeft:
		return []Change{{"role", e.Role, nil}}
	case events.MemberRemoved:
		return []Change{{"role", e.Role, nil}}
	case events.InvitationSent:
		return []Change{{"status", nil, InvitationPending}, {"role", nil, e.Role}, {"expiresAt", nil, e.ExpiresAt}}
	case events.InvitationResent:
		return []Change{{"expiresAt", nil, e.ExpiresAt}}
	case events.InvitationRevoked:
		list := []Change{{"status", InvitationPending, InvitationRevoked}}
		if e.Reason != "" {
			list = append(list, Change{"reason", nil, e.Reason})
		}
		return list
	case events.InvitationAccepted:
		return []Change{{"status", InvitationPending, InvitationAccepted}}
	case events.InvitationRejected:
		return []Change{{"status", InvitationPending, InvitationRejected}}
	case events.ServiceAccountCreated:
		return []Change{{"scopes", nil, e.Scopes}, {"tokenTail", nil, e.Tail}}
	case events.ServiceAccountRotated:
		return []Change{{"tokenTail", e.FromTail, e.Tail}}
	case events.ServiceAccountRevoked:
		return []Change{{"status", "active", "revoked"}}
	case events.SigningKeyReplaced:
		return []Change{{"verifierKey", e.From, e.To}, {"signedUpTo", nil, e.UpTo}}
	case events.ServiceAccountStaleTokenUsed:
		return []Change{} // whose token it was, and when, is said already
	}
	return stated(r.Data)
}

func differing(list ...Change) []Change {
	changed := []Change{}
	for _, c := range list {
		if c.From != c.To {
			changed = append(changed, c)
		}
	}
	return changed
}

// stated lists the fields of an event that only says how things are now, in
// the order in which they are stored.
func stated(data []byte) []Change {
	list := []Change{}
	gjson.ParseBytes(data).ForEach(func(name, value gjson.Result) bool {
		list = append(list, Change{Field: name.String(), To: json.RawMessage(value.Raw)})
		return true
	})
	return list
}
