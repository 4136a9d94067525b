package engine

import (
	"cmp"
	"context"
	"errors"

	"svc/engine/client"
	"svc/engine/git"
	"svc/engine/guardrail"
	"svc/engine/policy"
)

// commit applies a change to a commit and pushes what it gives.
func commit(ctx context.Context, s *step, in client.CommitInput) (client.CommitResult, error) {
	var result client.CommitResult
	if s.change == "" {
		return result, fail(client.Permanent, client.CodeNoChange, "There is no change.")
	}
	if err := s.identify(ctx); err != nil {
		return result, err
	}
	err := s.work(ctx, func(r *git.Repository) error {
		s.progress("fetches the repository")
		if err := r.Commit(ctx, in.Parent); err != nil {
			return err
		}
		s.progress("applies the change")
		tree, err := r.Apply(ctx, in.Parent, s.change)
		if err != nil {
			return err
		}
		id, err := r.Write(ctx, git.Commit{Tree: tree, Parents: []string{in.Parent}, Message: in.Message, Author: in.Author, At: in.At})
		if err != nil {
			return err
		}
		from, err := parted(ctx, r, in, id)
		if err != nil {
			return err
		}
		if err := s.refuseSecrets(ctx, r, in, id); err != nil {
			return err
		}
		s.progress("pushes the commit")
		pushed := make(chan error, 1)
		go func() { pushed <- r.Push(ctx, git.Update{Branch: in.Branch, From: in.Expected, To: id}) }()
		changes, err := r.Difference(ctx, from, id)
		if err == nil {
			result = git.Summary(changes)
			result.Head, result.Tree = id, tree
			_ = r.Keep(ctx, id) // else it is fetched when it is needed
		}
		return errors.Join(<-pushed, err)
	})
	return result, err
}

// refuseSecrets keeps a commit that adds a secret from leaving the engine.
func (s *step) refuseSecrets(ctx context.Context, r *git.Repository, in client.CommitInput, id string) error {
	if in.Policy == nil {
		return nil
	}
	found, err := s.guard(ctx, r, cmp.Or(in.Base, in.Parent), id, *in.Policy)
	if err != nil {
		return err
	}
	for _, c := range found.Checks {
		if c.Check == guardrail.Secrets && c.Status == "block" && len(c.Findings) > 0 {
			return fail(client.Permanent, client.CodeSecret, "The guardrails refuse it: secrets (%s: %s).", c.Findings[0].Path, c.Findings[0].Rule)
		}
	}
	return nil
}

// parted returns the commit from which the changes of a new commit are listed.
func parted(ctx context.Context, r *git.Repository, in client.CommitInput, id string) (string, error) {
	if in.Base == "" || in.Base == in.Parent {
		return in.Parent, nil
	}
	if err := r.Commit(ctx, in.Base); err != nil {
		return "", err
	}
	from, err := r.MergeBase(ctx, in.Base, id)
	if err == nil && from == "" {
		from = in.Parent
	}
	return from, err
}

// inspect checks a head against the guardrails.
func inspect(ctx context.Context, s *step, in client.InspectInput) (client.InspectResult, error) {
	var result client.InspectResult
	err := s.work(ctx, func(r *git.Repository) error {
		s.progress("fetches the repository")
		if in.Branch != "" && !r.Has(ctx, in.Head) {
			if _, err := r.Branch(ctx, in.Branch); err != nil {
				return err
			}
		}
		base := in.Base
		if !git.ValidCommit(base) {
			var err error
			if base, err = s.base(ctx, r, base); err != nil {
				return err
			}
		}
		for _, id := range []string{base, in.Head} {
			if err := r.Commit(ctx, id); err != nil {
				return err
			}
		}
		s.progress("checks the guardrails")
		var err error
		result, err = s.guard(ctx, r, base, in.Head, in.Policy)
		return err
	})
	return result, err
}

// guard checks what head changes since its history parted from that of base: what base got in the meantime is not
// the head's work. What was checked lately is not checked again.
func (s *step) guard(ctx context.Context, r *git.Repository, base, head string, p client.Policy) (client.InspectResult, error) {
	from, err := r.MergeBase(ctx, base, head)
	if err != nil {
		return client.InspectResult{}, err
	}
	if from == "" {
		return client.InspectResult{}, fail(client.Permanent, client.CodeChange, "The branch and its target have no commit in common.")
	}
	sha, err := policy.SHA(p)
	if err != nil {
		return client.InspectResult{}, err
	}
	key := [3]string{from, head, sha}
	if result, known := s.inspected.Get(key); known {
		return result, nil
	}
	result, err := guardrail.Inspect(ctx, r, from, head, p)
	if err == nil {
		s.inspected.Add(key, result)
	}
	return result, err
}
