package engine

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"svc/engine/client"
	"svc/engine/codehost"
	"svc/engine/git"
	"svc/events"
)

// ready makes the commit that merging the head into the present base gives.
func ready(ctx context.Context, s *step, in client.ReadyInput) (client.ReadyResult, error) {
	var result client.ReadyResult
	if err := s.identify(ctx); err != nil {
		return result, err
	}
	err := s.work(ctx, func(r *git.Repository) error {
		result = client.ReadyResult{}
		s.progress("fetches the repository")
		heads, err := r.Branches(ctx, in.Branch, in.Base)
		if err != nil {
			return err
		}
		if result.Base = heads[in.Base]; result.Base == "" {
			return fail(client.Permanent, client.CodeMissingCommit, "The repository has no branch %s.", in.Base)
		}
		if heads[in.Branch] != in.Head {
			return fail(client.Permanent, client.CodeHeadMoved, "The branch %s is not at the commit that was approved.", in.Branch)
		}
		if has, err := r.Contains(ctx, result.Base, in.Head); err != nil || has {
			if err == nil {
				err = fail(client.Permanent, client.CodeBaseMoved, "The branch %s contains the commit already.", in.Base)
			}
			return err
		}
		if result.Policy, result.SHA, err = policyAt(ctx, r, result.Base, in.Policy); err != nil {
			return err
		}
		s.progress("checks the guardrails")
		if result.Guardrails, err = s.guard(ctx, r, result.Base, in.Head, result.Policy); err != nil {
			return err
		}
		return s.candidate(ctx, r, in, &result)
	})
	return result, err
}

// candidate merges, and pushes what that gives to the lane if somebody else has to fetch it.
func (s *step) candidate(ctx context.Context, r *git.Repository, in client.ReadyInput, result *client.ReadyResult) (err error) {
	s.progress("merges")
	if result.Tree, result.Conflicts, err = r.Merge(ctx, result.Base, in.Head); err != nil || result.Conflicts != nil {
		result.Conflicts = result.Conflicts[:min(len(result.Conflicts), events.MaxPushedFiles)]
		return err
	}
	parents := []string{result.Base, in.Head}
	if in.Method == string(events.MergeSquash) {
		parents = parents[:1]
	}
	result.Commit, err = r.Write(ctx, git.Commit{Tree: result.Tree, Parents: parents, Message: in.Message, Author: in.Author, At: in.At})
	if err != nil {
		return err
	}
	if in.Landing == string(events.LandByHost) && s.host.Merges() && result.Tree == result.Guardrails.Tree {
		return nil // nobody needs the commit itself
	}
	s.progress("pushes the candidate")
	return r.Push(ctx, git.Update{Branch: in.Lane, To: result.Commit, Force: true})
}

// merge lands exactly the head that was approved.
func merge(ctx context.Context, s *step, in client.MergeInput) (client.MergeResult, error) {
	if err := s.identify(ctx); err != nil {
		return client.MergeResult{}, err
	}
	if !git.ValidCommit(in.Head) || !git.ValidCommit(in.BaseCommit) {
		return client.MergeResult{}, fail(client.Permanent, client.CodeMissingCommit, "A merge needs the commits of head and base.")
	}
	if in.Landing == string(events.LandExactly) || !s.host.Merges() {
		return s.landExactly(ctx, in)
	}
	return s.landByHost(ctx, in)
}

// landExactly moves the target branch from the commit that the candidate was made on to the candidate.
func (s *step) landExactly(ctx context.Context, in client.MergeInput) (client.MergeResult, error) {
	result := client.MergeResult{Commit: in.Commit, Tree: in.Tree, FirstParent: in.BaseCommit}
	err := s.work(ctx, func(r *git.Repository) error {
		heads, err := r.Branches(ctx, in.Branch, in.Base)
		if err != nil {
			return err
		}
		if heads[in.Base] != in.BaseCommit {
			return s.landed(ctx, r, in, heads[in.Base], &result)
		}
		if head := heads[in.Branch]; head != "" && head != in.Head {
			return fail(client.Permanent, client.CodeHeadMoved, "The branch %s is not at the commit that was approved.", in.Branch)
		}
		if err := r.Commit(ctx, in.Commit); err != nil {
			return err
		}
		if err := s.checkCandidate(ctx, r, in); err != nil {
			return err
		}
		err = r.Push(ctx, git.Update{Branch: in.Base, From: in.BaseCommit, To: in.Commit})
		if !coded(err, client.CodeHeadMoved) {
			return err
		}
		now, err := r.Branch(ctx, in.Base)
		if err != nil {
			return err
		}
		return s.landed(ctx, r, in, now, &result)
	})
	return result, err
}

// checkCandidate makes sure that the commit to land is what it is said to be.
func (s *step) checkCandidate(ctx context.Context, r *git.Repository, in client.MergeInput) error {
	tree, err := r.Tree(ctx, in.Commit)
	if err != nil {
		return err
	}
	parent, err := r.FirstParent(ctx, in.Commit)
	if err != nil {
		return err
	}
	if tree != in.Tree || parent != in.BaseCommit {
		return fail(client.Permanent, client.CodeMissingCommit, "The commit to merge is not the one that was tested.")
	}
	return nil
}

// landed finds out how a target branch that is not where the candidate begins got to base: by this merge, by
// somebody else's, or by other work.
func (s *step) landed(ctx context.Context, r *git.Repository, in client.MergeInput, base string, result *client.MergeResult) error {
	if base == "" {
		return fail(client.Permanent, client.CodeMissingCommit, "The repository has no branch %s.", in.Base)
	}
	if err := r.Commit(ctx, in.BaseCommit); err != nil {
		return err
	}
	if r.Has(ctx, in.Commit) {
		if has, err := r.Contains(ctx, base, in.Commit); err != nil || has {
			return err
		}
	}
	if !r.Has(ctx, in.Head) {
		return baseMoved(in)
	}
	commit, err := r.MergeOf(ctx, in.BaseCommit, base, in.Head)
	if err != nil {
		return err
	}
	if commit == "" {
		return baseMoved(in)
	}
	result.Outside = true
	return fill(ctx, r, commit, result)
}

func baseMoved(in client.MergeInput) error {
	return fail(client.Permanent, client.CodeBaseMoved, "The branch %s is not where the merge was tested.", in.Base)
}

// fill completes a result with what git says of the merge commit.
func fill(ctx context.Context, r *git.Repository, commit string, result *client.MergeResult) (err error) {
	result.Commit = commit
	if result.Tree, err = r.Tree(ctx, commit); err != nil {
		return err
	}
	result.FirstParent, err = r.FirstParent(ctx, commit)
	return err
}

// landByHost lets the host merge the pull request. Git says what branches are, since the host's record of a pull
// request may be behind.
func (s *step) landByHost(ctx context.Context, in client.MergeInput) (client.MergeResult, error) {
	pr, err := s.host.PullRequest(ctx, in.PullRequest)
	if err != nil {
		return client.MergeResult{}, err
	}
	if pr == nil {
		return client.MergeResult{}, fail(client.Permanent, client.CodeHostRefused, "There is no pull request to merge.")
	}
	var hindered error
	if pr.State == "open" {
		if hindered = s.mayMerge(ctx, in, pr); hindered == nil {
			s.host.Mark(ctx, in.Head, codehost.MarkSuccess, "Approved")
			s.progress("merges")
			if err := s.tryMerge(ctx, in); err != nil {
				return client.MergeResult{}, err
			}
			if pr, err = s.host.PullRequest(ctx, in.PullRequest); err != nil {
				return client.MergeResult{}, err
			}
		}
	}
	switch {
	case hindered != nil && !coded(hindered, client.CodeBaseMoved):
		return client.MergeResult{}, hindered
	case hindered != nil:
	case pr.State == "merged" && pr.MergeCommit != "":
		return s.mergedByHost(ctx, in, pr)
	case pr.State == "closed":
		hindered = fail(client.Permanent, client.CodeHeadMoved, "The pull request was closed.")
	default:
		hindered = lag("The code host does not show the merge yet.")
	}
	return s.mergedUnseen(ctx, in, hindered)
}

// A refused merge is one that the host does not do for now.
type refused struct {
	at  time.Time
	err error
}

// tryMerge asks the host to merge, unless it refused a moment ago: whatever happens to a run makes it due again.
func (s *step) tryMerge(ctx context.Context, in client.MergeInput) error {
	key := fmt.Sprintf("%s#%d", s.Repository.ID, in.PullRequest)
	if last, ok := s.refused.Get(key); ok && time.Since(last.at) < s.spacing {
		return last.err
	}
	err := s.host.Merge(ctx, in)
	if coded(err, client.CodeHostRule) {
		s.refused.Add(key, refused{time.Now(), err})
	}
	return err
}

// mergedUnseen looks in the target branch for a merge that the host does not show as one: it contains the head, or is the
// tested tree on the commit that it was tested with. Without such a merge it returns otherwise.
func (s *step) mergedUnseen(ctx context.Context, in client.MergeInput, otherwise error) (result client.MergeResult, err error) {
	err = s.work(ctx, func(r *git.Repository) error {
		base, err := r.Fetch(ctx, in.Base)
		if err != nil {
			return err
		}
		if base == "" || !r.Has(ctx, in.BaseCommit) {
			return otherwise
		}
		commit := ""
		if r.Has(ctx, in.Head) {
			if commit, err = r.MergeOf(ctx, in.BaseCommit, base, in.Head); err != nil {
				return err
			}
		}
		if err := fill(ctx, r, cmp.Or(commit, base), &result); err != nil {
			return err
		}
		if commit == "" && (result.Tree != in.Tree || result.FirstParent != in.BaseCommit) {
			return otherwise
		}
		message, err := r.Message(ctx, result.Commit)
		result.Outside = !says(message, in)
		return err
	})
	return result, err
}

func lag(text string) error {
	return &client.Failure{Class: client.Transient, Code: client.CodeHostLag, Message: text, RetryAfter: 2}
}

// mayMerge compares where head and base are with what was approved and tested.
func (s *step) mayMerge(ctx context.Context, in client.MergeInput, pr *client.PullRequest) error {
	heads, err := s.remote.Heads(ctx, in.Branch, in.Base)
	switch {
	case err != nil:
		return err
	case heads[in.Branch] != in.Head:
		return fail(client.Permanent, client.CodeHeadMoved, "The branch %s is not at the commit that was approved.", in.Branch)
	case heads[in.Base] != in.BaseCommit:
		return baseMoved(in)
	case pr.Head != in.Head:
		return lag("The code host has not seen the push yet.")
	}
	return nil
}

// mergedByHost looks at the merge commit in the target branch. The merge is somebody else's if its commit does not
// say what this one was to say.
func (s *step) mergedByHost(ctx context.Context, in client.MergeInput, pr *client.PullRequest) (client.MergeResult, error) {
	result := client.MergeResult{By: pr.By}
	err := s.work(ctx, func(r *git.Repository) error {
		base, err := r.Fetch(ctx, in.Base)
		if err != nil {
			return err
		}
		if base == "" || !r.Has(ctx, pr.MergeCommit) {
			return lag("The target branch does not show the merge yet.")
		}
		if has, err := r.Contains(ctx, base, pr.MergeCommit); err != nil || !has {
			if err == nil {
				err = lag("The target branch does not show the merge yet.")
			}
			return err
		}
		message, err := r.Message(ctx, pr.MergeCommit)
		if err != nil {
			return err
		}
		result.Outside = pr.Head != in.Head || !says(message, in)
		return fill(ctx, r, pr.MergeCommit, &result)
	})
	return result, err
}

// says reports whether a commit's message is that of the merge.
func says(message string, in client.MergeInput) bool {
	plain := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	return strings.HasPrefix(plain(message), plain(in.Title)) && strings.Contains(plain(message), plain(in.Message))
}
