package engine

import (
	"context"
	"fmt"

	"svc/engine/client"
	"svc/engine/codehost"
	"svc/engine/git"
)

// propose opens the pull request of a run, or finds it, and says so on the issue.
func propose(ctx context.Context, s *step, in client.ProposeInput) (client.ProposeResult, error) {
	if err := s.identify(ctx); err != nil {
		return client.ProposeResult{}, err
	}
	heads, err := s.remote.Heads(ctx, in.Branch)
	if err != nil {
		return client.ProposeResult{}, err
	}
	if heads[in.Branch] != in.Head {
		return client.ProposeResult{}, fail(client.Permanent, client.CodeHeadMoved, "The branch %s is not at the commit to propose.", in.Branch)
	}
	result, err := s.host.Propose(ctx, in)
	if err != nil || result.Number == 0 {
		return result, err
	}
	s.host.Mark(ctx, in.Head, codehost.MarkPending, "Waits for approval")
	err = s.host.Comment(ctx, in.Issue, in.Marker, fmt.Sprintf("A run works on this issue: #%d.", result.Number))
	if permanent(err) { // the comment is a courtesy
		err = nil
	}
	return result, err
}

// look returns how branches and the pull request are.
func look(ctx context.Context, s *step, in client.LookInput) (client.LookResult, error) {
	var result client.LookResult
	heads, err := s.remote.Heads(ctx, in.Branch, in.Base)
	if err != nil {
		return result, err
	}
	result.Head, result.Base = heads[in.Branch], heads[in.Base]
	if result.PullRequest, err = s.host.PullRequest(ctx, in.PullRequest); err != nil {
		return result, err
	}
	if result.Contained, err = s.contains(ctx, result, in); err != nil {
		return result, err
	}
	if pr := result.PullRequest; pr != nil && pr.MergeCommit != "" {
		err = s.describe(ctx, in.Base, pr)
	}
	return result, err
}

// watch returns how all branches of runs and their pull requests are.
func watch(ctx context.Context, s *step, in client.WatchInput) (client.WatchResult, error) {
	heads, err := s.remote.HeadsBelow(ctx, in.Folder)
	if err != nil {
		return client.WatchResult{}, err
	}
	closed, err := s.host.Closed(ctx, in.Folder)
	return client.WatchResult{Heads: heads, Closed: closed}, err
}

// contains reports whether the base contains the head. It fetches only what was not compared before.
func (s *step) contains(ctx context.Context, at client.LookResult, in client.LookInput) (has bool, err error) {
	if at.Head == "" || at.Base == "" || at.Head == at.Base {
		return at.Head != "" && at.Head == at.Base, nil
	}
	key := [2]string{at.Base, at.Head}
	if has, known := s.contained.Get(key); known {
		return has, nil
	}
	err = s.work(ctx, func(r *git.Repository) error {
		if _, err := r.Branches(ctx, in.Branch, in.Base); err != nil {
			return err
		}
		has, err = r.Contains(ctx, at.Base, at.Head)
		return err
	})
	if err == nil {
		s.contained.Add(key, has)
	}
	return has, err
}

// describe fills in what git says of a merge commit. A commit that the repository does not have stays without.
func (s *step) describe(ctx context.Context, base string, pr *client.PullRequest) error {
	err := s.work(ctx, func(r *git.Repository) (err error) {
		if _, err := r.Branch(ctx, base); err != nil {
			return err
		}
		if err := r.Commit(ctx, pr.MergeCommit); err != nil {
			return err
		}
		if pr.Tree, err = r.Tree(ctx, pr.MergeCommit); err != nil {
			return err
		}
		pr.FirstParent, err = r.FirstParent(ctx, pr.MergeCommit)
		return err
	})
	if coded(err, client.CodeMissingCommit) {
		return nil
	}
	return err
}

// tidy ends a run's traces at the host: those that are the run's alone.
func tidy(ctx context.Context, s *step, in client.TidyInput) (client.TidyResult, error) {
	result := client.TidyResult{PullRequest: "none", Branch: "none"}
	if err := s.identify(ctx); err != nil {
		return result, err
	}
	var err error
	if result.PullRequest, err = s.closing(ctx, in); err != nil {
		return result, err
	}
	heads, err := s.remote.Heads(ctx, in.Branch, in.Lane)
	if err != nil {
		return result, err
	}
	if head := heads[in.Branch]; head != "" {
		if result.Branch, err = s.tidyBranch(ctx, in, head); err != nil {
			return result, err
		}
	}
	if lane := heads[in.Lane]; lane != "" {
		if _, err := s.remove(ctx, in.Lane, lane); err != nil {
			return result, err
		}
	}
	if in.Comment == "" {
		return result, nil
	}
	if err = s.host.Comment(ctx, in.Issue, in.Marker, in.Comment); permanent(err) {
		err = nil
	}
	return result, err
}

// tidyBranch deletes the run's branch unless somebody else has pushed to it, and returns what became of it.
func (s *step) tidyBranch(ctx context.Context, in client.TidyInput, head string) (string, error) {
	if head != in.Head {
		var by string
		err := s.work(ctx, func(r *git.Repository) (err error) {
			if _, err = r.Branch(ctx, in.Branch); err == nil {
				by, err = r.Committer(ctx, head)
			}
			return err
		})
		if err != nil || by != in.Author {
			return "left", err
		}
	}
	return s.remove(ctx, in.Branch, head)
}

// closing closes the pull request if it should be, and returns what it is.
func (s *step) closing(ctx context.Context, in client.TidyInput) (string, error) {
	if in.Close {
		return s.host.Close(ctx, in.PullRequest, in.Branch)
	}
	pr, err := s.host.PullRequest(ctx, in.PullRequest)
	switch {
	case err != nil:
		return "", err
	case pr == nil:
		return "none", nil
	case pr.State == "open":
		return "left", nil
	}
	return pr.State, nil
}

// remove deletes a branch that is at a commit.
func (s *step) remove(ctx context.Context, branch, head string) (string, error) {
	err := s.work(ctx, func(r *git.Repository) error { return r.Push(ctx, git.Update{Branch: branch, From: head}) })
	if coded(err, client.CodeHeadMoved) {
		return "left", nil
	}
	return "deleted", err
}
