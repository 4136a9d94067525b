package runs

import (
	"context"

	"svc/aggregates"
	"svc/engine/client"
	"svc/events"
	"svc/fault"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/schema"
)

// issueRoute lists the issues that could be queued.
func (s *Server) issueRoute() door.Route {
	return door.Query(s.listIssues, door.Route{
		Method: "GET", Path: "/backlog", Guard: door.AnyMemberOrReadToken, Views: []string{"runs"}, OwnSlot: true,
		ID: "listIssues", Summary: "List open issues",
		Text: "Lists the open issues of a connected repository, newest first, as its code host has them now, with their active runs. A " +
			"repository of the kind git has none: its issues are written here.",
		Refuses: append([]*fault.Fault{aggregates.ErrNoRepo}, engineFaults...),
		AnswerExample: schema.List[backlogIssue]{Total: 1, Limit: 25, Items: []backlogIssue{
			newBacklogIssue(exampleIssue, map[int]activeRun{exampleIssue.Number: {exampleQueued.ID, exampleQueued.Status}}),
		}},
	})
}

type issuesQuery struct {
	Repo  string `query:"repo" required:"true" format:"uuid" doc:"The repository's id."`
	Label string `query:"label" maxLength:"100" doc:"Only issues with this label."`
	Q     string `query:"q" maxLength:"200" doc:"Only issues whose title contains this text, ignoring case and accents."`
	schema.Paging
}

// A backlogIssue is an open issue of a code host.
type backlogIssue struct {
	Number    int               `json:"issueNumber" example:"7"`
	Title     string            `json:"title" example:"Fix date parsing"`
	URL       string            `json:"url" example:"https://github.com/acme/web/issues/7"`
	Labels    []string          `json:"labels" nullable:"false" example:"[\"bug\"]"`
	Author    string            `json:"author" example:"zoe"`
	CreatedAt openapi.Timestamp `json:"createdAt"`
	UpdatedAt openapi.Timestamp `json:"updatedAt"`
	RunID     *string           `json:"runId" nullable:"true" format:"uuid" doc:"The issue's active run; null if it has none."`
	RunStatus *events.RunStatus `json:"runStatus" nullable:"true"`
}

type activeRun struct {
	id     events.ID
	status events.RunStatus
}

func newBacklogIssue(i client.Issue, active map[int]activeRun) backlogIssue {
	out := backlogIssue{
		Number: i.Number, Title: hostWords(i.Title), URL: hostWords(i.URL), Labels: []string{}, Author: hostWords(i.Author),
		CreatedAt: openapi.FormatTime(i.CreatedAt), UpdatedAt: openapi.FormatTime(i.UpdatedAt),
	}
	for _, label := range i.Labels {
		out.Labels = append(out.Labels, hostWords(label))
	}
	if run, ok := active[i.Number]; ok {
		id := run.id.String()
		out.RunID, out.RunStatus = &id, &run.status
	}
	return out
}

type issuesAnswer struct{ Body schema.List[backlogIssue] }

func (s *Server) listIssues(ctx context.Context, in *issuesQuery) (*issuesAnswer, error) {
	id, err := events.ParseID(in.Repo)
	switch {
	case err != nil:
		return nil, fault.Field("repo", "must be an id")
	case in.Offset%in.Limit != 0:
		return nil, fault.Field("offset", "must be a multiple of limit")
	}
	repo, token, err := s.connectedRepo(ctx, id, events.WriteCredential)
	if err != nil {
		return nil, err
	}
	var found client.IssuesResult
	if repo.Host().Kind != events.HostGit {
		of := remote{door.CallerOf(ctx).Workspace, id, repo.Name(), repo.Host(), token}
		ask := client.IssuesInput{Page: 1 + in.Offset/in.Limit, PerPage: in.Limit, Label: in.Label, Query: in.Q}
		if found, err = askEngine[client.IssuesInput, client.IssuesResult](ctx, s, client.StepIssues, of, ask); err != nil {
			return nil, err
		}
	}
	if len(found.Issues) > in.Limit {
		found.Issues = found.Issues[:in.Limit]
	}
	active, err := s.activeRuns(ctx, id, found.Issues)
	if err != nil {
		return nil, err
	}
	total := found.Total
	if total < 0 { // the host does not say: there may be another page
		if total = in.Offset + len(found.Issues); len(found.Issues) == in.Limit {
			total++
		}
	}
	return &issuesAnswer{schema.NewList(found.Issues, total, in.Paging, showIssue(active))}, nil
}

func showIssue(active map[int]activeRun) func(client.Issue) backlogIssue {
	return func(i client.Issue) backlogIssue { return newBacklogIssue(i, active) }
}

// activeRuns returns the active runs of issues of a repository by the issues' numbers.
func (s *Server) activeRuns(ctx context.Context, repo events.ID, issues []client.Issue) (map[int]activeRun, error) {
	numbers := []int{}
	for _, i := range issues {
		numbers = append(numbers, i.Number)
	}
	found, err := s.Listed.Runs.ActiveOf(ctx, door.CallerOf(ctx).Workspace, repo, numbers)
	if err != nil {
		return nil, err
	}
	active := map[int]activeRun{}
	for _, r := range found {
		active[r.IssueNumber] = activeRun{r.ID, r.Status}
	}
	return active, nil
}

var (
	errNoIssue     = fault.New(fault.NotFound, "issue_not_found", "The repository has no such issue.")
	errIssueClosed = fault.New(fault.Conflict, "issue_closed", "This issue is closed.")
)

// issueTitle returns the title of an open issue, as the code host has it.
func (s *Server) issueTitle(ctx context.Context, id events.ID, number int) (string, error) {
	repo, token, err := s.connectedRepo(ctx, id, events.WriteCredential)
	if err != nil {
		return "", err
	}
	of := remote{door.CallerOf(ctx).Workspace, id, repo.Name(), repo.Host(), token}
	ask := client.IssueInput{Number: number}
	found, err := askEngine[client.IssueInput, client.IssueResult](ctx, s, client.StepIssue, of, ask)
	switch {
	case err != nil:
		return "", err
	case found.Issue == nil || found.Issue.Number != number:
		return "", errNoIssue
	case !found.Issue.Open:
		return "", errIssueClosed
	}
	return hostWords(found.Issue.Title), nil
}

var exampleIssue = client.Issue{
	Number: exampleQueued.IssueNumber, Title: exampleQueued.IssueTitle, Open: true, URL: "https://github.com/acme/web/issues/7",
	Author: "zoe", Labels: []string{"bug"}, CreatedAt: schema.ExampleAt(2000), UpdatedAt: schema.ExampleAt(90),
}
