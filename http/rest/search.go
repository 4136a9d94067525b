package rest

import (
	"context"
	"strings"

	"svc/events"
	"svc/http/rest/door"
	"svc/http/rest/farm"
	"svc/http/rest/jobs"
	"svc/http/rest/people"
	"svc/http/rest/runs"
	"svc/http/rest/schema"
	"svc/projections"
	"svc/projections/farmviews"
)

func (s *Server) searchRoutes() door.Section {
	return door.Section{Tag: "Search", About: "Search across members, runs, service accounts, runners and jobs.", Routes: []door.Route{
		door.Query(s.search, door.Route{
			Method: "GET", Path: "/search", Guard: door.AnyMember, Views: []string{"runs"},
			ID: "search", Summary: "Search the workspace",
			Text: "Searches by name and returns at most `limit` results of each kind: members as in `GET /members`; runs as in `GET /runs`, with " +
				"exact issue numbers (`7` or `#7`) first, then active runs; jobs as in `GET /farm/jobs`, active ones first; and service accounts " +
				"and runners whose name contains the text, among the newest 1,000 accounts and the first 1,000 runners. " +
				"Callers that may not list service accounts get none.",
			AnswerExample: searchFound{
				Members: []people.Member{people.NewMember(schema.ExampleZoe, schema.ExampleAda.ID)}, Runs: []runs.Run{runs.NewRun(runs.ExampleRun())},
				ServiceAccounts: []foundAccount{{people.ExampleAccount.ID.String(), people.ExampleAccount.Name, people.ExampleAccount.Status}},
				Runners:         []foundRunner{{farm.ExampleRunner.ID.String(), farm.ExampleRunner.Name, farm.ExampleRunner.State}},
				Jobs:            []foundJob{{jobs.ExampleJobID.String(), "build and test", "acme/web", events.JobStateRunning}},
			},
		}),
	}}
}

type searchQuery struct {
	Q     string `query:"q" required:"true" minLength:"1" maxLength:"200" doc:"The text to search for." example:"zoe"`
	Limit int    `query:"limit" minimum:"1" maximum:"20" default:"5" doc:"Maximum number of results of each kind."`
}

type searchAnswer struct{ Body searchFound }

type searchFound struct {
	Members         []people.Member `json:"members" nullable:"false"`
	Runs            []runs.Run      `json:"runs" nullable:"false"`
	ServiceAccounts []foundAccount  `json:"serviceAccounts" nullable:"false"`
	Runners         []foundRunner   `json:"runners" nullable:"false"`
	Jobs            []foundJob      `json:"jobs" nullable:"false"`
}

type foundAccount struct {
	ID     string `json:"id" format:"uuid"`
	Name   string `json:"name" example:"ci-bot"`
	Status string `json:"status" enum:"active,revoked"`
}

type foundRunner struct {
	ID    string             `json:"id" format:"uuid"`
	Name  string             `json:"name" example:"builder-1"`
	State events.RunnerState `json:"state" enum:"enrolled,online,offline,draining,suspended,revoked,retired"`
}

type foundJob struct {
	ID       string          `json:"id" format:"uuid"`
	Name     string          `json:"name" example:"build and test"`
	RepoName string          `json:"repoName" example:"acme/web" doc:"Empty for a job without a repository."`
	State    events.JobState `json:"state" enum:"queued,leased,running,cancelling,succeeded,failed,cancelled,timed_out,lost,expired"`
}

func (s *Server) search(ctx context.Context, in *searchQuery) (*searchAnswer, error) {
	c, q, found := door.CallerOf(ctx), strings.TrimSpace(in.Q), searchFound{
		Members: []people.Member{}, Runs: []runs.Run{}, ServiceAccounts: []foundAccount{}, Runners: []foundRunner{}, Jobs: []foundJob{},
	}
	if q == "" {
		return &searchAnswer{found}, nil
	}
	members, _, _, err := s.Primary.Members.Page(ctx, projections.MemberQuery{Workspace: c.Workspace, Q: q, Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		found.Members = append(found.Members, people.NewMember(m, c.Person.User))
	}
	if text := strings.TrimPrefix(q, "#"); text != "" {
		list, err := s.Lists.Runs.Search(ctx, c.Workspace, text, in.Limit)
		if err != nil {
			return nil, err
		}
		show := runs.NewRunAt(s.Now())
		for _, r := range list {
			found.Runs = append(found.Runs, show(r))
		}
	}
	if c.May(door.MayDo(events.ManageServiceAccounts)) == nil {
		accounts, err := s.Primary.ServiceAccounts.SearchByName(ctx, c.Workspace, q, in.Limit)
		if err != nil {
			return nil, err
		}
		for _, a := range accounts {
			found.ServiceAccounts = append(found.ServiceAccounts, foundAccount{a.ID.String(), a.Name, a.State})
		}
	}
	if s.BuildFarm.On {
		runners, err := s.Primary.Runners.SearchByName(ctx, c.Workspace, q, in.Limit, s.Now())
		if err != nil {
			return nil, err
		}
		for _, r := range runners {
			found.Runners = append(found.Runners, foundRunner{r.ID.String(), r.Name, events.RunnerState(r.State)})
		}
		if found.Jobs, err = s.searchJobs(ctx, c.Workspace, q, in.Limit); err != nil {
			return nil, err
		}
	}
	return &searchAnswer{found}, nil
}

// searchJobs finds up to limit jobs, active ones first.
func (s *Server) searchJobs(ctx context.Context, workspace events.ID, q string, limit int) ([]foundJob, error) {
	found := []foundJob{}
	for _, active := range []bool{true, false} {
		if len(found) == limit {
			break
		}
		list, _, err := s.Primary.Jobs.Page(ctx, farmviews.JobQuery{Workspace: workspace, Active: active, Q: q, Limit: limit - len(found)})
		if err != nil {
			return nil, err
		}
		for _, j := range list {
			found = append(found, foundJob{j.ID.String(), j.Name, j.RepoName, j.State})
		}
	}
	return found, nil
}
