package events

import "time"

// invitations are a workspace's too.
var invitations = Noun{
	Name: "invitation", Audience: Members, State: true, NamesTarget: true,
	kinds: [][]decoder{
		of[InvitationSent](),
		of[InvitationResent](),
		of[InvitationRevoked](),
		of[InvitationAccepted](),
		of[InvitationRejected](),
	},
}

// InvitationLifetime is how long an invitation can be accepted after it was
// sent or sent again.
const InvitationLifetime = 48 * time.Hour

// InvitationSent says that somebody was asked to join the workspace.
type InvitationSent struct {
	Invitation ID        `json:"invitationId"`
	Email      string    `json:"email"` // as package input has it
	Role       Role      `json:"role"`
	ExpiresAt  time.Time `json:"expiresAt"`
}

func (InvitationSent) Kind() string            { return "invitation.sent" }
func (e InvitationSent) target(*Record) Target { return Target{"invitation", e.Invitation, e.Email} }
func (e InvitationSent) changes(*Record) []Change {
	return []Change{{"status", nil, "pending"}, {"role", nil, e.Role}, {"expiresAt", nil, e.ExpiresAt}}
}

// InvitationResent says that the time of an invitation began again.
type InvitationResent struct {
	Invitation ID        `json:"invitationId"`
	Email      string    `json:"email"`
	ExpiresAt  time.Time `json:"expiresAt"`
}

func (InvitationResent) Kind() string               { return "invitation.resent" }
func (e InvitationResent) target(*Record) Target    { return Target{"invitation", e.Invitation, e.Email} }
func (e InvitationResent) changes(*Record) []Change { return []Change{{"expiresAt", nil, e.ExpiresAt}} }

// InvitationRevoked says that the workspace took an invitation back: somebody
// did or, where there is a reason, what happened to the workspace did.
type InvitationRevoked struct {
	Invitation ID           `json:"invitationId"`
	Email      string       `json:"email"`
	Reason     RevokeReason `json:"reason,omitempty"`
}

func (InvitationRevoked) Kind() string            { return "invitation.revoked" }
func (e InvitationRevoked) target(*Record) Target { return Target{"invitation", e.Invitation, e.Email} }
func (e InvitationRevoked) changes(*Record) []Change {
	list := []Change{{"status", "pending", "revoked"}}
	if e.Reason != "" {
		list = append(list, Change{"reason", nil, e.Reason})
	}
	return list
}

// A RevokeReason says why an invitation was revoked without anybody asking for it.
type RevokeReason string

// InviterLeft says that whoever sent the invitation last could no longer send it:
// they are no member any more, or have a role that does not allow it.
const InviterLeft RevokeReason = "inviter_left"

// InvitationAccepted says that the invitee accepted. They joined in the same commit.
type InvitationAccepted struct {
	Invitation ID     `json:"invitationId"`
	Email      string `json:"email"`
	User       ID     `json:"userId"`
}

func (InvitationAccepted) Kind() string { return "invitation.accepted" }
func (e InvitationAccepted) target(*Record) Target {
	return Target{"invitation", e.Invitation, e.Email}
}
func (InvitationAccepted) changes(*Record) []Change {
	return []Change{{"status", "pending", "accepted"}}
}

// InvitationRejected says that the invitee does not want to join.
type InvitationRejected struct {
	Invitation ID     `json:"invitationId"`
	Email      string `json:"email"`
	User       ID     `json:"userId"`
}

func (InvitationRejected) Kind() string { return "invitation.rejected" }
func (e InvitationRejected) target(*Record) Target {
	return Target{"invitation", e.Invitation, e.Email}
}
func (InvitationRejected) changes(*Record) []Change {
	return []Change{{"status", "pending", "rejected"}}
}
