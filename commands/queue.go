package commands

import (
	"context"

	"svc/events"
)

// Views answers what commands ask about many streams at once, such as all jobs that wait. They ask while they decide, and
// again when they decide again.
type Views struct {
	// Turn returns a function that returns the fair key of a job, for whomever it counts, and its position in the queue, or
	// an error that refuses the job.
	Turn func(workspace, by events.ID, spec events.JobSpec) func(context.Context) (fairKey string, turn int64, err error)

	// KeyUse returns how much of a concurrency key is in use.
	KeyUse func(ctx context.Context, workspace events.ID, key string) (events.ConcurrencyUse, error)

	// LargestIssue returns the largest issue number of a repository, RunRepo a repository that runs name. Both check the
	// run that says so by issueOf.
	LargestIssue func(ctx context.Context, workspace, repo events.ID, issueOf IssueOf) (int, error)
	RunRepo      func(ctx context.Context, workspace, repo events.ID, issueOf IssueOf) (of events.Repo, ok bool, err error)

	// Home returns a person's personal workspace, zero if there is no such person.
	Home func(ctx context.Context, user events.ID) (events.ID, error)

	// StaleMemberships returns some of the workspaces in which a person has another name or address than these.
	StaleMemberships func(ctx context.Context, user events.ID, name, email string) ([]events.ID, error)
}

// An IssueOf is [Handler.IssueOf], or the same over the connection that a command holds.
type IssueOf = func(ctx context.Context, workspace, run events.ID) (repo events.Repo, number int, err error)
