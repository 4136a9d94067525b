// Package codehost speaks to code hosts: issues, pull requests and what people have to know of a
// repository. Objects and branches are git's, see engine/git. Nothing outside of this package knows which
// kind of host there is.
//
// Errors that tell what they mean for a step are [*client.Failure].
package codehost

import (
	"context"

	"svc/engine/client"
	"svc/events"
)

// A Host is a repository at a code host.
type Host interface {
	// Repository returns what the host says of the repository.
	Repository(ctx context.Context) (Repository, error)

	// Review looks for what hinders runs that merge into a branch by a landing and a method. Its addresses begin
	// with that of the repository for browsers.
	Review(ctx context.Context, branch, web, landing, method string) ([]client.Check, error)

	Issues(ctx context.Context, in client.IssuesInput) (client.IssuesResult, error)
	Issue(ctx context.Context, number int) (client.Issue, error)

	// Labelled returns the open issues with a label, with who gave it.
	Labelled(ctx context.Context, in client.LabelledInput) (client.LabelledResult, error)

	// Propose opens the pull request unless it is there.
	Propose(ctx context.Context, in client.ProposeInput) (client.ProposeResult, error)

	// Comment makes the one comment with a marker on an issue, or changes it. Without an issue it does nothing.
	Comment(ctx context.Context, issue int, marker, text string) error

	// Mark says at the host how the run's work on a commit stands. It is a courtesy: a host that refuses is no error.
	Mark(ctx context.Context, commit, state, text string)

	// PullRequest returns a pull request as the host shows it, nil if the host has none.
	PullRequest(ctx context.Context, number int) (*client.PullRequest, error)

	// Closed returns the pull requests of branches in a folder that were closed or merged lately, newest first.
	Closed(ctx context.Context, folder string) ([]int, error)

	// Merges reports whether the host merges pull requests.
	Merges() bool

	// Merge merges a pull request whose head is exactly in.Head.
	Merge(ctx context.Context, in client.MergeInput) error

	// Hook has the host tell an address of changes, or not any more.
	Hook(ctx context.Context, in client.HookInput) (client.HookResult, error)

	// Close closes a pull request of a branch if it is open, and returns what it is then: merged, closed, left
	// (it belongs to another branch), none.
	Close(ctx context.Context, number int, branch string) (string, error)
}

// A Repository is what a host says of a repository.
type Repository struct {
	ID            string // the host's own, "" if it has none
	Name          string
	Web           string
	Clone         string
	API           string
	DefaultBranch string
	Private       bool
	RequestsLeft  int
}

// New returns the host of a repository.
func New(r client.Repository, network Network) (Host, error) {
	switch r.Kind {
	case string(events.HostGit):
		return plain{r}, nil
	case string(events.HostGitHub):
		return newHosted(r, network, publicAPI, newGitHub)
	case string(events.HostGitea):
		return newHosted(r, network, "", newGitea)
	}
	return nil, &client.Failure{Class: client.Permanent, Code: client.CodeHostRefused, Message: "The kind of the code host is not known."}
}

// plain is a git server without issues and pull requests.
type plain struct{ r client.Repository }

func (p plain) Repository(context.Context) (Repository, error) {
	return Repository{Name: p.r.Name, Clone: p.r.Clone}, nil
}

func (plain) Review(context.Context, string, string, string, string) ([]client.Check, error) {
	return []client.Check{{ID: "issues", Status: events.CheckNoted, Text: "The host is git alone: issues and reviews are here."}}, nil
}

func (plain) Issues(context.Context, client.IssuesInput) (client.IssuesResult, error) {
	return client.IssuesResult{Issues: []client.Issue{}}, nil
}

func (plain) Issue(context.Context, int) (client.Issue, error) {
	return client.Issue{}, &client.Failure{Class: client.Permanent, Code: client.CodeNoIssue, Message: "The code host has no issues."}
}

func (plain) Labelled(context.Context, client.LabelledInput) (client.LabelledResult, error) {
	return client.LabelledResult{Issues: []client.Labelled{}}, nil
}

func (plain) Propose(context.Context, client.ProposeInput) (client.ProposeResult, error) {
	return client.ProposeResult{}, nil
}

func (plain) Comment(context.Context, int, string, string) error { return nil }

func (plain) Mark(context.Context, string, string, string) {}

func (plain) PullRequest(context.Context, int) (*client.PullRequest, error) { return nil, nil }

func (plain) Closed(context.Context, string) ([]int, error) { return []int{}, nil }

func (plain) Merges() bool { return false }

func (plain) Merge(context.Context, client.MergeInput) error {
	return &client.Failure{Class: client.Permanent, Code: client.CodeHostRefused, Message: "The code host has no pull requests."}
}

func (plain) Hook(context.Context, client.HookInput) (client.HookResult, error) {
	return client.HookResult{Why: "The host is git alone."}, nil
}

func (plain) Close(context.Context, int, string) (string, error) { return "none", nil }
