package runs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"svc/aggregates"
	"svc/engine/client"
	"svc/events"
	"svc/fault"
	"svc/http/rest/door"
	"svc/input"
)

var (
	errEngineAway  = fault.New(fault.Busy, "engine_unavailable", "The engine is not available right now.")
	errHostAway    = fault.New(fault.Busy, "code_host_unavailable", "The code host does not answer. Try again in a moment.")
	errHostRefuses = fault.New(fault.Conflict, "code_host_refused", "The code host refuses this.")
	errCredential  = fault.New(fault.Conflict, "repo_credential_refused", "The code host refuses the repository's credential. Replace it.")
	errRepoCheck   = fault.New(fault.Invalid, "repo_check_failed", "Runs could not work on this repository. See `details.checks`.")
)

// engineFaults are the errors of routes that ask the engine about a repository.
var engineFaults = []*fault.Fault{errEngineAway, errHostAway, errHostRefuses, errCredential}

// stepSeconds is how long a step that a request waits for may take.
const stepSeconds = 25

// A remote is a repository as the engine is asked about it.
type remote struct {
	workspace, id events.ID
	name          string
	host          events.RepoHost
	token         string // which the engine works with
}

// askEngine runs a step about a repository. It holds a slot of those of the engine meanwhile.
func askEngine[In, Out any](ctx context.Context, s *Server, kind client.Kind, r remote, in In) (out Out, err error) {
	slot, err := s.Acquire(ctx, s.Bounds.Engine, door.CallerOf(ctx))
	if err != nil {
		return out, err
	}
	defer slot.Release()
	ctx, cancel := context.WithTimeout(ctx, (stepSeconds+2)*time.Second)
	defer cancel()
	step := client.Step{
		Workspace: r.workspace.String(), Seconds: stepSeconds,
		Repository: client.Repository{
			ID: r.id.String(), Kind: string(r.host.Kind), Name: r.name, API: r.host.API, Clone: r.host.Clone, HostID: r.host.ID,
			Credential: newCredential(r.token),
		},
	}
	out, err = client.Do[In, Out](ctx, s.Engine, kind, step, in, nil, nil)
	if err != nil {
		return out, engineFault(err, r.token)
	}
	return out, nil
}

// engineFault returns the error that callers get for one of a step, without the tokens of the step.
func engineFault(err error, tokens ...string) error {
	failure, failed := errors.AsType[*client.Failure](err)
	switch {
	case !failed:
		return fmt.Errorf("%w: %w", errEngineAway, err)
	case failure.Code == client.CodeStep:
		return fmt.Errorf("%w: %w", errEngineAway, err)
	}
	f := *errHostRefuses
	switch {
	case failure.Code == client.CodeNoIssue:
		return errNoIssue
	case failure.Code == client.CodeCredential:
		f = *errCredential
	case failure.Class == client.Transient:
		f = *errHostAway.After(time.Duration(max(failure.RetryAfter, 1)) * time.Second)
	}
	if text := hostWords(failure.Message, tokens...); text != "" {
		f.Message = text
	}
	return &f
}

// maxHostWords bounds a sentence of the code host in an answer.
const maxHostWords = 500

// minHidden is the least length of a token that is looked for in what a host says: shorter ones are in any word.
const minHidden = 8

// hostWords returns a sentence that may contain words of the code host, as one line without tokens.
func hostWords(text string, tokens ...string) string {
	for _, token := range tokens {
		if len(token) >= minHidden {
			text = strings.ReplaceAll(text, token, "[credential]")
		}
	}
	return input.Truncate(input.MaskTokens(input.CleanText(text)), maxHostWords)
}

// A probed is what the engine found out about a repository by trying.
type probed struct {
	ok     bool
	checks []events.RepoCheck
	name   string
	host   events.RepoHost
	branch string // the default one
}

// probe has the engine try what runs need. read is the credential of build machines. A host that refuses the
// credential, or does not know the repository, is a finding too.
func (s *Server) probe(ctx context.Context, r remote, read string, settings events.RepoSettings) (*probed, error) {
	in := client.ProbeInput{Branch: settings.Branch, ReadCredential: newCredential(read), Landing: string(settings.Landing)}
	found, err := askEngine[client.ProbeInput, client.ProbeResult](ctx, s, client.StepProbe, r, in)
	p := &probed{ok: found.OK, name: r.name, host: r.host, branch: found.DefaultBranch, checks: []events.RepoCheck{}}
	if f := fault.As(err); f != nil && (f.Code == errCredential.Code || f.Code == errHostRefuses.Code) {
		p.checks = []events.RepoCheck{{Check: "access", Status: events.CheckLacking, Text: hostWords(f.Message, read)}}
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	for _, c := range found.Checks {
		p.checks = append(p.checks, events.RepoCheck{
			Check: c.ID, Status: c.Status, Text: hostWords(c.Text, r.token, read), Remedy: hostWords(c.Remedy, r.token, read),
			URL: hostWords(c.URL, r.token, read),
		})
		p.ok = p.ok && c.Status != events.CheckLacking
	}
	if found.Name != "" {
		p.name = found.Name
	}
	p.host.Web, p.host.Clone = sameSite(r.host.Web, found.Web), sameSite(r.host.Clone, found.Clone)
	if found.HostID != "" {
		p.host.ID = found.HostID
	}
	return p, nil
}

// refusal returns the error for findings with which a repository is not accepted, or nil.
func (p *probed) refusal() error {
	if p.ok {
		return nil
	}
	return errRepoCheck.With("checks", newRepoChecks(p.checks))
}

// connectedRepo returns a connected repository as the log says, with one of its tokens.
func (s *Server) connectedRepo(ctx context.Context, id events.ID, kind events.CredentialKind) (aggregates.Repo, string, error) {
	repo, token, err := s.Credentials.Reveal(ctx, door.CallerOf(ctx).Workspace, id, kind)
	switch {
	case err != nil:
		return repo, "", err
	case !repo.Connected():
		return repo, "", aggregates.ErrNoRepo
	}
	return repo, token, nil
}
