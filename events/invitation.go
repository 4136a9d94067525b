package events

import "time"

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

// InvitationResent says that the time of an invitation began again.
type InvitationResent struct {
	Invitation ID        `json:"invitationId"`
	Email      string    `json:"email"`
	ExpiresAt  time.Time `json:"expiresAt"`
}

// InvitationRevoked says that the workspace took an invitation back: somebody
// did or, where there is a reason, what happened to the workspace did.
type InvitationRevoked struct {
	Invitation ID           `json:"invitationId"`
	Email      string       `json:"email"`
	Reason     RevokeReason `json:"reason,omitempty"`
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

// InvitationRejected says that the invitee does not want to join.
type InvitationRejected struct {
	Invitation ID     `json:"invitationId"`
	Email      string `json:"email"`
	User       ID     `json:"userId"`
}

func (InvitationSent) Kind() string     { return "invitation.sent" }
func (InvitationResent) Kind() string   { return "invitation.resent" }
func (InvitationRevoked) Kind() string  { return "invitation.revoked" }
func (InvitationAccepted) Kind() string { return "invitation.accepted" }
func (InvitationRejected) Kind() string { return "invitation.rejected" }
