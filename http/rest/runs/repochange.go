package runs

import (
	"context"
	"errors"

	"svc/aggregates"
	"svc/commands"
	"svc/config"
	"svc/credentials"
	"svc/engine/client"
	"svc/events"
	"svc/fault"
	"svc/http/rest/door"
	"svc/http/rest/schema"
)

// maxRepoBody bounds the bodies with settings; every character may be an escape sequence.
const maxRepoBody = 512 << 10

// maxConnected is how many repositories a workspace may have connected, or has connected before with runs.
const maxConnected = 500

var errReposFull = fault.New(fault.Conflict, "repos_full", "A workspace has %d repositories at most. Disconnect one first.", maxConnected)

func newCredential(token string) client.Credential {
	return client.Credential{Token: config.Secret(token)}
}

type newRepo struct {
	Body struct {
		URL            string              `json:"url" minLength:"1" maxLength:"500" doc:"The repository's address, such as https://github.com/acme/web. With name it may be the address of the code host's interface instead." example:"https://github.com/acme/web"`
		Name           string              `json:"name,omitempty" maxLength:"200" doc:"owner/name. Taken from the address by default." example:"acme/web"`
		Kind           events.HostKind     `json:"kind,omitempty" enum:"github,gitea,git" doc:"github: GitHub, GitHub Enterprise, and what speaks their interface. gitea: Gitea and Forgejo. git: git alone, without issues and pull requests. Defaults to github."`
		Credential     string              `json:"credential,omitempty" maxLength:"4096" doc:"A token that may push, and open and merge pull requests. Only the kind git can do without." example:"…"`
		ReadCredential string              `json:"readCredential,omitempty" maxLength:"4096" doc:"A token that may only read, with which build machines clone. Not needed if anybody may read." example:"…"`
		Settings       *RepoSettingsChange `json:"settings,omitempty"`
	}
}

type repoAnswer struct {
	schema.Position
	Body repoDetail
}

func (in *newRepo) toCommand(c *door.Caller, _ events.ID) (commands.ConnectRepo, error) {
	connect := commands.ConnectRepo{Meta: c.Meta(), Name: in.Body.Name, Settings: events.RepoSettings{MayAllowOnce: true}}
	if in.Body.Settings != nil {
		connect.Settings = in.Body.Settings.applyTo(connect.Settings)
	}
	name, host, err := parseRepo(in.Body.Kind, in.Body.Name, in.Body.URL, true) // connectRepo refuses what may not be
	if err != nil {
		return connect, err
	}
	connect.Name, connect.Host = name, host
	for field, token := range map[string]string{"credential": in.Body.Credential, "readCredential": in.Body.ReadCredential} {
		if token == "" {
			continue
		}
		if err := credentials.Check(field, token); err != nil {
			return connect, err
		}
	}
	return connect, nil
}

// connectRepo tries the credentials before it stores anything.
func (s *Server) connectRepo(ctx context.Context, in *newRepo, connect commands.ConnectRepo) (*repoAnswer, error) {
	if _, err := repoURL(in.Body.URL, s.LocalCodeHosts); err != nil {
		return nil, err
	}
	connect.Repo = events.NewID(s.Now())
	if err := s.checkNewRepo(ctx, connect, in.Body.Credential); err != nil {
		return nil, err
	}
	of := remote{connect.Workspace, connect.Repo, connect.Name, connect.Host, in.Body.Credential}
	found, err := s.probe(ctx, of, in.Body.ReadCredential, connect.Settings)
	if err == nil {
		err = found.refusal()
	}
	if err != nil {
		return nil, err
	}
	connect.Name, connect.Host, connect.Checks = found.name, found.host, found.checks
	if connect.Settings.Branch == "" {
		connect.Settings.Branch = found.branch
	}
	if err := s.storeCredential(ctx, connect.Workspace, &connect.Credential, in.Body.Credential); err != nil {
		return nil, err
	}
	err = s.storeCredential(ctx, connect.Workspace, &connect.ReadCredential, in.Body.ReadCredential)
	var done commands.Result
	if err == nil {
		done, err = s.Commands.ConnectRepo(context.WithoutCancel(ctx), connect)
	}
	if err != nil {
		if !errors.Is(err, commands.ErrOutcomeUnknown) { // after which the log may name the values
			s.dropCredentials(ctx, connect.Workspace, connect.Credential, connect.ReadCredential)
		}
		return nil, err
	}
	check := commands.CheckRepo{Meta: connect.Meta, Repo: connect.Repo}
	if checked, err := s.recordProbe(ctx, check, found, aggregates.Repo{}); err == nil { // otherwise the next check sets up the hook
		done.Position = max(done.Position, checked.Position)
	}
	return s.showRepo(ctx, done, connect.Repo)
}

// checkNewRepo refuses what could not be connected whatever a probe finds.
func (s *Server) checkNewRepo(ctx context.Context, connect commands.ConnectRepo, credential string) error {
	n, err := s.Repos.Count(ctx, connect.Workspace)
	switch {
	case err != nil:
		return err
	case n >= maxConnected:
		return errReposFull
	}
	e := events.RepoConnected{Name: connect.Name, Host: connect.Host, Settings: connect.Settings}
	if credential != "" {
		e.Credential = connect.Repo // any id
	}
	if e.Settings.Branch == "" {
		e.Settings.Branch = "main" // until the probe says which
	}
	_, err = new(aggregates.Repo).Connect(e)
	return err
}

// storeCredential seals a token under a new id, unless it is empty. It stores the token also if the caller has gone: a
// cancelled insert may reach the database after the value was deleted.
func (s *Server) storeCredential(ctx context.Context, workspace events.ID, value *events.ID, token string) error {
	if token == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), door.VaultTimeout)
	defer cancel()
	*value = events.NewID(s.Now())
	return s.Credentials.Put(ctx, workspace, *value, token)
}

// dropCredentials deletes tokens that no event names any more. If that fails, they stay encrypted and unused.
func (s *Server) dropCredentials(ctx context.Context, workspace events.ID, values ...events.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), door.VaultTimeout)
	defer cancel()
	for _, value := range values {
		if value.IsZero() {
			continue
		}
		if err := s.Credentials.Delete(ctx, workspace, value); err != nil {
			s.Log.WarnContext(ctx, "delete the credential of a repository", "err", err)
		}
	}
}

// showRepo returns the answer to a command on a repository.
func (s *Server) showRepo(ctx context.Context, done commands.Result, id events.ID) (*repoAnswer, error) {
	if err := s.Primary.Await(ctx, "repos", door.CallerOf(ctx).Workspace, done.Position); err != nil {
		return nil, err
	}
	found, err := door.Find(ctx, id, aggregates.ErrNoRepo, s.Repos.Get)
	if err != nil {
		return nil, err
	}
	detail, err := s.describeRepo(ctx, found, true)
	return &repoAnswer{schema.Position{Position: done.Position}, detail}, err
}

type repoChange struct {
	RepoPath
	Body struct {
		schema.AtLeastOne
		RepoSettingsChange
	}
}

func (in *repoChange) toCommand(c *door.Caller, id events.ID) (commands.ChangeRepoSettings, error) {
	change := func(s events.RepoSettings) (events.RepoSettings, error) { return in.Body.applyTo(s), nil }
	return commands.ChangeRepoSettings{Meta: c.Meta(), Repo: id, Change: change}, nil
}

func (s *Server) changeRepo(ctx context.Context, _ *repoChange, change commands.ChangeRepoSettings) (*repoAnswer, error) {
	done, err := s.Commands.ChangeRepoSettings(ctx, change)
	if err != nil {
		return nil, err
	}
	return s.showRepo(ctx, done, change.Repo)
}

type repoEnd struct {
	RepoPath
	Name string `query:"name" required:"true" maxLength:"200" doc:"The repository's name, typed again."`
}

func (in *repoEnd) toCommand(c *door.Caller, id events.ID) (commands.DisconnectRepo, error) {
	return commands.DisconnectRepo{Meta: c.Meta(), Repo: id, Name: in.Name}, nil
}

func (s *Server) disconnectRepo(ctx context.Context, _ *repoEnd, end commands.DisconnectRepo) (*schema.Position, error) {
	repo, token, hidden := s.Credentials.Reveal(ctx, end.Workspace, end.Repo, events.WriteCredential)
	done, former, err := s.Commands.DisconnectRepo(ctx, end)
	if err != nil {
		return nil, err
	}
	if hidden == nil { // otherwise the hook stays at its host, and is told that there is none
		s.removeHook(ctx, remote{end.Workspace, end.Repo, repo.Name(), repo.Host(), token}, repo.Hook())
	}
	s.dropCredentials(ctx, end.Workspace, former...)
	return &schema.Position{Position: done.Position}, nil
}

func (in *RepoPath) check(c *door.Caller, id events.ID) (commands.CheckRepo, error) {
	return commands.CheckRepo{Meta: c.Meta(), Repo: id}, nil
}

func (s *Server) checkRepo(ctx context.Context, _ *RepoPath, check commands.CheckRepo) (*repoAnswer, error) {
	found, repo, err := s.probeWith(ctx, check.Repo, nil)
	if err != nil {
		return nil, err
	}
	done, err := s.recordProbe(ctx, check, found, repo)
	if err != nil {
		return nil, err
	}
	return s.showRepo(ctx, done, check.Repo)
}

// probeWith has the engine probe a connected repository with the tokens that the log names, or with instead in their
// place.
func (s *Server) probeWith(ctx context.Context, id events.ID, instead map[events.CredentialKind]string) (*probed, aggregates.Repo, error) {
	tokens := map[events.CredentialKind]string{}
	var repo aggregates.Repo
	for _, kind := range []events.CredentialKind{events.WriteCredential, events.ReadCredential} {
		token, given := instead[kind]
		var kept string
		var err error
		repo, kept, err = s.connectedRepo(ctx, id, kind)
		switch {
		case given && (err == nil || errors.Is(err, credentials.ErrUnreadable)):
			tokens[kind] = token
		case errors.Is(err, credentials.ErrUnreadable):
			return nil, repo, errCredentialLost
		case err != nil:
			return nil, repo, err
		default:
			tokens[kind] = kept
		}
	}
	of := remote{door.CallerOf(ctx).Workspace, id, repo.Name(), repo.Host(), tokens[events.WriteCredential]}
	found, err := s.probe(ctx, of, tokens[events.ReadCredential], repo.Settings())
	return found, repo, err
}

var errCredentialLost = fault.New(fault.Conflict, errCredential.Code, "The repository's credential cannot be opened any more. Replace it.")

// recordProbe records what a probe found of a repository. If all is well its hook is set up.
func (s *Server) recordProbe(ctx context.Context, check commands.CheckRepo, found *probed, repo aggregates.Repo) (commands.Result, error) {
	check.Checks = found.checks
	if found.ok && found.host.Kind != events.HostGit {
		more, err := s.checkHook(ctx, check)
		if err != nil {
			return commands.Result{}, err
		}
		check.Checks = append(check.Checks, more...)
	}
	done, err := s.Commands.CheckRepo(ctx, check)
	if err != nil || !found.ok || repo.Name() == "" || found.name == repo.Name() && found.host == repo.Host() {
		return done, err
	}
	return s.Commands.RenameRepo(ctx, commands.RenameRepo{Meta: check.Meta, Repo: check.Repo, Name: found.name, Host: found.host})
}

type newCredentialOf struct {
	RepoPath
	Body struct {
		Which      events.CredentialKind `json:"which" enum:"write,read" doc:"write: pushes, opens and merges pull requests. read: clones on build machines."`
		Credential string                `json:"credential" maxLength:"4096" doc:"The token. Empty takes the credential away." example:"…"`
	}
}

func (in *newCredentialOf) toCommand(c *door.Caller, id events.ID) (commands.ReplaceRepoCredential, error) {
	replace := commands.ReplaceRepoCredential{Meta: c.Meta(), Repo: id, Which: in.Body.Which}
	if in.Body.Credential == "" {
		return replace, nil
	}
	return replace, credentials.Check("credential", in.Body.Credential)
}

// replaceCredential tries the new credential before it stores it.
func (s *Server) replaceCredential(
	ctx context.Context, in *newCredentialOf, replace commands.ReplaceRepoCredential,
) (*repoAnswer, error) {
	token := in.Body.Credential
	found, repo, err := s.probeWith(ctx, replace.Repo, map[events.CredentialKind]string{replace.Which: token})
	if err == nil {
		err = found.refusal()
	}
	if err != nil {
		return nil, err
	}
	if err := s.storeCredential(ctx, replace.Workspace, &replace.Value, token); err != nil {
		return nil, err
	}
	done, former, err := s.Commands.ReplaceRepoCredential(context.WithoutCancel(ctx), replace)
	if err != nil {
		if !errors.Is(err, commands.ErrOutcomeUnknown) { // after which the log may name the value
			s.dropCredentials(ctx, replace.Workspace, replace.Value)
		}
		return nil, err
	}
	s.dropCredentials(ctx, replace.Workspace, former)
	checked, err := s.recordProbe(ctx, commands.CheckRepo{Meta: replace.Meta, Repo: replace.Repo}, found, repo)
	if err != nil {
		return nil, err
	}
	done.Position = max(done.Position, checked.Position)
	return s.showRepo(ctx, done, replace.Repo)
}

type repoPause struct {
	RepoPath
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why, for everybody who wonders." example:"Release freeze."`
	}
}

func (in *repoPause) toCommand(c *door.Caller, id events.ID) (commands.PauseRepo, error) {
	return commands.PauseRepo{Meta: c.Meta(), Repo: id, Reason: in.Body.Reason}, nil
}

func (s *Server) pauseRepo(ctx context.Context, _ *repoPause, pause commands.PauseRepo) (*repoAnswer, error) {
	done, err := s.Commands.PauseRepo(ctx, pause)
	if err != nil {
		return nil, err
	}
	return s.showRepo(ctx, done, pause.Repo)
}

func (in *RepoPath) resume(c *door.Caller, id events.ID) (commands.ResumeRepo, error) {
	return commands.ResumeRepo{Meta: c.Meta(), Repo: id}, nil
}

func (s *Server) resumeRepo(ctx context.Context, _ *RepoPath, resume commands.ResumeRepo) (*repoAnswer, error) {
	done, err := s.Commands.ResumeRepo(ctx, resume)
	if err != nil {
		return nil, err
	}
	return s.showRepo(ctx, done, resume.Repo)
}
