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
	"svc/projections"
)

func (s *Server) invitationRoutes() section {
	show := showInvitation(exampleAt(0))
	resent := exampleInvitation
	resent.ExpiresAt = exampleAt(0).Add(events.InvitationLifetime)
	return section{tag: "Members & roles", routes: []route{
		query(s.listInvitations, route{
			method: "GET", path: "/invitations", guard: people,
			id: "listInvitations", summary: "List invitations",
			text:     "The invitations that wait for an answer, the newest first; one whose time is up reads `expired`.",
			answered: newList([]projections.Invitation{exampleInvitation}, 1, examplePage, show),
		}),
		command((*newInvitation).command, s.sendInvitation, route{
			method: "POST", path: "/invitations", guard: mayDo(events.ManageMembers),
			id: "sendInvitation", summary: "Invite somebody", status: http.StatusCreated,
			text: "Asks the holder of an e-mail address to join. No e-mail is sent. The invitation can be accepted for 48 hours. A " +
				"person sends, or sends again, 200 a day unless operators say otherwise: 429 `rate_limited`, with `Retry-After`. " +
				"Only an Owner invites an Owner.",
			refuses: []*fault.Fault{
				aggregates.ErrOwnerRequired, aggregates.ErrAlreadyMember, aggregates.ErrAlreadyInvited, commands.ErrKeyReused,
			},
			sent:     object{"email": exampleInvitation.Email, "role": exampleInvitation.Role},
			answered: show(exampleInvitation),
		}),
		command((*InvitationPath).resend, s.resendInvitation, route{
			method: "POST", path: "/invitations/{id}/resend", guard: mayDo(events.ManageMembers),
			id: "resendInvitation", summary: "Resend an invitation",
			text:     "Lets the 48 hours begin again, also after they are up. Whoever asks is the sender from then on.",
			missing:  aggregates.ErrNoInvitation,
			refuses:  []*fault.Fault{aggregates.ErrOwnerRequired, aggregates.ErrInvitationNotPending},
			answered: show(resent),
		}),
		command((*InvitationPath).revoke, s.revokeInvitation, route{
			method: "DELETE", path: "/invitations/{id}", guard: mayDo(events.ManageMembers),
			id: "revokeInvitation", summary: "Revoke an invitation", status: http.StatusNoContent,
			text:    "Takes an invitation back.",
			missing: aggregates.ErrNoInvitation,
			refuses: []*fault.Fault{aggregates.ErrOwnerRequired, aggregates.ErrInvitationNotPending},
		}),
	}}
}

type invitation struct {
	ID        string    `json:"id" format:"uuid"`
	Email     string    `json:"email" example:"bob@example.com"`
	Role      string    `json:"role" enum:"Owner,Maintainer,Viewer"`
	Status    string    `json:"status" enum:"pending,expired,accepted,rejected,revoked" doc:"Lists have those that are pending or expired: the 48 hours are over, or whoever sent it may no longer send it. A request that is repeated with its Idempotency-Key is answered with what has become of its invitation."`
	InvitedBy string    `json:"invitedBy" doc:"The e-mail address of who sent it, or sent it again." example:"ada@acme.example"`
	CreatedAt timestamp `json:"createdAt"`
	ExpiresAt timestamp `json:"expiresAt" doc:"48 hours after it was sent, or sent again."`
}

// showInvitation shows invitations as they are at a time.
func showInvitation(now time.Time) func(projections.Invitation) invitation {
	return func(i projections.Invitation) invitation {
		status := i.Status
		if i.Status == projections.InvitationPending && !i.Acceptable(now) {
			status = "expired"
		}
		return invitation{i.ID.String(), i.Email, string(i.Role), status, i.InviterName, at(i.SentAt), at(i.ExpiresAt)}
	}
}

type invitationsQuery struct{ Paging }

type invitationsAnswer struct{ Body List[invitation] }

func (s *Server) listInvitations(ctx context.Context, in *invitationsQuery) (*invitationsAnswer, error) {
	found, total, err := s.views.Invitations.Page(ctx, callerOf(ctx).workspace, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	return &invitationsAnswer{newList(found, total, in.Paging, showInvitation(s.now()))}, nil
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

func (in *newInvitation) command(c *caller, _ events.ID) (_ commands.SendInvitation, err error) {
	send := commands.SendInvitation{Meta: c.metaOnce(in.Once), Email: in.Body.Email}
	if in.Body.Role != nil { // huma fills in the default, and a refused request need not have one
		send.Role, err = in.Body.Role.parse()
	}
	return send, err
}

func (s *Server) sendInvitation(ctx context.Context, _ *newInvitation, send commands.SendInvitation) (*invitationAnswer, error) {
	send.Invitation = events.NewID(s.now())
	done, err := s.commands.SendInvitation(ctx, send)
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

func (in *InvitationPath) resend(c *caller, id events.ID) (commands.ResendInvitation, error) {
	return commands.ResendInvitation{Meta: c.meta(), Invitation: id}, nil
}

func (in *InvitationPath) revoke(c *caller, id events.ID) (commands.RevokeInvitation, error) {
	return commands.RevokeInvitation{Meta: c.meta(), Invitation: id}, nil
}

func (s *Server) resendInvitation(ctx context.Context, _ *InvitationPath, resend commands.ResendInvitation) (*invitationAnswer, error) {
	done, err := s.commands.ResendInvitation(ctx, resend)
	if err != nil {
		return nil, err
	}
	return s.invitation(ctx, done, resend.Invitation)
}

func (s *Server) invitation(ctx context.Context, done commands.Result, id events.ID) (*invitationAnswer, error) {
	i, ok, err := s.views.Invitations.Get(ctx, callerOf(ctx).workspace, id)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, aggregates.ErrNoInvitation
	}
	return &invitationAnswer{Position{done.Position}, showInvitation(s.now())(i)}, nil
}

func (s *Server) revokeInvitation(ctx context.Context, _ *InvitationPath, revoke commands.RevokeInvitation) (*removeAnswer, error) {
	done, err := s.commands.RevokeInvitation(ctx, revoke)
	if err != nil {
		return nil, err
	}
	return &removeAnswer{Position{done.Position}}, nil
}

var exampleInvitation = projections.Invitation{
	ID: exampleNo(6), Email: "bob@example.com", Role: events.Viewer, Status: projections.InvitationPending,
	InviterName: exampleAda.Name, InviterRole: events.Owner, SentAt: exampleAt(60), ExpiresAt: exampleAt(60).Add(events.InvitationLifetime),
}
