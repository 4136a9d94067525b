package rest

import (
	"context"
	"time"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/openapi"
	"svc/projections"
)

func (s *Server) workspaceRoutes() section {
	acme := newWorkspace(exampleAcme, newYou(&person{
		user: exampleAda.ID, member: exampleNo(4), name: "Ada Lind", role: events.Owner, approveLoops: true,
	}, exampleAda.Name), exampleEvent.Data.Seq, exampleEvent.Data.Seq)
	return section{tag: "Workspace", about: "The workspace and the caller's membership.", routes: []route{
		query(s.getWorkspace, route{
			method: "GET", path: "/workspace", guard: anyMember,
			id: "getWorkspace", summary: "Get the workspace",
			text:          "Returns the workspace and the caller's membership in it.",
			answerExample: acme,
		}),
		command((*workspaceChange).toCommand, s.renameWorkspace, route{
			method: "PATCH", path: "/workspace", guard: mayDo(events.ChangeWorkspace),
			id: "renameWorkspace", summary: "Rename the workspace",
			text:           "Changes the workspace's name, slug, or both. The old slug becomes available to others at once.",
			refuses:        []*fault.Fault{aggregates.ErrSlugTaken},
			requestExample: object{"name": acme.Name, "slug": acme.Slug},
			answerExample:  acme,
		}),
	}}
}

type workspace struct {
	ID        string            `json:"id" format:"uuid"`
	Name      string            `json:"name" example:"Acme"`
	Slug      string            `json:"slug" example:"acme"`
	CreatedAt openapi.Timestamp `json:"createdAt"`
	YourRole  string            `json:"yourRole" enum:"Owner,Maintainer,Viewer,member"`
	You       you               `json:"you"`
	Seq       int64             `json:"seq" doc:"The seq of an event that all lists already include. Read the lists, then stream events from this seq, to miss none." example:"4182"`
	Head      int64             `json:"head" doc:"The seq of the newest event when the name, the slug and your role were read. Lists may lack it." example:"4182"`
}

type you struct {
	MemberID        string `json:"memberId" format:"uuid"`
	UserID          string `json:"userId" format:"uuid"`
	Name            string `json:"name" example:"Ada Lind"`
	Email           string `json:"email" example:"ada@acme.example"`
	Role            string `json:"role" enum:"Owner,Maintainer,Viewer,member"`
	CanApproveLoops bool   `json:"canApproveLoops"`
}

func newYou(p *person, email string) you {
	return you{
		MemberID: p.member.String(), UserID: p.user.String(), Name: p.name, Email: email, Role: string(p.role), CanApproveLoops: p.approveLoops,
	}
}

type workspaceAnswer struct{ Body workspace }

func (s *Server) getWorkspace(ctx context.Context, _ *struct{}) (*workspaceAnswer, error) {
	w, err := s.workspace(ctx)
	return &workspaceAnswer{w}, err
}

func (s *Server) workspace(ctx context.Context) (workspace, error) {
	c := callerOf(ctx)
	w, ok, err := s.Primary.Workspaces.Visit(ctx, c.workspace, c.person.user)
	if err := checkFound(ok, err, fault.ErrTenantNotFound); err != nil {
		return workspace{}, err
	}
	now := *c.person // the role may have changed since the caller was found
	now.role, now.approveLoops = w.Role, events.MayApproveLoops(w.Role, w.ApproveLoops)
	position, err := s.listsPosition(ctx, c.workspace)
	if err != nil {
		return workspace{}, err
	}
	position = min(position, w.Head) // so that no event is missed that came between the two reads
	return newWorkspace(w.Workspace, newYou(&now, c.envelope.Actor.Name), position, w.Head), nil
}

// listsPositionLimit bounds the wait for a read replica that does not answer.
const listsPositionLimit = time.Second

const assumedReplicaLag = 1000 // events

// listsPosition returns the position of the database that lists are read from, which may be a
// replica. While that does not answer, it returns one that the replica has probably reached, because
// clients must get the workspace.
func (s *Server) listsPosition(ctx context.Context, workspace events.ID) (int64, error) {
	limited, cancel := context.WithTimeout(ctx, listsPositionLimit)
	defer cancel()
	position, err := s.Lists.Workspaces.Position(limited, workspace)
	if err == nil {
		return position, nil
	}
	s.Log.WarnContext(ctx, "position of lists", "workspace", workspace, "err", err)
	position, err = s.Primary.Workspaces.Position(ctx, workspace)
	return max(0, position-assumedReplicaLag), err
}

func newWorkspace(w projections.Workspace, yours you, position, head int64) workspace {
	return workspace{w.ID.String(), w.Name, w.Slug, openapi.FormatTime(w.CreatedAt), yours.Role, yours, position, head}
}

type workspaceChange struct {
	Body struct {
		atLeastOne
		Name *string `json:"name,omitempty" minLength:"1" maxLength:"100" doc:"1 to 100 characters, not all of them spaces." example:"Acme"`
		Slug *slug   `json:"slug,omitempty" doc:"3 to 40 lower-case letters, digits and hyphens; starts with a letter." example:"acme"`
	}
}

type renameAnswer struct {
	Position
	Body workspace
}

func (in *workspaceChange) toCommand(c *caller, _ events.ID) (commands.RenameWorkspace, error) {
	return commands.RenameWorkspace{Meta: c.meta(), Name: in.Body.Name, Slug: (*string)(in.Body.Slug)}, nil
}

func (s *Server) renameWorkspace(ctx context.Context, _ *workspaceChange, rename commands.RenameWorkspace) (*renameAnswer, error) {
	done, err := s.Commands.RenameWorkspace(ctx, rename)
	if err != nil {
		return nil, err
	}
	w, err := s.workspace(ctx)
	if err != nil {
		return nil, err
	}
	return &renameAnswer{Position{done.Position}, w}, nil
}

var exampleAcme = projections.Workspace{ID: exampleNo(1), Name: "Acme", Slug: "acme", CreatedAt: exampleAt(9000)}
