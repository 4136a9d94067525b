package rest

import (
	"context"
	"net/http"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/projections"
)

func (s *Server) memberRoutes() section {
	show := func(m projections.Member) member { return newMember(m, exampleAda.ID) }
	ticked := exampleZoe
	ticked.ApproveLoops = new(true)
	return section{tag: "Members & roles", about: "Who is in the workspace, and what they may do.", routes: []route{
		query(s.listMembers, route{
			method: "GET", path: "/members", guard: people,
			id: "listMembers", summary: "List members",
			text: "The members of the workspace, by name: in the order of letters without case and accents, those whose name is not" +
				" known by address. The order and a search take the name that a member joined with. `total` counts all pages, of " +
				"a search what it finds, which is up to 250 members. `nextCursor` leads to the page that follows, wherever that " +
				"is; `offset` to the first 1,000.",
			answered: memberList{List: newList([]projections.Member{exampleZoe}, 1, examplePage, show)},
		}),
		query(s.getMember, route{
			method: "GET", path: "/members/{id}", guard: people,
			id: "getMember", summary: "Get a member",
			text: "One member. One of another workspace, or who is a member no longer, is answered like one that does not exist: 404 " +
				"`member_not_found`.",
			refuses:  []*fault.Fault{aggregates.ErrNoMember},
			answered: show(exampleZoe),
		}),
		command((*memberChange).command, s.updateMember, route{
			method: "PATCH", path: "/members/{id}", guard: mayDo(events.ManageMembers),
			id: "updateMember", summary: "Change a member",
			text: "Gives a member another role, ticks or unticks approve-loops, or both. It applies at once. Only an Owner makes " +
				"somebody an Owner or changes one; the last Owner stays. Invitations that the member sent, and could not send in " +
				"the new role, are withdrawn.",
			missing:  aggregates.ErrNoMember,
			refuses:  []*fault.Fault{aggregates.ErrMemberForbidden, aggregates.ErrOwnerRequired, aggregates.ErrLastOwner},
			sent:     object{"role": ticked.Role, "canApproveLoops": ticked.ApproveLoops},
			answered: show(ticked),
		}),
		command((*MemberPath).remove, s.removeMember, route{
			method: "DELETE", path: "/members/{id}", guard: people, // everybody may leave
			id: "removeMember", summary: "Remove a member", status: http.StatusNoContent,
			text: "Takes a member out of the workspace; their access ends at once. Members who remove themselves leave. The last " +
				"Owner stays. Invitations that the member sent are withdrawn.",
			missing: aggregates.ErrNoMember,
			refuses: []*fault.Fault{aggregates.ErrRoleRequired, aggregates.ErrMemberForbidden, aggregates.ErrLastOwner},
		}),
	}}
}

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
	Q      string `query:"q" maxLength:"200" doc:"Only members whose name, a word in it, address or its domain begins with this, in any case and with or without accents. A search finds up to 250 members."`
	Role   string `query:"role" enum:"Owner,Maintainer,Viewer,member" doc:"Only members of this role."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"25" doc:"How many items the page has at most."`
	Offset int    `query:"offset" minimum:"0" maximum:"1000" default:"0" doc:"How many items come before the page. A cursor leads further."`
	Cursor string `query:"cursor" maxLength:"1000" doc:"nextCursor of the page before, of the same search; goes without offset."`
}

type membersAnswer struct{ Body memberList }

type memberList struct {
	List[member]
	NextCursor string `json:"nextCursor,omitempty" doc:"Leads to the members who follow; absent if there are none." example:"AZqipygAcACAAAAAAAAABHpvZSBicmFuZHQ"`
}

func (s *Server) listMembers(ctx context.Context, in *membersQuery) (*membersAnswer, error) {
	c := callerOf(ctx)
	q := projections.MemberQuery{Workspace: c.workspace, Q: in.Q, Limit: in.Limit, Offset: in.Offset}
	if in.Role != "" {
		q.Roles = []events.Role{events.Role(in.Role)}
	}
	if in.Cursor != "" {
		after, ok := projections.ParseMemberCursor(in.Cursor)
		switch {
		case !ok:
			return nil, invalid("cursor", "must be the nextCursor of an answer")
		case in.Offset > 0:
			return nil, invalid("offset", "goes without cursor")
		}
		q.After = &after
	}
	found, total, next, err := s.views.Members.Page(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &membersAnswer{}
	show := func(m projections.Member) member { return newMember(m, c.person.user) }
	out.Body.List = newList(found, total, Paging{in.Limit, in.Offset}, show)
	if next != nil {
		out.Body.NextCursor = next.String()
	}
	return out, nil
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

func (in *memberChange) command(c *caller, id events.ID) (_ commands.UpdateMember, err error) {
	change := commands.UpdateMember{Meta: c.meta(), Member: id, ApproveLoops: in.Body.CanApproveLoops}
	if in.Body.Role != nil {
		change.Role = new(events.Role)
		*change.Role, err = in.Body.Role.parse()
	}
	return change, err
}

func (s *Server) updateMember(ctx context.Context, _ *memberChange, change commands.UpdateMember) (*memberAnswer, error) {
	done, err := s.commands.UpdateMember(ctx, change)
	if err != nil {
		return nil, err
	}
	m, err := s.member(ctx, change.Member) // who may have been removed meanwhile
	if err != nil {
		return nil, err
	}
	return &memberAnswer{Position{done.Position}, m}, nil
}

func (s *Server) getMember(ctx context.Context, in *MemberPath) (*struct{ Body member }, error) {
	id, err := events.ParseID(in.ID)
	if err != nil {
		return nil, aggregates.ErrNoMember
	}
	m, err := s.member(ctx, id)
	return &struct{ Body member }{m}, err
}

func (s *Server) member(ctx context.Context, id events.ID) (member, error) {
	c := callerOf(ctx)
	m, ok, err := s.members.Find(ctx, projections.Ref{Workspace: c.workspace, ID: id}, s.views.Members.ByIDs)
	switch {
	case err != nil:
		return member{}, err
	case !ok:
		return member{}, aggregates.ErrNoMember
	}
	return newMember(m, c.person.user), nil
}

type removeAnswer struct{ Position }

func (in *MemberPath) remove(c *caller, id events.ID) (commands.RemoveMember, error) {
	return commands.RemoveMember{Meta: c.meta(), Member: id}, nil
}

func (s *Server) removeMember(ctx context.Context, _ *MemberPath, remove commands.RemoveMember) (*removeAnswer, error) {
	done, err := s.commands.RemoveMember(ctx, remove)
	if err != nil {
		return nil, err
	}
	return &removeAnswer{Position{done.Position}}, nil
}

var exampleZoe = projections.Member{
	ID: exampleNo(4), User: exampleNo(5), Name: "Zoë Brandt", Email: "zoe@acme.example", AvatarURL: "https://avatars.example.com/u/583231",
	Role: events.Maintainer, JoinedAt: exampleAt(8500), LastActiveAt: new(exampleAt(3)),
}
