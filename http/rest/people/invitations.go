package people

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
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections"
)

const dailyInvitations = "A person can send or resend 200 invitations a day, a person and a workspace 10 to one address, unless " +
	"operators set other limits: 429 `rate_limited` with `Retry-After`."

func (s *Server) invitationRoutes() door.Section {
	show := newInvitationAt(schema.ExampleAt(0))
	resent := exampleInvitation
	resent.ExpiresAt = schema.ExampleAt(0).Add(events.InvitationLifetime)
	return door.Section{Tag: "Members & roles", Routes: []door.Route{
		door.Query(s.listInvitations, door.Route{
			Method: "GET", Path: "/invitations", Guard: door.AnyMember,
			ID: "listInvitations", Summary: "List invitations",
			Text:          "Lists pending and expired invitations, newest first.",
			AnswerExample: schema.NewList([]projections.Invitation{exampleInvitation}, 1, schema.ExamplePage, show),
		}),
		door.Command((*newInvitation).toCommand, s.sendInvitation, door.Route{
			Method: "POST", Path: "/invitations", Guard: door.MayDo(events.ManageMembers),
			ID: "sendInvitation", Summary: "Send an invitation", Status: http.StatusCreated,
			Text: "Invites the holder of an e-mail address to the workspace. No e-mail is sent. The invitation expires after 48 hours. " +
				"Only an Owner can invite an Owner. " + dailyInvitations,
			Refuses: []*fault.Fault{
				aggregates.ErrOwnerRequired, aggregates.ErrAlreadyMember, aggregates.ErrAlreadyInvited, commands.ErrKeyReused,
			},
			RequestExample: schema.Object{"email": exampleInvitation.Email, "role": exampleInvitation.Role},
			AnswerExample:  show(exampleInvitation),
		}),
		door.Command((*InvitationPath).resend, s.resendInvitation, door.Route{
			Method: "POST", Path: "/invitations/{id}/resend", Guard: door.MayDo(events.ManageMembers),
			ID: "resendInvitation", Summary: "Resend an invitation",
			Text:          "Restarts the 48 hours, even after they have passed. The caller becomes the sender. " + dailyInvitations,
			Missing:       aggregates.ErrNoInvitation,
			Refuses:       []*fault.Fault{aggregates.ErrOwnerRequired, aggregates.ErrInvitationNotPending},
			AnswerExample: show(resent),
		}),
		door.Command((*InvitationPath).revoke, s.revokeInvitation, door.Route{
			Method: "DELETE", Path: "/invitations/{id}", Guard: door.MayDo(events.ManageMembers),
			ID: "revokeInvitation", Summary: "Revoke an invitation", Status: http.StatusNoContent,
			Text:    "Revokes an invitation.",
			Missing: aggregates.ErrNoInvitation,
			Refuses: []*fault.Fault{aggregates.ErrInvitationNotPending},
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

type invitationsQuery struct{ schema.Paging }

type invitationsAnswer struct{ Body schema.List[invitation] }

func (s *Server) listInvitations(ctx context.Context, in *invitationsQuery) (*invitationsAnswer, error) {
	found, total, err := s.Invitations.Page(ctx, door.CallerOf(ctx).Workspace, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	return &invitationsAnswer{schema.NewList(found, total, in.Paging, newInvitationAt(s.Now()))}, nil
}

type newInvitation struct {
	schema.Idempotency
	Body struct {
		Email string          `json:"email" format:"email" maxLength:"254" doc:"An address that the invitee has verified with the identity provider. ASCII only, except that an international domain is converted to its xn-- form. Stored in lower case." example:"bob@example.com"`
		Role  *assignableRole `json:"role,omitempty" doc:"Not case-sensitive. Defaults to Viewer."` // a pointer, to tell "" from absent
	}
}

type invitationAnswer struct {
	schema.Position
	Body invitation
}

func (in *newInvitation) toCommand(c *door.Caller, _ events.ID) (_ commands.SendInvitation, err error) {
	send := commands.SendInvitation{Meta: c.MetaWithKey(in.Idempotency), Email: in.Body.Email, Role: events.Viewer}
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

func (in *InvitationPath) resend(c *door.Caller, id events.ID) (commands.ResendInvitation, error) {
	return commands.ResendInvitation{Meta: c.Meta(), Invitation: id}, nil
}

func (in *InvitationPath) revoke(c *door.Caller, id events.ID) (commands.RevokeInvitation, error) {
	return commands.RevokeInvitation{Meta: c.Meta(), Invitation: id}, nil
}

func (s *Server) resendInvitation(ctx context.Context, _ *InvitationPath, resend commands.ResendInvitation) (*invitationAnswer, error) {
	done, err := s.Commands.ResendInvitation(ctx, resend)
	if err != nil {
		return nil, err
	}
	return s.invitation(ctx, done, resend.Invitation)
}

func (s *Server) invitation(ctx context.Context, done commands.Result, id events.ID) (*invitationAnswer, error) {
	i, err := door.Find(ctx, id, aggregates.ErrNoInvitation, s.Invitations.Get)
	if err != nil {
		return nil, err
	}
	return &invitationAnswer{schema.Position{Position: done.Position}, newInvitationAt(s.Now())(i)}, nil
}

func (s *Server) revokeInvitation(ctx context.Context, _ *InvitationPath, revoke commands.RevokeInvitation) (*schema.Position, error) {
	return door.AnswerPosition(s.Commands.RevokeInvitation(ctx, revoke))
}

var exampleInvitation = projections.Invitation{
	ID: schema.ExampleNo(6), Email: "bob@example.com", Role: events.Viewer, Status: projections.InvitationPending,
	InviterName: schema.ExampleAda.Name, InviterRole: events.Owner, SentAt: schema.ExampleAt(60),
	ExpiresAt: schema.ExampleAt(60).Add(events.InvitationLifetime),
}
