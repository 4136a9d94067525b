package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
)

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

func (in *newIssue) command(c *caller, _ events.ID) commands.QueueIssue {
	return commands.QueueIssue{Meta: c.orderOnce(in.Once), IssueNumber: in.Body.IssueNumber, Title: in.Body.Title, Body: in.Body.Body}
}

func (s *Server) queueIssue(ctx context.Context, in *newIssue) (*queuedAnswer, error) {
	c := callerOf(ctx)
	switch {
	case in.Body.IssueNumber == 0 && strings.TrimSpace(in.Body.Title) == "":
		return nil, invalid("title", "must say what there is to do, or issueNumber name an issue")
	case in.Body.IssueNumber != 0 && in.Body.Body != "":
		return nil, invalid("body", "must be left out of an issue that has a number")
	}
	id, err := events.ParseID(in.Body.RepoID)
	if err != nil {
		return nil, invalid("repoId", "must be an id")
	}
	repo, ok, err := s.Runs.Repo(ctx, c.workspace, id)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, errNoRepo
	}
	queue := in.command(c, events.ID{})
	queue.Run, queue.Repo = events.NewID(s.Now()), repo
	queue.Largest = func(ctx context.Context) (int, error) { return s.Runs.LargestIssue(ctx, c.workspace, id) }
	done, err := s.Commands.QueueIssue(ctx, queue)
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

type cancellation struct {
	ID   string `path:"id" maxLength:"64" doc:"The run's id."`
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Why, for the audit log." example:"No longer needed."`
	}
}

func (in *cancellation) command(c *caller, id events.ID) commands.CancelRun {
	cancel := commands.CancelRun{Meta: c.meta(), Run: id}
	if in.Body != nil {
		cancel.Reason = in.Body.Reason
	}
	return cancel
}

func (s *Server) cancelRun(ctx context.Context, in *cancellation) (*queuedAnswer, error) {
	id, err := events.ParseID(in.ID)
	if err != nil {
		return nil, aggregates.ErrNoRun
	}
	done, err := s.Commands.CancelRun(ctx, in.command(callerOf(ctx), id))
	if err != nil {
		return nil, err
	}
	return s.runAfter(ctx, done, id)
}

// runAfter answers a run as a command left it, when the view has got there.
func (s *Server) runAfter(ctx context.Context, done commands.Result, id events.ID) (*queuedAnswer, error) {
	workspace := callerOf(ctx).workspace
	if err := s.Follower.Await(ctx, "runs", workspace, done.Position); err != nil {
		return nil, err
	}
	found, ok, err := s.Runs.Of(ctx, workspace, id)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, aggregates.ErrNoRun
	}
	return &queuedAnswer{Position{done.Position}, newRun(found)}, nil
}
