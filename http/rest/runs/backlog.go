package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/input"
	"svc/projections/fold"
)

func (s *Server) backlogRoutes() door.Section {
	return door.Section{Tag: "Backlog", About: "Issues to work on.", Routes: []door.Route{
		s.issueRoute(),
		door.Command((*newIssue).toCommand, s.queueIssue, door.Route{
			Method: "POST", Path: "/backlog/queue", Guard: door.MayDo(events.QueueIssues),
			Limits: middleware.Limits{Body: 512 << 10}, // every character may be an escape sequence
			ID:     "queueIssue", Summary: "Queue an issue", Status: http.StatusCreated,
			Text: "Starts a run for an issue: an existing one of the repository, by its number, or a new one with the given title and " +
				"body, unless the repository's code host has issues. An issue can have one active run: 409 `already_queued`. Without title, " +
				"the code host is asked for that of the number. 404 `repo_not_found` if the workspace has no such repository.",
			Refuses: append([]*fault.Fault{
				aggregates.ErrNoRepo, aggregates.ErrRepoPaused, aggregates.ErrQueued, errNoIssue, errIssueClosed, commands.ErrKeyReused,
				fold.ErrNotCaughtUp,
			}, engineFaults...),
			RequestExample: schema.Object{"repoId": schema.ExampleRepo.ID, "issueNumber": exampleQueued.IssueNumber,
				"title": exampleQueued.IssueTitle},
			AnswerExample: NewRun(exampleQueued),
		}),
	}}
}

type newIssue struct {
	schema.Idempotency
	Body struct {
		RepoID      string `json:"repoId" format:"uuid" doc:"The id of a repository of the workspace, as in GET /repos."`
		IssueNumber int    `json:"issueNumber,omitempty" minimum:"1" maximum:"2147483647" doc:"The number of an existing issue; 1000000000 at most if no run had it. Without it, title is required, and the issue gets the next free number."`
		Title       string `json:"title,omitempty" maxLength:"200" doc:"The issue's title. Required without issueNumber." example:"Fix date parsing"`
		Body        string `json:"body,omitempty" maxLength:"65536" doc:"The issue's text. Only without issueNumber." example:"As in the list of members."`
	}
}

type queuedAnswer struct {
	schema.Position
	Body Run
}

func (in *newIssue) toCommand(c *door.Caller, _ events.ID) (commands.QueueIssue, error) {
	queue := commands.QueueIssue{
		Meta: c.MetaWithKey(in.Idempotency), IssueNumber: in.Body.IssueNumber, Title: in.Body.Title, Body: in.Body.Body,
	}
	switch {
	case in.Body.IssueNumber == 0 && input.Blank(in.Body.Title):
		return queue, fault.Field("title", "is needed for an issue without a number")
	case in.Body.IssueNumber != 0 && in.Body.Body != "":
		return queue, fault.Field("body", "cannot be combined with issueNumber")
	}
	return queue, nil
}

func (s *Server) queueIssue(ctx context.Context, in *newIssue, queue commands.QueueIssue) (*queuedAnswer, error) {
	id, err := events.ParseID(in.Body.RepoID)
	if err != nil {
		return nil, fault.Field("repoId", "must be an id")
	}
	repo, connected, ok, err := s.Commands.RepoOf(ctx, door.CallerOf(ctx).Workspace, id)
	if err := door.CheckFound(ok, err, aggregates.ErrNoRepo); err != nil {
		return nil, err
	}
	if connected != nil {
		if err := s.checkQueue(ctx, connected, id, &queue); err != nil {
			return nil, err
		}
	}
	queue.Run, queue.Repo, queue.RepoName = events.NewID(s.Now()), repo.ID, repo.Name
	done, err := s.Commands.QueueIssue(ctx, queue)
	if err != nil {
		return nil, err
	}
	return s.showQueued(ctx, done, queue.Run)
}

// showQueued returns the answer to a command that queued a run. If the command was carried out before, that is the
// run which it queued then.
func (s *Server) showQueued(ctx context.Context, done commands.Result, run events.ID) (*queuedAnswer, error) {
	if done.Replayed {
		var stored commands.RunAnswer
		if err := json.Unmarshal(done.Answer, &stored); err != nil {
			return nil, fmt.Errorf("decode stored answer: %w", err)
		}
		run = stored.Run
	}
	return s.awaitRun(ctx, done, run)
}

// checkQueue refuses an issue that no run of a connected repository can work on, and looks up its title.
func (s *Server) checkQueue(ctx context.Context, repo *aggregates.Repo, id events.ID, queue *commands.QueueIssue) (err error) {
	_, paused := repo.Paused()
	switch {
	case paused:
		return aggregates.ErrRepoPaused
	case repo.Host().Kind == events.HostGit:
		return nil
	case queue.IssueNumber == 0:
		return fault.Field("title", "must be an issue of the code host: give its issueNumber")
	case input.Blank(queue.Title):
		queue.HostTitle, err = s.issueTitle(ctx, id, queue.IssueNumber)
	}
	return err
}
