package bare

import (
	"context"
	"fmt"
	"strings"
)

// Merged returns the tree of the merge of head into base, or ErrConflict.
func (r Repo) Merged(ctx context.Context, base, head string) (string, error) {
	out, err := r.git(ctx, "merge-tree", "--write-tree", "--no-messages", base, head)
	if status(err) == 1 {
		return "", ErrConflict
	}
	tree, _, _ := strings.Cut(out, "\n")
	return tree, err
}

// Write writes a commit and returns its id. Its fields ID are ignored.
func (r Repo) Write(ctx context.Context, c Commit) (string, error) {
	args := []string{"commit-tree", c.Tree}
	for _, p := range c.Parents {
		args = append(args, "-p", p)
	}
	env := append(identity("AUTHOR", c.Author), identity("COMMITTER", c.Committer)...)
	out, err := r.run(ctx, call{args: args, stdin: []byte(c.Message), env: env})
	return strings.TrimSpace(out), err
}

func identity(of string, s Signature) []string {
	return []string{
		"GIT_" + of + "_NAME=" + s.Name, "GIT_" + of + "_EMAIL=" + s.Email,
		fmt.Sprintf("GIT_%s_DATE=%d +0000", of, s.At.Unix()),
	}
}

// Update sets a ref from an old id to a new one; [Zero] stands for no ref. It returns ErrMoved if
// the ref is not at the old one.
func (r Repo) Update(ctx context.Context, ref, from, to string) error {
	args := []string{"update-ref", ref, to, from}
	if to == Zero {
		args = []string{"update-ref", "-d", ref, from}
	}
	_, err := r.git(ctx, args...)
	if status(err) > 0 {
		return fmt.Errorf("%w: %w", ErrMoved, err)
	}
	return err
}

// Point sets a ref, wherever it is.
func (r Repo) Point(ctx context.Context, ref, to string) error {
	_, err := r.git(ctx, "update-ref", ref, to)
	return err
}

// SetHead makes a branch the one that HEAD names.
func (r Repo) SetHead(ctx context.Context, to string) error {
	_, err := r.git(ctx, "symbolic-ref", "HEAD", "refs/heads/"+to)
	return err
}
