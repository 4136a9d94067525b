// Package repos contains the pages of repositories: their list, the form that connects one, and
// one page each.
package repos

import (
	"context"
	"net/http"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// maxSettingsForm is the maximal size in bytes of a form with settings. Form encoding turns a byte into at most three.
const maxSettingsForm = 1 << 20

// Routes returns the routes of the pages.
func Routes() []page.Route {
	const path = "/w/{workspace}/settings/repositories"
	const one = path + "/{id}"
	const back = "settings/repositories/{id}"
	return []page.Route{
		{Method: http.MethodGet, Path: path, Show: show},
		{Method: http.MethodGet, Path: path + "/new", Show: showConnect},
		{Method: http.MethodPost, Path: path + "/new", Do: connect, Show: showConnect, Back: "settings/repositories/new"},
		{Method: http.MethodGet, Path: one, Show: showRepo},
		{Method: http.MethodPost, Path: one, Do: changeSettings, Show: showRepo, Back: back, Body: maxSettingsForm},
		{Method: http.MethodPost, Path: one + "/check", Do: check, Show: showRepo, Back: back},
		{Method: http.MethodPost, Path: one + "/credential", Do: replaceCredential, Show: showRepo, Back: back, Ask: askRemoveCredential},
		{Method: http.MethodPost, Path: one + "/hook", Do: setHook, Show: showRepo, ShowsSecret: true, Back: back},
		{Method: http.MethodPost, Path: one + "/pause", Do: pause, Show: showRepo, Back: back},
		{Method: http.MethodPost, Path: one + "/resume", Do: resume, Show: showRepo, Back: back},
		{Method: http.MethodPost, Path: one + "/disconnect", Do: disconnect, Show: showRepo, Back: back, Ask: askDisconnect},
	}
}

// Limits of what the list loads besides the repositories.
const (
	maxLacking = 10  // repositories whose first finding is shown
	maxRuns    = 100 // active runs that are told apart; the API's maximum
)

// listData is the content of the list.
type listData struct {
	Repos   []client.RepoRuns
	Lacking map[string]string // by repository: the first thing that is lacking
	Waiting map[string]int64  // by repository: active runs that wait; nil if there are too many runs
}

func show(v *page.Visit) (page.Page, error) {
	d := listData{Lacking: map[string]string{}}
	err := v.Load(func(ctx context.Context) error {
		list, err := client.Decode[client.RepoList](v.API.ListRepos(ctx, nil))
		d.Repos = list.Items
		return err
	}, func(ctx context.Context) error {
		list, err := client.Decode[client.RunList](v.API.ListRuns(ctx, &client.ListRunsParams{
			Status: client.ListRunsParamsStatusActive, Limit: client.Optional(int64(maxRuns)),
		}))
		if err == nil && list.Total <= maxRuns {
			d.Waiting = countWaiting(list.Items)
		}
		return err
	})
	if err == nil {
		err = d.loadFindings(v)
	}
	return page.Page{Title: "Repositories", NavEntry: "settings", Main: listView(v, d)}, err
}

// countWaiting counts by repository the runs that wait, for a person or something else.
func countWaiting(runs []client.Run) map[string]int64 {
	waiting := map[string]int64{}
	for _, r := range runs {
		if r.Wait != nil || r.WaitsFor != nil {
			waiting[r.Repo.Id]++
		}
	}
	return waiting
}

// loadFindings reads what is lacking at the first repositories of which the last check said so.
func (d *listData) loadFindings(v *page.Visit) error {
	var loads []func(context.Context) error
	var found [maxLacking]string
	var ids []string
	for _, r := range d.Repos {
		if i := len(ids); i < maxLacking && r.Ok != nil && !*r.Ok && r.Status == client.RepoRunsStatusActive {
			ids = append(ids, r.Id)
			loads = append(loads, func(ctx context.Context) error {
				one, err := client.Decode[client.RepoDetail](v.API.GetRepo(ctx, r.Id, nil))
				found[i] = firstLacking(one.Check)
				return err
			})
		}
	}
	err := v.Load(loads...)
	for i, id := range ids {
		d.Lacking[id] = found[i]
	}
	return err
}

func firstLacking(c *client.Checkup) string {
	if c == nil {
		return ""
	}
	for _, one := range c.Checks {
		if one.Status == "lacking" {
			return one.Text
		}
	}
	return ""
}

// A health is the state of a repository in one word, with a sentence.
type health struct {
	tone           kit.Tone
	icon           string
	word, sentence string
}

// healthOf describes a repository. lacking is the first thing that the last check found lacking, or "".
func healthOf(r client.RepoRuns, lacking string) health {
	switch {
	case r.Status == client.RepoRunsStatusPaused && r.PauseReason != nil:
		return health{kit.Warn, "pause", "Paused", *r.PauseReason}
	case r.Status == client.RepoRunsStatusPaused:
		return health{kit.Warn, "pause", "Paused", "No run begins until somebody resumes it."}
	case r.Status == client.RepoRunsStatusDisconnected:
		return health{kit.Plain, "ban", "Disconnected", "Its runs stay listed. It can be connected again."}
	case r.Status == client.RepoRunsStatusUnconnected:
		return health{kit.Plain, "circle-dashed", "Unconnected", "Only earlier runs name it."}
	case r.Ok != nil && !*r.Ok && lacking != "":
		return health{kit.Bad, "circle-x", "Lacking", lacking}
	case r.Ok != nil && !*r.Ok:
		return health{kit.Bad, "circle-x", "Lacking", "Runs cannot work on it. Its page says why."}
	}
	return health{kit.Good, "circle-check", "Healthy", "Everything that runs need works."}
}

// connected returns the repositories that runs may work on, now or once they are resumed.
func (d listData) connected() (list []client.RepoRuns) {
	for _, r := range d.Repos {
		if isConnected(r) {
			list = append(list, r)
		}
	}
	return list
}

// past returns the other repositories, of which only runs are left.
func (d listData) past() (list []client.RepoRuns) {
	for _, r := range d.Repos {
		if !isConnected(r) {
			list = append(list, r)
		}
	}
	return list
}

func isConnected(r client.RepoRuns) bool {
	return r.Status == client.RepoRunsStatusActive || r.Status == client.RepoRunsStatusPaused
}

// hostIcon returns the mark of a code host.
func hostIcon(kind *client.RepoRunsKind) string {
	switch {
	case kind == nil:
		return "book-marked"
	case *kind == client.RepoRunsKindGithub:
		return "github"
	}
	return "git-branch"
}

// kindName returns the name of a kind of code host.
func kindName(kind string) string {
	return map[string]string{"github": "GitHub", "gitea": "Gitea", "git": "Git alone"}[kind]
}

const managersOnly = "Only an Owner or Maintainer can connect and change repositories."

// repoPath returns the address of a repository's page, or of something below it.
func repoPath(v *page.Visit, id string, more ...string) string {
	return v.Path(append([]string{"settings", "repositories", id}, more...)...)
}
