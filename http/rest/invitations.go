package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/openapi"
	"svc/projections"
)

const dailyInvitations = "A person can send or resend 200 invitations a day, a person and a workspace 10 to one address, unless " +
	"operators set other limits: 429 `rate_limited` with `Retry-After`."

func (s *Server) invitationRoutes() section {
	show := newInvitationAt(exampleAt(0))
	resent := exampleInvitation
	resent.ExpiresAt = exampleAt(0).Add(events.InvitationLifetime)
	return section{tag: "Members & roles", routes: []route{
		query(s.listInvitations, route{
			method: "GET", path: "/invitations", guard: anyMember,
			id: "listInvitations", summary: "List invitations",
			text:          "Lists pending and expired invitations, newest first.",
			answerExample: newList([]projections.Invitation{exampleInvitation}, 1, examplePage, show),
		}),
		command((*newInvitation).toCommand, s.sendInvitation, route{
			method: "POST", path: "/invitations", guard: mayDo(events.ManageMembers),
			id: "sendInvitation", summary: "Send an invitation", status: http.StatusCreated,
			text: "Invites the holder of an e-mail address to the workspace. No e-mail is sent. The invitation expires after 48 hours. " +
				"Only an Owner can invite an Owner. " + dailyInvitations,
			refuses: []*fault.Fault{
				aggregates.ErrOwnerRequired, aggregates.ErrAlreadyMember, aggregates.ErrAlreadyInvited, commands.ErrKeyReused,
			},
			requestExample: object{"email": exampleInvitation.Email, "role": exampleInvitation.Role},
			answerExample:  show(exampleInvitation),
		}),
		command((*InvitationPath).resend, s.resendInvitation, route{
			method: "POST", path: "/invitations/{id}/resend", guard: mayDo(events.ManageMembers),
			id: "resendInvitation", summary: "Resend an invitation",
			text:          "Restarts the 48 hours, even after they have passed. The caller becomes the sender. " + dailyInvitations,
			missing:       aggregates.ErrNoInvitation,
			refuses:       []*fault.Fault{aggregates.ErrOwnerRequired, aggregates.ErrInvitationNotPending},
			answerExample: show(resent),
		}),
		command((*InvitationPath).revoke, s.revokeInvitation, route{
			method: "DELETE", path: "/invitations/{id}", guard: mayDo(events.ManageMembers),
			id: "revokeInvitation", summary: "Revoke an invitation", status: http.StatusNoContent,
			text:    "Revokes an invitation.",
			missing: aggregates.ErrNoInvitation,
			refuses: []*fault.Fault{aggregates.ErrInvitationNotPending},
		}),
	}}
}

type invitation struct {
	ID        string            `json:"id" format:"uuid"`
	Email     string            `json:"email" example:"bob@example.com"`
	Role      string            `json:"role" enum:"Owner,Maintainer,Viewer"`
	Status    string            `json:"status" enum:"pending,expired,accepted,rejected,revoked" doc:"An invitation expires after 48 hours, or once its sender may no longer send it. Lists contain pending and expired ones. A retry with the same Idempotency-Key returns the invitation's current status."`
	InvitedBy string            `json:"invitedBy" doc:"The e-mail address of the person who last sent it." example:"ada@acme.example"`
	CreatedAt openapi.Timestamp `json:"createdAt"`
	ExpiresAt openapi.Timestamp `json:"expiresAt" doc:"48 hours after it was last sent."`
}

// newInvitationAt returns a function that renders invitations as of now.
func newInvitationAt(now time.Time) func(projections.Invitation) invitation {
	return func(i projections.Invitation) invitation {
		status := i.Status
		if i.Status == projections.InvitationPending && !i.Acceptable(now) {
			status = "expired"
		}
		return invitation{
			i.ID.String(), i.Email, string(i.Role), status, i.InviterName, openapi.FormatTime(i.SentAt), openapi.FormatTime(i.ExpiresAt),
		}
	}
}

type invitationsQuery struct{ Paging }

type invitationsAnswer struct{ Body List[invitation] }

func (s *Server) listInvitations(ctx context.Context, in *invitationsQuery) (*invitationsAnswer, error) {
	found, total, err := s.Primary.Invitations.Page(ctx, callerOf(ctx).workspace, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	return &invitationsAnswer{newList(found, total, in.Paging, newInvitationAt(s.Now()))}, nil
}

type newInvitation struct {
	Idempotency
	Body struct {
		Email string          `json:"email" format:"email" maxLength:"254" doc:"An address that the invitee has verified with the identity provider. ASCII only, except that an international domain is converted to its xn-- form. Stored in lower case." example:"bob@example.com"`
		Role  *assignableRole `json:"role,omitempty" doc:"Not case-sensitive. Defaults to Viewer."` // a pointer, to tell "" from absent
	}
}

type invitationAnswer struct {
	Position
	Body invitation
}

func (in *newInvitation) toCommand(c *caller, _ events.ID) (_ commands.SendInvitation, err error) {
	send := commands.SendInvitation{Meta: c.metaWithKey(in.Idempotency), Email: in.Body.Email, Role: events.Viewer}
	if in.Body.Role != nil {
		send.Role, err = in.Body.Role.parse()
	}
	return send, err
}

func (s *Server) sendInvitation(ctx context.Context, _ *newInvitation, send commands.SendInvitation) (*invitationAnswer, error) {
	send.Invitation = events.NewID(s.Now())
	done, err := s.Commands.SendInvitation(ctx, send)
	if err != nil {
		return nil, err
	}
	id := send.Invitation
	if done.Replayed {
		var stored commands.InvitationAnswer
		if err := json.Unmarshal(done.Answer, &stored); err != nil {
			return nil, fmt.Errorf("decode stored answer: %w", err)
		}
		id = stored.Invitation
	}
	return s.invitation(ctx, done, id)
}

// An InvitationPath names an invitation.
type InvitationPath struct {
	ID string `path:"id" maxLength:"64" doc:"The invitation's id."`
}

func (in *InvitationPath) resend(c *caller, id events.ID) (commands.ResendInvitation, error) {
	return commands.ResendInvitation{Meta: c.meta(), Invitation: id}, nil
}

func (in *InvitationPath) revoke(c *caller, id events.ID) (commands.RevokeInvitation, error) {
	return commands.RevokeInvitation{Meta: c.meta(), Invitation: id}, nil
}

func (s *Server) resendInvitation(ctx context.Context, _ *InvitationPath, resend commands.ResendInvitation) (*invitationAnswer, error) {
	done, err := s.Commands.ResendInvitation(ctx, resend)
	if err != nil {
		return nil, err
	}
	return s.invitation(ctx, done, resend.Invitation)
}

func (s *Server) invitation(ctx context.Context, done commands.Result, id events.ID) (*invitationAnswer, error) {
	i, err := find(ctx, id, aggregates.ErrNoInvitation, s.Primary.Invitations.Get)
	if err != nil {
		return nil, err
	}
	return &invitationAnswer{Position{done.Position}, newInvitationAt(s.Now())(i)}, nil
}

func (s *Server) revokeInvitation(ctx context.Context, _ *InvitationPath, revoke commands.RevokeInvitation) (*Position, error) {
	return positionAnswer(s.Commands.RevokeInvitation(ctx, revoke))
}

var exampleInvitation = projections.Invitation{
	ID: exampleNo(6), Email: "bob@example.com", Role: events.Viewer, Status: projections.InvitationPending,
	InviterName: exampleAda.Name, InviterRole: events.Owner, SentAt: exampleAt(60), ExpiresAt: exampleAt(60).Add(events.InvitationLifetime),
}
