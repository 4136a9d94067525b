package rest

import (
	"context"

	"svc/projections"
)

func (s *Server) repoRoutes() section {
	return section{tag: "Runs", routes: []route{
		query(s.listRepos, route{
			method: "GET", path: "/repos", guard: anyMemberOrReadToken, views: []string{"runs", "run_counts"},
			id: "listRepos", summary: "List repositories",
			text: "Lists the repositories that runs of the workspace have worked on, by name, at most 1,000, with their numbers of runs. Use " +
				"an id as the `repo` filter of lists and insights.",
			answerExample: repoList{[]repoRuns{newRepoRuns(projections.RepoRuns{
				ID: exampleRepo.ID, Name: exampleRepo.Name, Active: 1, Terminal: 14,
			})}},
		}),
	}}
}

type reposAnswer struct{ Body repoList }

type repoList struct {
	Items []repoRuns `json:"items" nullable:"false"`
}

type repoRuns struct {
	ID       string `json:"id" format:"uuid"`
	Name     string `json:"name" doc:"The name in its newest issue." example:"acme/web"`
	Active   int    `json:"active" doc:"Runs that have not ended."`
	Terminal int    `json:"terminal" doc:"Runs that have ended."`
}

func (s *Server) listRepos(ctx context.Context, _ *struct{}) (*reposAnswer, error) {
	found, err := s.Lists.Runs.Repos(ctx, callerOf(ctx).workspace)
	if err != nil {
		return nil, err
	}
	out := &reposAnswer{repoList{make([]repoRuns, 0, len(found))}}
	for _, r := range found {
		out.Body.Items = append(out.Body.Items, newRepoRuns(r))
	}
	return out, nil
}

func newRepoRuns(r projections.RepoRuns) repoRuns {
	return repoRuns{r.ID.String(), r.Name, r.Active, r.Terminal}
}
