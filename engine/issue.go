package engine

import (
	"context"
	"errors"
	"strings"

	"svc/engine/client"
	"svc/engine/git"
	"svc/engine/policy"
)

// issues returns a page of open issues.
func issues(ctx context.Context, s *step, in client.IssuesInput) (client.IssuesResult, error) {
	return s.host.Issues(ctx, in)
}

// labelled returns the open issues with a label.
func labelled(ctx context.Context, s *step, in client.LabelledInput) (client.LabelledResult, error) {
	if err := s.identify(ctx); err != nil {
		return client.LabelledResult{}, err
	}
	return s.host.Labelled(ctx, in)
}

// hook has the host tell of changes, or not any more.
func hook(ctx context.Context, s *step, in client.HookInput) (client.HookResult, error) {
	s.hide(in.Secret.Token.Reveal())
	if err := s.identify(ctx); err != nil {
		return client.HookResult{}, err
	}
	result, err := s.host.Hook(ctx, in)
	result.Why = s.clean(result.Why)
	return result, err
}

// maxIssueBody bounds the text of an issue that is passed on.
const maxIssueBody = 256 << 10

// issue returns an issue, and if a branch is named where its run begins, and the policy there.
func issue(ctx context.Context, s *step, in client.IssueInput) (client.IssueResult, error) {
	var result client.IssueResult
	if err := s.identify(ctx); err != nil {
		return result, err
	}
	if in.Number > 0 {
		found, err := s.host.Issue(ctx, in.Number)
		if err != nil {
			return result, err
		}
		found.Body = strings.ToValidUTF8(found.Body[:min(len(found.Body), maxIssueBody)], "")
		result.Issue = &found
	}
	if in.Branch == "" {
		return result, nil
	}
	err := s.work(ctx, func(r *git.Repository) (err error) {
		if result.Base, err = s.base(ctx, r, in.Branch); err != nil {
			return err
		}
		if in.Commit != "" {
			result.Base = in.Commit
			if err := r.Commit(ctx, in.Commit); err != nil {
				return err
			}
		}
		result.Policy, result.SHA, err = policyAt(ctx, r, result.Base, in.Policy)
		return err
	})
	return result, err
}

// base fetches the branch that runs merge into.
func (s *step) base(ctx context.Context, r *git.Repository, branch string) (string, error) {
	id, err := r.Branch(ctx, branch)
	if err != nil || id != "" {
		return id, err
	}
	_, some, err := s.remote.Default(ctx)
	if err == nil && !some {
		return "", fail(client.Permanent, client.CodeEmpty, "The repository has no commit yet.")
	}
	if err != nil {
		return "", err
	}
	return "", fail(client.Permanent, client.CodeMissingCommit, "The repository has no branch %s.", branch)
}

// policyAt returns the settings with what the policy file of a commit adds.
func policyAt(ctx context.Context, r *git.Repository, commit string, settings client.Policy) (client.Policy, string, error) {
	text, found, err := r.File(ctx, commit, policy.File, policy.MaxFile+1)
	switch {
	case errors.Is(err, git.ErrOutput):
		err = policy.Failure(&policy.Error{Problem: "the file is too large"})
	case errors.Is(err, git.ErrNoFile):
		err = policy.Failure(&policy.Error{Problem: "a regular file is expected"})
	case err == nil && found && text == "":
		err = policy.Failure(&policy.Error{Problem: "the file is empty"})
	}
	if err != nil {
		return client.Policy{}, "", err
	}
	merged, path, err := policy.Merge(settings, text)
	if err != nil {
		return client.Policy{}, "", policy.Failure(err)
	}
	if path != "" {
		content, found, err := r.File(ctx, commit, path, policy.MaxInstructions)
		if errors.Is(err, git.ErrOutput) || errors.Is(err, git.ErrNoFile) || err == nil && !found {
			err = policy.Failure(&policy.Error{Problem: "instructions: there is no file " + path + ", or it is too large"})
		}
		if err != nil {
			return client.Policy{}, "", err
		}
		merged.Instructions = strings.ToValidUTF8(content, "\uFFFD")
	}
	sha, err := policy.SHA(merged)
	return merged, sha, err
}
