package rest

import (
	"context"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/projections"
)

type member struct {
	ID                   string     `json:"id" format:"uuid"`
	UserID               string     `json:"userId" format:"uuid"`
	Name                 string     `json:"name" example:"Zoë Brandt"`
	Email                string     `json:"email" example:"zoe@acme.example"`
	AvatarURL            string     `json:"avatarUrl" example:"https://avatars.example.com/u/583231"`
	Role                 string     `json:"role" enum:"Owner,Maintainer,Viewer,member" doc:"member is a legacy role that can no longer be given."`
	DisplayRole          string     `json:"displayRole" enum:"Owner,Maintainer,Viewer"`
	CanApproveLoops      bool       `json:"canApproveLoops"`
	ApproveLoopsExplicit bool       `json:"approveLoopsExplicit" doc:"Whether it was ticked or unticked by somebody; if not, the role decides."`
	LastActiveAt         *timestamp `json:"lastActiveAt" nullable:"true"`
	JoinedAt             timestamp  `json:"joinedAt"`
	IsYou                bool       `json:"isYou"`
}

func newMember(m projections.Member, you events.ID) member {
	return member{
		ID: m.ID.String(), UserID: m.User.String(), Name: m.Name, Email: m.Email, AvatarURL: m.AvatarURL,
		Role: string(m.Role), DisplayRole: m.Role.Displayed(),
		CanApproveLoops: events.MayApproveLoops(m.Role, m.ApproveLoops), ApproveLoopsExplicit: m.ApproveLoops != nil,
		LastActiveAt: optional(m.LastActiveAt), JoinedAt: at(m.JoinedAt), IsYou: m.User == you,
	}
}

type membersQuery struct {
	Q    string `query:"q" maxLength:"200" doc:"Only members who have this in their name or address."`
	Role string `query:"role" enum:"Owner,Maintainer,Viewer,member" doc:"Only members of this role."`
	Paging
}

type membersAnswer struct{ Body List[member] }

func (s *Server) listMembers(ctx context.Context, in *membersQuery) (*membersAnswer, error) {
	c := callerOf(ctx)
	found, total, err := s.Members.Page(ctx, projections.MemberQuery{
		Workspace: c.workspace, Q: in.Q, Role: events.Role(in.Role), Limit: in.Limit, Offset: in.Offset,
	})
	if err != nil {
		return nil, err
	}
	show := func(m projections.Member) member { return newMember(m, c.person.user) }
	return &membersAnswer{newList(found, total, in.Paging, show)}, nil
}

// A MemberPath names a member.
type MemberPath struct {
	ID string `path:"id" maxLength:"64" doc:"The member's id."`
}

type memberChange struct {
	MemberPath
	Body struct {
		atLeastOne
		Role            *givenRole `json:"role,omitempty" doc:"In any case." example:"Maintainer"`
		CanApproveLoops *bool      `json:"canApproveLoops,omitempty"`
	}
}

type memberAnswer struct {
	Position
	Body member
}

func (in *memberChange) command(c *caller, id events.ID) commands.UpdateMember {
	change := commands.UpdateMember{Order: c.order(), Member: id, ApproveLoops: in.Body.CanApproveLoops}
	if in.Body.Role != nil {
		role, _ := in.Body.Role.parse() // which is checked before it counts
		change.Role = &role
	}
	return change
}

func (s *Server) updateMember(ctx context.Context, in *memberChange) (*memberAnswer, error) {
	c := callerOf(ctx)
	if in.Body.Role != nil {
		if _, err := in.Body.Role.parse(); err != nil {
			return nil, err
		}
	}
	id, err := events.ParseID(in.ID)
	if err != nil {
		return nil, aggregates.ErrNoMember
	}
	done, err := s.Commands.UpdateMember(ctx, in.command(c, id))
	if err != nil {
		return nil, err
	}
	m, ok, err := s.members.Find(ctx, projections.Place{Workspace: c.workspace, ID: id}, s.Members.These)
	switch {
	case err != nil:
		return nil, err
	case !ok: // removed meanwhile
		return nil, aggregates.ErrNoMember
	}
	return &memberAnswer{Position{done.Position}, newMember(m, c.person.user)}, nil
}

type removeAnswer struct{ Position }

func (in *MemberPath) remove(c *caller, id events.ID) commands.RemoveMember {
	return commands.RemoveMember{Order: c.order(), Member: id}
}

func (s *Server) removeMember(ctx context.Context, in *MemberPath) (*removeAnswer, error) {
	id, err := events.ParseID(in.ID)
	if err != nil {
		return nil, aggregates.ErrNoMember
	}
	done, err := s.Commands.RemoveMember(ctx, in.remove(callerOf(ctx), id))
	if err != nil {
		return nil, err
	}
	return &removeAnswer{Position{done.Position}}, nil
}
