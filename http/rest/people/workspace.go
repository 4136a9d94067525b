package people

import (
	"context"
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

func (s *Server) workspaceRoutes() door.Section {
	acme := newWorkspace(schema.ExampleAcme, newYou(&door.Person{
		User: schema.ExampleAda.ID, Member: schema.ExampleNo(4), Name: "Ada Lind", Role: events.Owner, ApproveLoops: true,
	}, schema.ExampleAda.Name), schema.ExampleSeq, schema.ExampleSeq)
	return door.Section{Tag: "Workspace", About: "The workspace and the caller's membership.", Routes: []door.Route{
		door.Query(s.getWorkspace, door.Route{
			Method: "GET", Path: "/workspace", Guard: door.AnyMember,
			ID: "getWorkspace", Summary: "Get the workspace",
			Text:          "Returns the workspace and the caller's membership in it.",
			AnswerExample: acme,
		}),
		door.Command((*workspaceChange).toCommand, s.renameWorkspace, door.Route{
			Method: "PATCH", Path: "/workspace", Guard: door.MayDo(events.ChangeWorkspace),
			ID: "renameWorkspace", Summary: "Rename the workspace",
			Text:           "Changes the workspace's name, slug, or both. The old slug becomes available to others at once.",
			Refuses:        []*fault.Fault{aggregates.ErrSlugTaken},
			RequestExample: schema.Object{"name": acme.Name, "slug": acme.Slug},
			AnswerExample:  acme,
		}),
		door.Command((*workspaceDeletion).toCommand, s.deleteWorkspace, door.Route{
			Method: "POST", Path: "/workspace/delete", Guard: door.MayDo(events.DeleteWorkspace),
			ID: "deleteWorkspace", Summary: "Delete the workspace",
			Text: "Deletes the workspace, whose name has to be given. From then on it is not found: 404 `tenant_not_found` for its members " +
				"and its tokens; its streams end, its runners are disconnected, and its runs and jobs are cancelled. An Owner can restore it " +
				"until `purgeAt`, 30 days later. Then everything in it is erased, and others can have its slug. A person's own workspace " +
				"cannot be deleted.",
			Refuses:        []*fault.Fault{aggregates.ErrPersonal},
			RequestExample: schema.Object{"name": acme.Name}, AnswerExample: deletedWorkspace{acme.ID, openapi.FormatTime(schema.ExampleAt(0))},
		}),
		door.Command((*noInput).restoreWorkspace, s.restoreWorkspace, door.Route{
			Method: "POST", Path: "/workspace/restore", Guard: door.Guard{Right: events.DeleteWorkspace, Deleted: true},
			ID: "restoreWorkspace", Summary: "Restore a deleted workspace",
			Text: "Restores the deleted workspace that `X-Svc-Tenant` names. Its members, roles, tokens and runners are as they were. " +
				"Runs and jobs that the deletion cancelled stay cancelled.",
			AnswerExample: acme,
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

func newYou(p *door.Person, email string) you {
	return you{
		MemberID: p.Member.String(), UserID: p.User.String(), Name: p.Name, Email: email, Role: string(p.Role), CanApproveLoops: p.ApproveLoops,
	}
}

type workspaceAnswer struct{ Body workspace }

func (s *Server) getWorkspace(ctx context.Context, _ *struct{}) (*workspaceAnswer, error) {
	w, err := s.workspace(ctx)
	return &workspaceAnswer{w}, err
}

func (s *Server) workspace(ctx context.Context) (workspace, error) {
	c := door.CallerOf(ctx)
	w, ok, err := s.Workspaces.Visit(ctx, c.Workspace, c.Person.User)
	if err := door.CheckFound(ok, err, fault.ErrTenantNotFound); err != nil {
		return workspace{}, err
	}
	now := *c.Person // the role may have changed since the caller was found
	now.Role, now.ApproveLoops = w.Role, events.MayApproveLoops(w.Role, w.ApproveLoops)
	position, err := s.listsPosition(ctx, c.Workspace)
	if err != nil {
		return workspace{}, err
	}
	position = min(position, w.Head) // so that no event is missed that came between the two reads
	return newWorkspace(w.Workspace, newYou(&now, c.Envelope.Actor.Name), position, w.Head), nil
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
	position, err := s.ListedWorkspaces.Position(limited, workspace)
	if err == nil {
		return position, nil
	}
	s.Log.WarnContext(ctx, "position of lists", "workspace", workspace, "err", err)
	position, err = s.Workspaces.Position(ctx, workspace)
	return max(0, position-assumedReplicaLag), err
}

func newWorkspace(w projections.Workspace, yours you, position, head int64) workspace {
	return workspace{w.ID.String(), w.Name, w.Slug, openapi.FormatTime(w.CreatedAt), yours.Role, yours, position, head}
}

type workspaceChange struct {
	Body struct {
		schema.AtLeastOne
		Name *string `json:"name,omitempty" minLength:"1" maxLength:"100" doc:"1 to 100 characters, not all of them spaces." example:"Acme"`
		Slug *slug   `json:"slug,omitempty" doc:"3 to 40 lower-case letters, digits and hyphens; starts with a letter." example:"acme"`
	}
}

type workspaceChanged struct {
	schema.Position
	Body workspace
}

func (in *workspaceChange) toCommand(c *door.Caller, _ events.ID) (commands.RenameWorkspace, error) {
	return commands.RenameWorkspace{Meta: c.Meta(), Name: in.Body.Name, Slug: (*string)(in.Body.Slug)}, nil
}

func (s *Server) renameWorkspace(ctx context.Context, _ *workspaceChange, rename commands.RenameWorkspace) (*workspaceChanged, error) {
	done, err := s.Commands.RenameWorkspace(ctx, rename)
	return s.changed(ctx, done, err)
}

// changed answers a command with the workspace as it is now.
func (s *Server) changed(ctx context.Context, done commands.Result, err error) (*workspaceChanged, error) {
	if err != nil {
		return nil, err
	}
	w, err := s.workspace(ctx)
	return &workspaceChanged{schema.Position{Position: done.Position}, w}, err
}

type workspaceDeletion struct {
	Body struct {
		Name string `json:"name" maxLength:"100" doc:"The name of the workspace." example:"Acme"`
	}
}

type deletedWorkspace struct {
	ID      string            `json:"id" format:"uuid"`
	PurgeAt openapi.Timestamp `json:"purgeAt" doc:"Until then an Owner can restore it."`
}

type deletedAnswer struct {
	schema.Position
	Body deletedWorkspace
}

func (in *workspaceDeletion) toCommand(c *door.Caller, _ events.ID) (commands.DeleteWorkspace, error) {
	return commands.DeleteWorkspace{Meta: c.Meta(), Name: in.Body.Name}, nil
}

func (s *Server) deleteWorkspace(ctx context.Context, _ *workspaceDeletion, remove commands.DeleteWorkspace) (*deletedAnswer, error) {
	done, err := s.Commands.DeleteWorkspace(ctx, remove)
	if err != nil {
		return nil, err
	}
	w, ok, err := s.Workspaces.GetDeleted(ctx, remove.Workspace)
	if err := door.CheckFound(ok, err, fault.ErrTenantNotFound); err != nil {
		return nil, err
	}
	return &deletedAnswer{schema.Position{Position: done.Position}, deletedWorkspace{w.ID.String(), openapi.FormatTime(w.PurgeAt)}}, nil
}

type noInput struct{}

func (*noInput) restoreWorkspace(c *door.Caller, _ events.ID) (commands.RestoreWorkspace, error) {
	return commands.RestoreWorkspace{Meta: c.Meta()}, nil
}

func (s *Server) restoreWorkspace(ctx context.Context, _ *noInput, restore commands.RestoreWorkspace) (*workspaceChanged, error) {
	done, err := s.Commands.RestoreWorkspace(ctx, restore)
	return s.changed(ctx, done, err)
}
