package rest

import (
	"context"
	"net/http"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/middleware"
	"svc/projections"
)

func (s *Server) farmSecretRoutes() section {
	return section{tag: "Build farm", routes: []route{
		query(s.listFarmSecrets, route{
			method: "GET", path: "/farm/secrets", guard: mayDo(events.ManageFarmSecrets), farm: true,
			id: "listFarmSecrets", summary: "List secrets of jobs",
			text:     "What jobs can be given by name, by name. A value is never answered: only the runner of a job that names it is told.",
			answered: newList([]projections.FarmSecret{exampleSecret}, 1, Paging{Limit: aggregates.MaxFarmSecrets}, newFarmSecret),
		}),
		command((*secretValue).command, s.setFarmSecret, route{
			method: "PUT", path: "/farm/secrets/{name}", guard: mayDo(events.ManageFarmSecrets), farm: true,
			limits: middleware.Limits{Body: 256 << 10},
			id:     "setFarmSecret", summary: "Set a secret of jobs", status: http.StatusNoContent,
			text: "Gives a secret a value, in place of the one before: jobs that are given to a runner from now on get it. A workspace has 100 " +
				"at most.",
			refuses: []*fault.Fault{aggregates.ErrFarmSecretMax},
			sent:    object{"value": "…"},
		}),
		command((*SecretPath).remove, s.removeFarmSecret, route{
			method: "DELETE", path: "/farm/secrets/{name}", guard: mayDo(events.ManageFarmSecrets), farm: true,
			id: "removeFarmSecret", summary: "Remove a secret of jobs", status: http.StatusNoContent,
			text:    "Takes a secret away. Jobs that name it cannot run from now on.",
			refuses: []*fault.Fault{aggregates.ErrNoFarmSecret},
		}),
	}}
}

// A SecretVault keeps the values of secrets, each under an id that is used once.
type SecretVault interface {
	Put(ctx context.Context, workspace, value events.ID, text string) error
	Delete(ctx context.Context, workspace, value events.ID) error

	// Size returns how many bytes values have together.
	Size(ctx context.Context, workspace events.ID, values []events.ID) (int64, error)
}

type farmSecret struct {
	Name  string    `json:"name" example:"NPM_TOKEN"`
	SetBy string    `json:"setBy" example:"ada@acme.example"`
	SetAt timestamp `json:"setAt"`
}

func newFarmSecret(s projections.FarmSecret) farmSecret {
	return farmSecret{s.Name, s.SetBy, at(s.SetAt)}
}

type farmSecretsAnswer struct{ Body List[farmSecret] }

func (s *Server) listFarmSecrets(ctx context.Context, _ *struct{}) (*farmSecretsAnswer, error) {
	found, err := s.views.FarmSecrets.List(ctx, callerOf(ctx).workspace)
	if err != nil {
		return nil, err
	}
	return &farmSecretsAnswer{newList(found, len(found), Paging{Limit: aggregates.MaxFarmSecrets}, newFarmSecret)}, nil
}

// A SecretPath names a secret.
type SecretPath struct {
	Name string `path:"name" maxLength:"64" doc:"The secret's name: 1 to 64 capital letters, digits and underscores, not a digit first."`
}

type secretValue struct {
	SecretPath
	Body struct {
		Value string `json:"value" minLength:"1" maxLength:"32768" doc:"At most 32 KiB of text. It is kept sealed."`
	}
}

func (in *secretValue) command(c *caller, _ events.ID) (commands.SetFarmSecret, error) {
	return commands.SetFarmSecret{Meta: c.meta(), Name: in.Name}, nil
}

// maxSecret is how many bytes a value has at most.
const maxSecret = 32 << 10

// setFarmSecret puts the value in the vault first, under an id of its own, which the event
// then names: a value is given to jobs if and only if the log says so.
func (s *Server) setFarmSecret(ctx context.Context, in *secretValue, set commands.SetFarmSecret) (*secretAnswer, error) {
	if err := aggregates.SecretName.Check("name", in.Name); err != nil {
		return nil, err
	}
	if len(in.Body.Value) > maxSecret {
		return nil, invalid("value", "must have 32 KiB or less")
	}
	set.Value = events.NewID(s.now())
	if err := s.farm.Vault.Put(ctx, set.Workspace, set.Value, in.Body.Value); err != nil {
		return nil, err
	}
	done, former, err := s.commands.SetFarmSecret(ctx, set)
	if fault.As(err) != nil && fault.As(err).Kind != fault.Unavailable { // then it may have been set
		former = set.Value
	}
	if err == nil || former == set.Value {
		s.forget(ctx, set.Workspace, former)
	}
	if err != nil {
		return nil, err
	}
	return &secretAnswer{Position{done.Position}}, nil
}

// forget deletes a value that no event names any more. If it stays it is sealed, and of no use.
func (s *Server) forget(ctx context.Context, workspace, value events.ID) {
	if value.IsZero() {
		return
	}
	if err := s.farm.Vault.Delete(ctx, workspace, value); err != nil {
		s.log.WarnContext(ctx, "delete the value of a secret", "err", err)
	}
}

type secretAnswer struct{ Position }

func (in *SecretPath) remove(c *caller, _ events.ID) (commands.RemoveFarmSecret, error) {
	return commands.RemoveFarmSecret{Meta: c.meta(), Name: in.Name}, nil
}

func (s *Server) removeFarmSecret(ctx context.Context, _ *SecretPath, remove commands.RemoveFarmSecret) (*secretAnswer, error) {
	done, former, err := s.commands.RemoveFarmSecret(ctx, remove)
	if err != nil {
		return nil, err
	}
	s.forget(ctx, remove.Workspace, former)
	return &secretAnswer{Position{done.Position}}, nil
}

var exampleSecret = projections.FarmSecret{Name: "NPM_TOKEN", SetBy: exampleAda.Name, SetAt: exampleAt(30)}
