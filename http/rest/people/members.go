package people

import (
	"context"
	"net/http"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections"
)

func (s *Server) memberRoutes() door.Section {
	show := func(m projections.Member) Member { return NewMember(m, schema.ExampleAda.ID) }
	ticked := schema.ExampleZoe
	ticked.ApproveLoops = new(true)
	return door.Section{Tag: "Members & roles", About: "The members of the workspace and their roles.", Routes: []door.Route{
		door.Query(s.listMembers, door.Route{
			Method: "GET", Path: "/members", Guard: door.AnyMember,
			ID: "listMembers", Summary: "List members",
			Text: "Lists members by name, ignoring case and accents; members without a known name are listed by address. " +
				"`total` counts the members on all pages. A search finds at most 250 members. `offset` reaches the " +
				"first 1,000 members; use `nextCursor` to go further.",
			AnswerExample: memberList{List: schema.NewList([]projections.Member{schema.ExampleZoe}, 1, schema.ExamplePage, show)},
		}),
		door.Query(s.getMember, door.Route{
			Method: "GET", Path: "/members/{id}", Guard: door.AnyMember,
			ID: "getMember", Summary: "Get a member",
			Text:          "Returns a member. Former members and members of other workspaces are not found: 404 `member_not_found`.",
			Refuses:       []*fault.Fault{aggregates.ErrNoMember},
			AnswerExample: show(schema.ExampleZoe),
		}),
		door.Command((*memberChange).toCommand, s.updateMember, door.Route{
			Method: "PATCH", Path: "/members/{id}", Guard: door.MayDo(events.ManageMembers),
			ID: "updateMember", Summary: "Update a member",
			Text: "Changes a member's role, the permission to approve loops, or both, with immediate effect. Only an Owner can make somebody " +
				"an Owner or change an Owner. The last Owner keeps the role. Invitations that the member sent, and could not send in the " +
				"new role, are revoked.",
			Missing:        aggregates.ErrNoMember,
			Refuses:        []*fault.Fault{aggregates.ErrMemberForbidden, aggregates.ErrOwnerRequired, aggregates.ErrLastOwner},
			RequestExample: schema.Object{"role": ticked.Role, "canApproveLoops": ticked.ApproveLoops},
			AnswerExample:  show(ticked),
		}),
		door.Command((*MemberPath).remove, s.removeMember, door.Route{
			Method: "DELETE", Path: "/members/{id}", Guard: door.Guard{Right: events.ManageMembers, Own: true}, // every member may leave
			ID: "removeMember", Summary: "Remove a member", Status: http.StatusNoContent,
			Text: "Removes a member from the workspace; their access ends at once. Members can remove themselves to leave. The last Owner " +
				"cannot be removed. Invitations that the member sent are revoked.",
			Missing: aggregates.ErrNoMember,
			Refuses: []*fault.Fault{aggregates.ErrMemberForbidden, aggregates.ErrLastOwner},
		}),
	}}
}

// A Member is a member as answers show them.
type Member struct {
	ID                   string             `json:"id" format:"uuid"`
	UserID               string             `json:"userId" format:"uuid"`
	Name                 string             `json:"name" example:"Zoë Brandt"`
	Email                string             `json:"email" example:"zoe@acme.example"`
	AvatarURL            string             `json:"avatarUrl" example:"https://avatars.example.com/u/583231"`
	Role                 string             `json:"role" enum:"Owner,Maintainer,Viewer,member" doc:"member is a legacy role that can no longer be assigned."`
	DisplayRole          string             `json:"displayRole" enum:"Owner,Maintainer,Viewer"`
	CanApproveLoops      bool               `json:"canApproveLoops"`
	ApproveLoopsExplicit bool               `json:"approveLoopsExplicit" doc:"Whether canApproveLoops was set explicitly; if not, it follows from the role."`
	LastActiveAt         *openapi.Timestamp `json:"lastActiveAt" nullable:"true"`
	JoinedAt             openapi.Timestamp  `json:"joinedAt"`
	IsYou                bool               `json:"isYou"`
}

// NewMember returns a member as a caller, you, sees them.
func NewMember(m projections.Member, you events.ID) Member {
	return Member{
		ID: m.ID.String(), UserID: m.User.String(), Name: m.Name, Email: m.Email, AvatarURL: m.AvatarURL,
		Role: string(m.Role), DisplayRole: m.Role.Displayed(),
		CanApproveLoops: events.MayApproveLoops(m.Role, m.ApproveLoops), ApproveLoopsExplicit: m.ApproveLoops != nil,
		LastActiveAt: openapi.FormatOptionalTime(m.LastActiveAt), JoinedAt: openapi.FormatTime(m.JoinedAt), IsYou: m.User == you,
	}
}

type membersQuery struct {
	Q      string   `query:"q" maxLength:"200" doc:"Only members whose name, a word of it, address or address domain begins with this text, ignoring case and accents. Finds at most 250 members, and none by blanks alone."`
	Role   roleName `query:"role" doc:"Only members with this role; with q, only those among the at most 250 members that q finds. Not case-sensitive."`
	Limit  int      `query:"limit" minimum:"1" maximum:"100" default:"25" doc:"Maximum number of items to return."`
	Offset int      `query:"offset" minimum:"0" maximum:"1000" default:"0" doc:"Number of items to skip. Use cursor to go further."`
	Cursor string   `query:"cursor" maxLength:"1000" doc:"The nextCursor of the previous page of the same search. Not with offset."`
}

type membersAnswer struct{ Body memberList }

type memberList struct {
	schema.List[Member]
	NextCursor string `json:"nextCursor,omitempty" doc:"Cursor of the next page. Absent on the last page." example:"AZqipygAcACAAAAAAAAABHpvZSBicmFuZHQ"`
}

func (s *Server) listMembers(ctx context.Context, in *membersQuery) (*membersAnswer, error) {
	c := door.CallerOf(ctx)
	q := projections.MemberQuery{Workspace: c.Workspace, Q: in.Q, Limit: in.Limit, Offset: in.Offset}
	if in.Role != "" {
		role, err := in.Role.parse()
		if err != nil {
			return nil, err
		}
		q.Role = role
	}
	if in.Cursor != "" {
		after, ok := projections.ParseMemberCursor(in.Cursor)
		switch {
		case !ok:
			return nil, fault.Field("cursor", "must be the nextCursor of an answer")
		case in.Offset > 0:
			return nil, fault.Field("offset", "cannot be combined with cursor")
		}
		q.After = &after
	}
	found, total, next, err := s.Members.Page(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &membersAnswer{}
	show := func(m projections.Member) Member { return NewMember(m, c.Person.User) }
	out.Body.List = schema.NewList(found, total, schema.Paging{Limit: in.Limit, Offset: in.Offset}, show)
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
		schema.AtLeastOne
		Role            *assignableRole `json:"role,omitempty" doc:"Not case-sensitive." example:"Maintainer"`
		CanApproveLoops *bool           `json:"canApproveLoops,omitempty"`
	}
}

type memberAnswer struct {
	schema.Position
	Body Member
}

func (in *memberChange) toCommand(c *door.Caller, id events.ID) (_ commands.UpdateMember, err error) {
	change := commands.UpdateMember{Meta: c.Meta(), Member: id, ApproveLoops: in.Body.CanApproveLoops}
	if in.Body.Role != nil {
		change.Role = new(events.Role)
		*change.Role, err = in.Body.Role.parse()
	}
	return change, err
}

func (s *Server) updateMember(ctx context.Context, _ *memberChange, change commands.UpdateMember) (*memberAnswer, error) {
	done, err := s.Commands.UpdateMember(ctx, change)
	if err != nil {
		return nil, err
	}
	m, err := s.member(ctx, change.Member) // who may have been removed meanwhile
	if err != nil {
		return nil, err
	}
	return &memberAnswer{schema.Position{Position: done.Position}, m}, nil
}

func (s *Server) getMember(ctx context.Context, in *MemberPath) (*door.BodyAnswer[Member], error) {
	return door.ShowInPath(ctx, in.ID, aggregates.ErrNoMember, s.member)
}

func (s *Server) member(ctx context.Context, id events.ID) (Member, error) {
	c := door.CallerOf(ctx)
	m, ok, err := s.members.Find(ctx, projections.Ref{Workspace: c.Workspace, ID: id}, s.Members.ByIDs)
	if err := door.CheckFound(ok, err, aggregates.ErrNoMember); err != nil {
		return Member{}, err
	}
	return NewMember(m, c.Person.User), nil
}

func (in *MemberPath) remove(c *door.Caller, id events.ID) (commands.RemoveMember, error) {
	return commands.RemoveMember{Meta: c.Meta(), Member: id}, nil
}

func (s *Server) removeMember(ctx context.Context, _ *MemberPath, remove commands.RemoveMember) (*schema.Position, error) {
	return door.AnswerPosition(s.Commands.RemoveMember(ctx, remove))
}
