package runs

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"svc/commands"
	"svc/credentials"
	"svc/engine/client"
	"svc/events"
	"svc/fault"
	"svc/http/hooks"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections"
)

// A repoHook is where the code host tells of changes.
type repoHook struct {
	URL        string         `json:"url" example:"https://svc.example.com/hooks/019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9"`
	Deliveries []hookDelivery `json:"deliveries" nullable:"false" doc:"The last 20, the newest first."`
}

type hookDelivery struct {
	At       openapi.Timestamp `json:"at"`
	Event    string            `json:"event" doc:"As the code host names it." example:"push"`
	Accepted bool              `json:"accepted" doc:"Whether its signature is right. Of others only the last is kept."`
}

func (s *Server) hookURL(id events.ID) string { return s.Origin + hooks.Prefix + id.String() }

// describeRepo returns a repository with its hook, with the people who did something to it if people is set.
func (s *Server) describeRepo(ctx context.Context, r projections.Repo, people bool) (repoDetail, error) {
	detail := newRepoDetail(r, people)
	if r.Hook != nil {
		list, err := s.Deliveries.List(ctx, r.Workspace, r.ID)
		if err != nil {
			return detail, err
		}
		detail.Hook = &repoHook{URL: s.hookURL(*r.Hook), Deliveries: []hookDelivery{}}
		for _, d := range list {
			detail.Hook.Deliveries = append(detail.Hook.Deliveries, hookDelivery{openapi.FormatTime(d.At), d.Event, d.Accepted})
		}
	}
	return door.WithNames(ctx, s.Door, detail, (*repoDetail).names)
}

type hookAnswer struct {
	schema.Position
	Body newHook
}

type newHook struct {
	URL    string `json:"url" example:"https://svc.example.com/hooks/019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9"`
	AtHost bool   `json:"atHost" doc:"Whether the code host has it now. Otherwise set it up there: content type application/json, the events push, pull requests and issues."`
	Secret string `json:"secret,omitempty" doc:"Shown this once; absent if the code host has it." example:"…"`
	Why    string `json:"why,omitempty" doc:"Why the code host does not have it." example:"Resource not accessible by personal access token"`
}

func (in *RepoPath) hook(c *door.Caller, id events.ID) (commands.SetRepoHook, error) {
	return commands.SetRepoHook{Meta: c.Meta(), Repo: id}, nil
}

func (s *Server) setHook(ctx context.Context, _ *RepoPath, set commands.SetRepoHook) (*hookAnswer, error) {
	made, err := s.setUpHook(ctx, set, true)
	if err != nil {
		return nil, err
	}
	out := &hookAnswer{schema.Position{Position: made.position}, newHook{URL: s.hookURL(made.id), AtHost: made.atHost, Why: made.why}}
	if !made.atHost {
		out.Body.Secret = made.secret
	}
	return out, nil
}

// A madeHook is a repository's hook, and whether its code host has it.
type madeHook struct {
	id          events.ID
	secret, why string
	atHost      bool
	position    int64
}

// setUpHook has the code host tell of changes, with a new address and secret if there are none or if anew is set. That the
// host does not is no error.
func (s *Server) setUpHook(ctx context.Context, set commands.SetRepoHook, anew bool) (made madeHook, err error) {
	repo, token, err := s.connectedRepo(ctx, set.Repo, events.WriteCredential)
	if err != nil && !errors.Is(err, credentials.ErrUnreadable) {
		return made, err
	}
	former := repo.Hook()
	made.id = former
	if _, made.secret, err = s.Credentials.RevealHook(ctx, set.Workspace, set.Repo); err != nil && !errors.Is(err, credentials.ErrUnreadable) {
		return made, err
	}
	if anew || made.secret == "" {
		made.secret = rand.Text()
		if made.position, err = s.storeHook(ctx, &set, made.secret); err != nil {
			return made, err
		}
		made.id = set.Hook
	}
	in := client.HookInput{URL: s.hookURL(made.id), Secret: newCredential(made.secret)}
	if former != made.id && !former.IsZero() {
		in.Former = s.hookURL(former)
	}
	made.atHost, made.why = s.hookAtHost(ctx, remote{set.Workspace, set.Repo, repo.Name(), repo.Host(), token}, in)
	return made, nil
}

// storeHook seals a secret and records that the repository has a hook with it.
func (s *Server) storeHook(ctx context.Context, set *commands.SetRepoHook, secret string) (position int64, err error) {
	if err := s.storeCredential(ctx, set.Workspace, &set.Hook, secret); err != nil {
		return 0, err
	}
	done, former, err := s.Commands.SetRepoHook(context.WithoutCancel(ctx), *set)
	if err != nil {
		if !errors.Is(err, commands.ErrOutcomeUnknown) { // after which the log may name the secret
			s.dropCredentials(ctx, set.Workspace, set.Hook)
		}
		return 0, err
	}
	s.dropCredentials(ctx, set.Workspace, former)
	return done.Position, nil
}

// hookTime bounds what a request waits for a hook at its code host, since it has done its work without.
const hookTime = 8 * time.Second

// hookAtHost sets up a hook at the code host, and reports whether that has it.
func (s *Server) hookAtHost(ctx context.Context, of remote, in client.HookInput) (set bool, why string) {
	if of.host.Kind == events.HostGit {
		return false, "The host is git alone."
	}
	ctx, cancel := context.WithTimeout(ctx, hookTime)
	defer cancel()
	found, err := askEngine[client.HookInput, client.HookResult](ctx, s, client.StepHook, of, in)
	if f := fault.As(err); f != nil {
		return false, f.Message
	}
	return err == nil && found.Set, hostWords(found.Why, of.token, in.Secret.Token.Reveal())
}

// checkHook sets up the hook of a repository, and returns what a check says of it.
func (s *Server) checkHook(ctx context.Context, check commands.CheckRepo) ([]events.RepoCheck, error) {
	made, err := s.setUpHook(ctx, commands.SetRepoHook{Meta: check.Meta, Repo: check.Repo}, false)
	switch {
	case err != nil:
		return nil, err
	case made.atHost:
		return []events.RepoCheck{{Check: "hook", Status: events.CheckOK, Text: "The code host tells of changes at once."}}, nil
	}
	return []events.RepoCheck{{
		Check: "hook", Status: events.CheckNoted, Text: "The code host does not tell of changes, so they are noticed later. " + made.why,
		Remedy: "Let the credential manage hooks and check again, or set up the hook by hand.",
	}}, nil
}

// removeHook removes the hook of a repository that is disconnected from its host, as far as that lets it.
func (s *Server) removeHook(ctx context.Context, of remote, hook events.ID) {
	if hook.IsZero() || of.host.Kind == events.HostGit {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hookTime)
	defer cancel()
	in := client.HookInput{URL: s.hookURL(hook)}
	if _, err := askEngine[client.HookInput, client.HookResult](ctx, s, client.StepHook, of, in); err != nil {
		s.Log.InfoContext(ctx, "remove the hook of a repository from its code host", "repo", of.id, "err", err)
	}
}
