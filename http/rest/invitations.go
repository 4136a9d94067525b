package rest

import (
	"context"
	"encoding/json"
	"fmt"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/projections"
)

type invitation struct {
	ID        string    `json:"id" format:"uuid"`
	Email     string    `json:"email" example:"bob@example.com"`
	Role      string    `json:"role" enum:"Owner,Maintainer,Viewer"`
	Status    string    `json:"status" enum:"pending,expired,accepted,rejected,revoked" doc:"Lists have those that are pending or expired: the 48 hours are over, or whoever sent it may no longer send it. A request that is repeated with its Idempotency-Key is answered with what has become of its invitation."`
	InvitedBy string    `json:"invitedBy" doc:"The e-mail address of who sent it, or sent it again." example:"ada@acme.example"`
	CreatedAt timestamp `json:"createdAt"`
	ExpiresAt timestamp `json:"expiresAt" doc:"48 hours after it was sent, or sent again."`
}

func (s *Server) newInvitation(i projections.Invitation) invitation {
	status := i.Status
	if i.Status == projections.InvitationPending && !i.Acceptable(s.Now()) {
		status = "expired"
	}
	return invitation{i.ID.String(), i.Email, string(i.Role), status, i.InviterName, at(i.SentAt), at(i.ExpiresAt)}
}

type invitationsQuery struct{ Paging }

type invitationsAnswer struct{ Body List[invitation] }

func (s *Server) listInvitations(ctx context.Context, in *invitationsQuery) (*invitationsAnswer, error) {
	found, total, err := s.Invitations.Page(ctx, callerOf(ctx).workspace, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	return &invitationsAnswer{newList(found, total, in.Paging, s.newInvitation)}, nil
}

type newInvitation struct {
	Once
	Body struct {
		Email string     `json:"email" format:"email" maxLength:"254" doc:"An address that the invitee has verified with the identity provider. It is kept in lower case, a domain in another script in its xn-- form; beyond that it has to be ASCII." example:"bob@example.com"`
		Role  *givenRole `json:"role,omitempty" default:"Viewer" doc:"In any case."` // a pointer, so that "" is not taken for absent
	}
}

type invitationAnswer struct {
	Position
	Body invitation
}

func (in *newInvitation) command(c *caller, id events.ID) commands.SendInvitation {
	send := commands.SendInvitation{Meta: c.orderOnce(in.Once), Invitation: id, Email: in.Body.Email}
	if in.Body.Role != nil {
		send.Role, _ = in.Body.Role.parse() // which is checked before it counts
	}
	return send
}

func (s *Server) sendInvitation(ctx context.Context, in *newInvitation) (*invitationAnswer, error) {
	if _, err := in.Body.Role.parse(); err != nil {
		return nil, err
	}
	send := in.command(callerOf(ctx), events.NewID(s.Now()))
	done, err := s.Commands.SendInvitation(ctx, send)
	if err != nil {
		return nil, err
	}
	id := send.Invitation
	if done.Replayed {
		var kept commands.InvitationAnswer
		if err := json.Unmarshal(done.Answer, &kept); err != nil {
			return nil, fmt.Errorf("read kept answer: %w", err)
		}
		id = kept.Invitation
	}
	return s.invitation(ctx, done, id)
}

// An InvitationPath names an invitation.
type InvitationPath struct {
	ID string `path:"id" maxLength:"64" doc:"The invitation's id."`
}

func (in *InvitationPath) resend(c *caller, id events.ID) commands.ResendInvitation {
	return commands.ResendInvitation{Meta: c.meta(), Invitation: id}
}

func (in *InvitationPath) revoke(c *caller, id events.ID) commands.RevokeInvitation {
	return commands.RevokeInvitation{Meta: c.meta(), Invitation: id}
}

func (s *Server) resendInvitation(ctx context.Context, in *InvitationPath) (*invitationAnswer, error) {
	id, err := events.ParseID(in.ID)
	if err != nil {
		return nil, aggregates.ErrNoInvitation
	}
	done, err := s.Commands.ResendInvitation(ctx, in.resend(callerOf(ctx), id))
	if err != nil {
		return nil, err
	}
	return s.invitation(ctx, done, id)
}

func (s *Server) invitation(ctx context.Context, done commands.Result, id events.ID) (*invitationAnswer, error) {
	i, ok, err := s.Invitations.Of(ctx, callerOf(ctx).workspace, id)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, aggregates.ErrNoInvitation
	}
	return &invitationAnswer{Position{done.Position}, s.newInvitation(i)}, nil
}

func (s *Server) revokeInvitation(ctx context.Context, in *InvitationPath) (*removeAnswer, error) {
	id, err := events.ParseID(in.ID)
	if err != nil {
		return nil, aggregates.ErrNoInvitation
	}
	done, err := s.Commands.RevokeInvitation(ctx, in.revoke(callerOf(ctx), id))
	if err != nil {
		return nil, err
	}
	return &removeAnswer{Position{done.Position}}, nil
}
