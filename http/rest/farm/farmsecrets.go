package farm

import (
	"context"
	"errors"
	"net/http"

	"svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections/farmviews"
)

func (s *Server) farmSecretRoutes() door.Section {
	return door.Section{Tag: "Build farm", Routes: []door.Route{
		door.Query(s.listFarmSecrets, door.Route{
			Method: "GET", Path: "/farm/secrets", Guard: door.MayDo(events.ManageFarmSecrets), Farm: true,
			ID: "listFarmSecrets", Summary: "List job secrets",
			Text: "Lists the secrets that jobs can use, by name. Values are never returned; they are sent only to runners.",
			AnswerExample: schema.NewList([]farmviews.FarmSecret{exampleSecret}, 1, schema.Paging{Limit: farm.MaxFarmSecrets},
				newFarmSecret),
		}),
		door.Command((*secretValue).toCommand, s.setFarmSecret, door.Route{
			Method: "PUT", Path: "/farm/secrets/{name}", Guard: door.MayDo(events.ManageFarmSecrets), Farm: true,
			Limits: middleware.Limits{Body: 256 << 10},
			ID:     "setFarmSecret", Summary: "Set a job secret", Status: http.StatusNoContent,
			Text: "Creates a secret, or replaces its value, its scope or both. Jobs that are assigned to a runner from now on get the new value; " +
				"one that the scope does not include is refused, or cancelled if it waits. A workspace can " +
				"have 100 secrets. Values and lines shorter than 6 bytes are not masked in logs.",
			Refuses:        []*fault.Fault{farm.ErrFarmSecretMax, farm.ErrNoFarmSecret},
			RequestExample: schema.Object{"value": "…", "scope": schema.Object{"labels": []string{"pool=release"}}},
		}),
		door.Command((*SecretPath).remove, s.removeFarmSecret, door.Route{
			Method: "DELETE", Path: "/farm/secrets/{name}", Guard: door.MayDo(events.ManageFarmSecrets), Farm: true,
			ID: "removeFarmSecret", Summary: "Remove a job secret", Status: http.StatusNoContent,
			Text:    "Removes a secret. Jobs that name it can no longer run.",
			Refuses: []*fault.Fault{farm.ErrNoFarmSecret},
		}),
	}}
}

// A SecretVault stores the values of secrets, each under an id that is never reused.
type SecretVault interface {
	Put(ctx context.Context, workspace, value events.ID, text string) error
	Delete(ctx context.Context, workspace, value events.ID) error
}

type farmSecret struct {
	Name       string            `json:"name" example:"NPM_TOKEN"`
	SetBy      string            `json:"setBy" example:"ada@acme.example"`
	SetterName string            `json:"setByName,omitempty" doc:"Name of the person who has this address now. Absent for other actors." example:"Ada Lind"`
	SetAt      openapi.Timestamp `json:"setAt"`
	Scope      secretScope       `json:"scope"`
}

func (f *farmSecret) names() []door.NamePlace {
	return []door.NamePlace{{Address: f.SetBy, Name: &f.SetterName}}
}

// A secretScope says which jobs may use a secret.
type secretScope struct {
	Jobs   []string `json:"jobs,omitempty" maxItems:"50" nullable:"false" doc:"Names of jobs, one of which a job must have; none: any." example:"[\"publish\"]"`
	Repos  []string `json:"repos,omitempty" maxItems:"50" nullable:"false" doc:"Ids of repositories, of one of which a job must be; none: any, or of no repository." example:"[]"`
	Labels []string `json:"labels,omitempty" maxItems:"32" nullable:"false" doc:"Labels that a job must require, all of them, so that only runners with these labels get the secret. Not those of machines or of the service." example:"[\"pool=release\"]"`
}

func newFarmSecret(s farmviews.FarmSecret) farmSecret {
	out := farmSecret{
		Name: s.Name, SetBy: s.SetBy, SetAt: openapi.FormatTime(s.SetAt), Scope: secretScope{Jobs: s.Scope.Jobs, Labels: s.Scope.Labels},
	}
	for _, id := range s.Scope.Repos {
		out.Scope.Repos = append(out.Scope.Repos, id.String())
	}
	return out
}

type farmSecretsAnswer struct{ Body schema.List[farmSecret] }

func (s *Server) listFarmSecrets(ctx context.Context, _ *struct{}) (*farmSecretsAnswer, error) {
	found, err := s.FarmSecrets.List(ctx, door.CallerOf(ctx).Workspace)
	if err != nil {
		return nil, err
	}
	out := &farmSecretsAnswer{schema.NewList(found, len(found), schema.Paging{Limit: farm.MaxFarmSecrets}, newFarmSecret)}
	return out, door.AddNames(ctx, s.Door, out.Body.Items, (*farmSecret).names)
}

// A SecretPath names a secret.
type SecretPath struct {
	Name string `path:"name" maxLength:"64" doc:"The secret's name: 1 to 64 capital letters, digits and underscores, not starting with a digit."`
}

type secretValue struct {
	SecretPath
	Body struct {
		Value string       `json:"value,omitempty" minLength:"1" maxLength:"32768" doc:"At most 32 KiB of text. It is stored encrypted. Required for a new secret; without it the value stays."`
		Scope *secretScope `json:"scope,omitempty" doc:"Which jobs may use the secret. Without it the scope stays; that of a new secret includes all jobs."`
	}
}

func (in *secretValue) toCommand(c *door.Caller, _ events.ID) (commands.SetFarmSecret, error) {
	set := commands.SetFarmSecret{Meta: c.Meta(), Name: in.Name}
	if in.Body.Scope == nil {
		return set, nil
	}
	set.Scope = &events.SecretScope{Jobs: in.Body.Scope.Jobs, Labels: in.Body.Scope.Labels}
	for _, text := range in.Body.Scope.Repos {
		id, err := events.ParseID(text)
		if err != nil {
			return set, fault.Field("scope.repos", "must be ids of repositories of the workspace")
		}
		set.Scope.Repos = append(set.Scope.Repos, id)
	}
	return set, nil
}

// maxSecret bounds a value, in bytes.
const maxSecret = 32 << 10

// setFarmSecret first stores the value in the vault under a new id, and then appends the event that
// names the id. So jobs get a value if and only if it is in the log.
func (s *Server) setFarmSecret(ctx context.Context, in *secretValue, set commands.SetFarmSecret) (*schema.Position, error) {
	if err := farm.SecretName.Check("name", in.Name); err != nil {
		return nil, err
	}
	switch {
	case len(in.Body.Value) > maxSecret:
		return nil, fault.Field("value", "must have 32 KiB or less")
	case in.Body.Value == "" && set.Scope == nil:
		return nil, fault.Field("value", "is missing")
	}
	if err := s.checkScopeRepos(ctx, set.Workspace, set.Scope); err != nil {
		return nil, err
	}
	if in.Body.Value == "" {
		done, _, err := s.Commands.SetFarmSecret(ctx, set)
		return door.AnswerPosition(done, err)
	}
	set.Value = events.NewID(s.Now())
	done, former, err := s.storeSecret(ctx, set, in.Body.Value)
	switch {
	case err == nil:
		s.deleteValue(ctx, set.Workspace, former)
		return &schema.Position{Position: done.Position}, nil
	case !errors.Is(err, commands.ErrOutcomeUnknown): // after which the log may name the value
		s.deleteValue(ctx, set.Workspace, set.Value)
	}
	return nil, err
}

// checkScopeRepos refuses a scope with repositories that the workspace does not have.
func (s *Server) checkScopeRepos(ctx context.Context, workspace events.ID, scope *events.SecretScope) error {
	if scope == nil {
		return nil
	}
	for _, id := range scope.Repos {
		_, _, ok, err := s.Commands.RepoOf(ctx, workspace, id)
		switch {
		case err != nil:
			return err
		case !ok:
			return fault.Field("scope.repos", "must be ids of repositories of the workspace")
		}
	}
	return nil
}

// storeSecret stores the value also if the caller has gone: a cancelled insert may reach the database
// after the value was deleted.
func (s *Server) storeSecret(ctx context.Context, set commands.SetFarmSecret, text string) (commands.Result, events.ID, error) {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), door.VaultTimeout)
	defer cancel()
	if err := s.Vault.Put(within, set.Workspace, set.Value, text); err != nil {
		return commands.Result{}, events.ID{}, err
	}
	return s.Commands.SetFarmSecret(ctx, set)
}

// deleteValue deletes a value that no event names any more, also if the caller has gone. If that
// fails, the value stays encrypted and unused.
func (s *Server) deleteValue(ctx context.Context, workspace, value events.ID) {
	if value.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), door.VaultTimeout)
	defer cancel()
	if err := s.Vault.Delete(ctx, workspace, value); err != nil {
		s.Log.WarnContext(ctx, "delete the value of a secret", "err", err)
	}
}

func (in *SecretPath) remove(c *door.Caller, _ events.ID) (commands.RemoveFarmSecret, error) {
	return commands.RemoveFarmSecret{Meta: c.Meta(), Name: in.Name}, nil
}

func (s *Server) removeFarmSecret(ctx context.Context, _ *SecretPath, remove commands.RemoveFarmSecret) (*schema.Position, error) {
	done, former, err := s.Commands.RemoveFarmSecret(ctx, remove)
	if err != nil {
		return nil, err
	}
	s.deleteValue(ctx, remove.Workspace, former)
	return &schema.Position{Position: done.Position}, nil
}

var exampleSecret = farmviews.FarmSecret{Name: "NPM_TOKEN", SetBy: schema.ExampleAda.Name, SetAt: schema.ExampleAt(30)}
