// Package search finds members, runs, jobs, service accounts and runners: for the palette that ⌘K opens, and as a page.
package search

import (
	"net/http"
	"net/url"
	"strconv"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// Routes returns the routes of the search.
func Routes() []page.Route {
	return []page.Route{{Method: http.MethodGet, Path: "/w/{workspace}/search", Show: show}}
}

const (
	perKind    = 5
	maxLetters = 200 // the service's maximum
)

// show returns what matches a search, nothing for an empty one: options for the palette, and otherwise a page.
func show(v *page.Visit) (page.Page, error) {
	q := []rune(v.Query("q"))
	q = q[:min(len(q), maxLetters)]
	var found client.SearchFound
	var err error
	if len(q) > 0 {
		found, err = client.Decode[client.SearchFound](v.API.Search(v.Context(), &client.SearchParams{
			Q: string(q), Limit: client.Optional(int64(perKind)),
		}))
	}
	list := groups(v, found)
	if v.FromHTMX() {
		return page.Page{Part: options(list)}, err
	}
	return page.Page{Title: "Search", Main: view(v, string(q), list)}, err
}

// A group has what was found of one kind.
type group struct {
	title, icon string
	list        []result
}

type result struct{ id, href, name, about, state string }

// groups returns the kinds of which something was found.
func groups(v *page.Visit, found client.SearchFound) (list []group) {
	people, runs := group{title: "Members", icon: "user"}, group{title: "Runs", icon: "git-pull-request-arrow"}
	jobs, runners := group{title: "Jobs", icon: "hammer"}, group{title: "Runners", icon: "server"}
	accounts := group{title: "Service accounts", icon: "key-round"}
	for _, m := range found.Members {
		to := v.Path("members") + "?q=" + url.QueryEscape(m.Email)
		people.list = append(people.list, result{m.Id, to, kit.NameOrEmail(m.Name, m.Email), m.Email, kit.Role(string(m.DisplayRole))})
	}
	for _, r := range found.Runs {
		runs.list = append(runs.list, result{r.Id, v.Path("runs", r.Id), kit.Title(r.IssueTitle), issue(r), kit.Words(string(r.Status))})
	}
	for _, j := range found.Jobs {
		jobs.list = append(jobs.list, result{j.Id, v.Path("farm", "jobs", j.Id), j.Name, j.RepoName, kit.Words(string(j.State))})
	}
	for _, a := range found.ServiceAccounts {
		accounts.list = append(accounts.list, result{a.Id, v.Path("service-accounts") + "#account-" + a.Id, a.Name, "", string(a.Status)})
	}
	for _, r := range found.Runners {
		runners.list = append(runners.list, result{r.Id, v.Path("farm") + "#runner-" + r.Id, r.Name, "", string(r.State)})
	}
	for _, g := range []group{people, runs, jobs, accounts, runners} {
		if len(g.list) > 0 {
			list = append(list, g)
		}
	}
	return list
}

func issue(r client.Run) string {
	return r.Repo.Name + " #" + strconv.FormatInt(r.IssueNumber, 10) + pullRequest(r)
}

// pullRequest is the number of a run's pull request, which the search finds too, "" if there is none.
func pullRequest(r client.Run) string {
	if r.PrNumber == nil {
		return ""
	}
	return ", PR #" + strconv.FormatInt(*r.PrNumber, 10)
}
