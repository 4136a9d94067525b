package events

import "time"

// invitations are in the stream of their workspace, like members.
var invitations = Noun{
	Name: "invitation", Audience: Members, State: true, NamesTarget: true,
	people: [][]decoder{
		decodersOf[InvitationSent](),
		decodersOf[InvitationResent](),
		decodersOf[InvitationRevoked](),
		decodersOf[InvitationAccepted](),
		decodersOf[InvitationRejected](),
	},
}

// InvitationLifetime is how long an invitation can be accepted after it was
// sent or sent again.
const InvitationLifetime = 48 * time.Hour

// InvitationSent says that somebody was asked to join the workspace.
type InvitationSent struct {
	Invitation ID        `json:"invitationId"`
	Email      string    `json:"email"` // normalized by package input
	Role       Role      `json:"role"`
	ExpiresAt  time.Time `json:"expiresAt"`
}

func (InvitationSent) Kind() string            { return "invitation.sent" }
func (e InvitationSent) target(*Record) Target { return Target{"invitation", e.Invitation, e.Email} }
func (e InvitationSent) changes(*Record) []Change {
	return []Change{{"status", nil, "pending"}, {"role", nil, e.Role}, {"expiresAt", nil, e.ExpiresAt}}
}

// InvitationResent says that an invitation was sent again, with a new expiry.
type InvitationResent struct {
	Invitation ID        `json:"invitationId"`
	Email      string    `json:"email"`
	ExpiresAt  time.Time `json:"expiresAt"`
}

func (InvitationResent) Kind() string               { return "invitation.resent" }
func (e InvitationResent) target(*Record) Target    { return Target{"invitation", e.Invitation, e.Email} }
func (e InvitationResent) changes(*Record) []Change { return []Change{{"expiresAt", nil, e.ExpiresAt}} }

// InvitationRevoked says that an invitation can no longer be accepted. Reason is empty if
// somebody revoked it, and otherwise says which event of the workspace did.
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

// InviterLeft means that the last sender of the invitation may no longer send it: they have
// left the workspace, or their role does not allow it.
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
