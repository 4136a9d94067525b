package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/input"
	"svc/projections/fold"
)

func (s *Server) backlogRoutes() section {
	return section{tag: "Backlog", about: "What there is to do.", routes: []route{
		command((*newIssue).command, s.queueIssue, route{
			method: "POST", path: "/backlog/queue", guard: mayDo(events.QueueIssues),
			id: "queueIssue", summary: "Queue an issue", status: http.StatusCreated,
			text: "Begins a run that works on an issue: one of the repository, by its number, or one that is written here. An issue" +
				" has one active run: 409 `already_queued`. 404 `repo_not_found` if the workspace does not know the repository.",
			refuses:  []*fault.Fault{errNoRepo, aggregates.ErrQueued, commands.ErrKeyReused, fold.ErrNotCaughtUp},
			sent:     object{"repoId": exampleRepo.ID, "issueNumber": exampleQueued.IssueNumber, "title": exampleQueued.IssueTitle},
			answered: newRun(exampleQueued),
		}),
	}}
}

var errNoRepo = fault.New(fault.NotFound, "repo_not_found", "There is no such repository in this workspace.")

type newIssue struct {
	Once
	Body struct {
		RepoID      string `json:"repoId" format:"uuid" doc:"A repository of the workspace: one that runs have worked on."`
		IssueNumber int    `json:"issueNumber,omitempty" minimum:"1" maximum:"1000000000" doc:"An issue of the repository. Without it title says what there is to do, and the issue gets the next free number."`
		Title       string `json:"title,omitempty" maxLength:"200" doc:"Needed without issueNumber." example:"Fix date parsing"`
		Body        string `json:"body,omitempty" maxLength:"65536" doc:"The text of the issue; only without issueNumber." example:"As in the list of members."`
	}
}

type queuedAnswer struct {
	Position
	Body run
}

func (in *newIssue) command(c *caller, _ events.ID) (commands.QueueIssue, error) {
	queue := commands.QueueIssue{Meta: c.metaOnce(in.Once), IssueNumber: in.Body.IssueNumber, Title: in.Body.Title, Body: in.Body.Body}
	switch {
	case in.Body.IssueNumber == 0 && input.Blank(in.Body.Title):
		return queue, invalid("title", "must say what there is to do, or issueNumber name an issue")
	case in.Body.IssueNumber != 0 && in.Body.Body != "":
		return queue, invalid("body", "must be left out of an issue that has a number")
	}
	return queue, nil
}

func (s *Server) queueIssue(ctx context.Context, in *newIssue, queue commands.QueueIssue) (*queuedAnswer, error) {
	c := callerOf(ctx)
	id, err := events.ParseID(in.Body.RepoID)
	if err != nil {
		return nil, invalid("repoId", "must be an id")
	}
	repo, ok, err := s.views.Runs.Repo(ctx, c.workspace, id)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, errNoRepo
	}
	queue.Run, queue.Repo = events.NewID(s.now()), repo
	queue.Largest = func(ctx context.Context) (int, error) { return s.views.Runs.LargestIssue(ctx, c.workspace, id) }
	done, err := s.commands.QueueIssue(ctx, queue)
	if err != nil {
		return nil, err
	}
	var kept commands.RunAnswer
	if done.Replayed {
		if err := json.Unmarshal(done.Answer, &kept); err != nil {
			return nil, fmt.Errorf("read kept answer: %w", err)
		}
		queue.Run = kept.Run
	}
	return s.runAfter(ctx, done, queue.Run)
}
