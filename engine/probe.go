package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"svc/engine/client"
	"svc/engine/git"
	"svc/engine/policy"
	"svc/events"
)

// A probing is a probe that runs. It tries what runs need rather than asking whether it is allowed.
type probing struct {
	*step
	in     client.ProbeInput
	result client.ProbeResult
}

// probe finds out whether runs can work on a repository.
func probe(ctx context.Context, s *step, in client.ProbeInput) (client.ProbeResult, error) {
	p := &probing{step: s, in: in}
	p.hide(s.remoteOf(s.Repository, in.ReadCredential).Secrets()...)
	p.result = client.ProbeResult{Checks: []client.Check{}, Name: s.Repository.Name, Clone: s.Repository.Clone, API: s.Repository.API}
	for _, try := range []func(context.Context) error{p.repository, p.branch, p.push, p.read, p.review, p.files} {
		if err := try(ctx); errors.Is(err, errOver) {
			break
		} else if err != nil {
			return p.result, err
		}
	}
	p.result.OK = !slices.ContainsFunc(p.result.Checks, func(c client.Check) bool { return c.Status == events.CheckLacking })
	return p.result, nil
}

// errOver ends a probe: what is lacking hinders all further checks.
var errOver = errors.New("the rest cannot be tried")

// say adds a check.
func (p *probing) say(c client.Check) {
	c.Text, c.Remedy = p.clean(c.Text), p.clean(c.Remedy)
	p.result.Checks = append(p.result.Checks, c)
	p.progress(c.Text)
}

func (p *probing) ok(id, text string) {
	p.say(client.Check{ID: id, Status: events.CheckOK, Text: text})
}

// lacks adds a check of something lacking. A failure that should pass is none: the probe is to be asked for again.
func (p *probing) lacks(id string, err error, remedy string) error {
	f, ok := errors.AsType[*client.Failure](err)
	if !ok || f.Class == client.Transient {
		return err
	}
	switch f.Code {
	case client.CodeCredential:
		if id == "repository" || id == "clone" {
			id, remedy = "credential", "Make a new credential at the code host and replace it here."
		}
	case client.CodeIdentity:
		id, remedy = "identity", "Disconnect the repository and connect it again if it is the right one."
	}
	p.say(client.Check{ID: id, Status: events.CheckLacking, Text: f.Message, Remedy: remedy})
	return errOver
}

// repository asks the host what the repository is.
func (p *probing) repository(ctx context.Context) error {
	found, err := p.host.Repository(ctx)
	if err != nil {
		return p.lacks("repository", err, "Check the name and the address, and that the account of the credential sees the repository.")
	}
	if p.remote.URL == "" || sameHost(found.Clone, p.remote.URL) {
		p.remote.URL = found.Clone
	}
	p.result.Name, p.result.HostID, p.result.Web, p.result.Clone = found.Name, found.ID, found.Web, p.remote.URL
	p.result.API, p.result.DefaultBranch = found.API, found.DefaultBranch
	p.result.Private, p.result.Requests = found.Private, found.RequestsLeft
	return nil
}

// branch looks for the branch that runs merge into.
func (p *probing) branch(ctx context.Context) error {
	head, some, err := p.remote.Default(ctx)
	if err != nil {
		return p.lacks("clone", err, "Check the address for cloning, and that the account of the credential may read.")
	}
	p.ok("clone", "The repository can be cloned.")
	if !some {
		p.say(client.Check{ID: "empty", Status: events.CheckLacking, Text: "The repository has no commit yet.", Remedy: "Push a first commit."})
		return errOver
	}
	if p.result.DefaultBranch == "" {
		p.result.DefaultBranch = head
	}
	if p.in.Branch == "" {
		p.in.Branch = p.result.DefaultBranch
	}
	if p.in.Branch == "" {
		p.say(client.Check{ID: "branch", Status: events.CheckLacking, Text: "The code host names no default branch.", Remedy: "Say which branch runs merge into."})
		return errOver
	}
	heads, err := p.remote.Heads(ctx, p.in.Branch)
	if err != nil {
		return p.lacks("branch", err, "Choose another branch.")
	}
	if heads[p.in.Branch] == "" {
		p.say(client.Check{ID: "branch", Status: events.CheckLacking, Text: "The repository has no branch " + p.in.Branch + ".",
			Remedy: "Choose a branch that exists, or create it."})
		return errOver
	}
	p.ok("branch", "The branch "+p.in.Branch+" is there.")
	return nil
}

// checkAuthor is the author of the commits that a probe makes.
const checkAuthor = "svc check <check@svc.invalid>"

// push creates, moves and deletes a branch of its own.
func (p *probing) push(ctx context.Context) error {
	const remedy = "Give the account of the credential the right to push branches, or exempt it from the rule that the code host names."
	branch := "svc-check/" + p.Repository.ID
	var doing string
	err := p.work(ctx, func(r *git.Repository) error {
		tree, err := r.EmptyTree(ctx)
		if err != nil {
			return err
		}
		first := git.Commit{Tree: tree, Message: "Check that branches can be pushed", Author: checkAuthor, At: time.Unix(0, 0)}
		one, err := r.Write(ctx, first)
		if err != nil {
			return err
		}
		first.Parents = []string{one}
		two, err := r.Write(ctx, first)
		if err != nil {
			return err
		}
		for _, u := range []struct {
			what string
			git.Update
		}{
			{"creating", git.Update{Branch: branch, To: one, Force: true}},
			{"changing", git.Update{Branch: branch, From: one, To: two}},
			{"deleting", git.Update{Branch: branch, From: two}},
		} {
			doing = u.what
			if err := r.Push(ctx, u.Update); err != nil {
				return err
			}
		}
		return nil
	})
	if f, ok := errors.AsType[*client.Failure](err); ok && f.Class != client.Transient {
		err = fail(f.Class, f.Code, "%s a branch does not work. %s", map[string]string{
			"creating": "Creating", "changing": "Changing", "deleting": "Deleting",
		}[doing], f.Message)
	}
	if err != nil {
		if err := p.lacks("push", err, remedy); !errors.Is(err, errOver) {
			return err
		}
		return nil // the other checks do not need it
	}
	p.ok("push", "The credential can create, change and delete branches.")
	return nil
}

// read clones as build machines do.
func (p *probing) read(ctx context.Context) error {
	reader := p.remoteOf(p.Repository, p.in.ReadCredential)
	reader.URL = p.remote.URL
	_, _, err := reader.Default(ctx)
	anonymous := p.in.ReadCredential.Token == ""
	if f, ok := errors.AsType[*client.Failure](err); err != nil && (!ok || f.Class == client.Transient) {
		return err
	}
	switch {
	case err == nil && anonymous:
		p.ok("read", "Anybody can clone the repository.")
	case err == nil:
		p.ok("read", "Build machines can clone the repository.")
	case anonymous:
		p.result.Private = true
		p.say(client.Check{ID: "read", Status: events.CheckLacking, Text: "Build machines cannot clone the repository without a credential.",
			Remedy: "Add a credential that can only read."})
	default:
		p.result.Private = true
		p.say(client.Check{ID: "read", Status: events.CheckLacking, Text: "Build machines cannot clone the repository with their credential.",
			Remedy: "Replace the credential that can only read."})
	}
	return nil
}

// review asks the host for what hinders runs.
func (p *probing) review(ctx context.Context) error {
	list, err := p.host.Review(ctx, p.in.Branch, p.result.Web, p.in.Landing, p.in.Method)
	if err != nil {
		return err
	}
	for _, c := range list {
		p.say(c)
	}
	return nil
}

// files looks at files that matter to runs.
func (p *probing) files(ctx context.Context) error {
	return p.work(ctx, func(r *git.Repository) error {
		base, err := r.Branch(ctx, p.in.Branch)
		if err != nil {
			return err
		}
		_, _, err = policyAt(ctx, r, base, client.Policy{})
		if coded(err, client.CodePolicy) {
			f, _ := errors.AsType[*client.Failure](err)
			p.say(client.Check{ID: "policy", Status: events.CheckLacking, Text: f.Message, Remedy: "Correct " + policy.File + " on " + p.in.Branch + "."})
		} else if err != nil {
			return err
		}
		if _, found, err := r.File(ctx, base, ".gitmodules", 1<<20); err == nil && found {
			p.say(client.Check{ID: "submodules", Status: events.CheckNoted, Text: "The repository has submodules, which jobs do not check out."})
		}
		return nil
	})
}
