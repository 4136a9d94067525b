package jobs

import (
	"net/url"

	"svc/ui/client"
	"svc/ui/page"
)

const (
	maxEarlier      = 5  // shown
	earlierSearched = 20 // read, some of which have not run
)

// earlierPath returns the address of the jobs like one.
func earlierPath(v *page.Visit, j client.JobDetail) string {
	q := url.Values{"name": {j.Name}}
	if j.Repo != nil {
		q.Set("repo", j.Repo.Id)
	}
	return v.Path("farm", "jobs", j.Id, "earlier") + "?" + q.Encode()
}

// showEarlier shows how long the last jobs of the same name and repository took.
func showEarlier(v *page.Visit) (page.Page, error) {
	name, repo := v.Query("name"), v.Query("repo")
	found, err := client.Decode[client.ListFarmJob](v.API.ListJobs(v.Context(), &client.ListJobsParams{
		Status: client.Optional(client.ListJobsParamsStatusTerminal), Name: client.Optional(name), Repo: client.Optional(repo),
		Limit: client.Optional(int64(earlierSearched)),
	}))
	return page.Page{Part: earlier(v, likeJob(found.Items, v.PathValue("id"), name, repo))}, err
}

// likeJob returns the jobs of a list that have run and have a name and a repository, "" for none.
func likeJob(list []client.FarmJob, without, name, repo string) (like []client.FarmJob) {
	for _, j := range list {
		of := ""
		if j.Repo != nil {
			of = j.Repo.Id
		}
		if j.Id != without && j.Name == name && of == repo && j.StartedAt != nil && j.FinishedAt != nil && len(like) < maxEarlier {
			like = append(like, j)
		}
	}
	return like
}
