package rest

import (
	"context"

	"svc/commands"
	"svc/events"
	"svc/fault"
)

type workspace struct {
	ID        string    `json:"id" format:"uuid"`
	Name      string    `json:"name" example:"Acme"`
	Slug      string    `json:"slug" example:"acme"`
	CreatedAt timestamp `json:"createdAt"`
	YourRole  string    `json:"yourRole" enum:"Owner,Maintainer,Viewer,member"`
}

type workspaceAnswer struct{ Body workspace }

func (s *Server) getWorkspace(ctx context.Context, _ *struct{}) (*workspaceAnswer, error) {
	w, err := s.workspace(ctx)
	return &workspaceAnswer{w}, err
}

func (s *Server) workspace(ctx context.Context) (workspace, error) {
	c := callerOf(ctx)
	w, ok, err := s.Workspaces.Of(ctx, c.workspace)
	switch {
	case err != nil:
		return workspace{}, err
	case !ok:
		return workspace{}, fault.ErrTenantNotFound
	}
	return workspace{w.ID.String(), w.Name, w.Slug, at(w.CreatedAt), string(c.person.role)}, nil
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

func (in *workspaceChange) command(c *caller, _ events.ID) commands.RenameWorkspace {
	return commands.RenameWorkspace{Meta: c.meta(), Name: in.Body.Name, Slug: (*string)(in.Body.Slug)}
}

func (s *Server) renameWorkspace(ctx context.Context, in *workspaceChange) (*renameAnswer, error) {
	done, err := s.Commands.RenameWorkspace(ctx, in.command(callerOf(ctx), events.ID{}))
	if err != nil {
		return nil, err
	}
	w, err := s.workspace(ctx)
	if err != nil {
		return nil, err
	}
	return &renameAnswer{Position{done.Position}, w}, nil
}
