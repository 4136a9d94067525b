// Package backlog is the page of a repository's open issues, from which runs are queued.
package backlog

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// maxIssueForm is the maximal size in bytes of a form with an issue's text of 20,000 UTF-16 code units, as the form
// counts them. Form encoding turns one into nine bytes at most.
const maxIssueForm = 256 << 10

// Routes returns the routes of the page.
func Routes() []page.Route {
	const path = "/w/{workspace}/backlog"
	return []page.Route{
		{Method: http.MethodGet, Path: path, Show: show},
		{Method: http.MethodPost, Path: path, Do: queue, Show: show, Back: "backlog", Body: maxIssueForm},
		{Method: http.MethodGet, Path: path + "/runs", Show: showRuns},
	}
}

const (
	perPage = 25  // issues
	maxRuns = 100 // of a repository, active and ended, that issues are matched with
)

// pageData is the content of the page.
type pageData struct {
	Repos  []client.RepoRuns // those that are connected
	Repo   client.RepoDetail // the chosen one; zero if there is none
	Issues client.ListBacklogIssue
	Runs   runsOf
	Away   *client.Refused // why there are no issues, or nil
	Form   issueForm
}

// show lists the issues of the repository in the query, or else of the first one that is connected.
func show(v *page.Visit) (page.Page, error) {
	list, err := client.Decode[client.RepoList](v.API.ListRepos(v.Context(), nil))
	if err != nil {
		return page.Page{}, err
	}
	var d pageData
	for _, r := range list.Items {
		if r.Status == client.RepoRunsStatusActive || r.Status == client.RepoRunsStatusPaused {
			d.Repos = append(d.Repos, r)
		}
	}
	d.Form, _ = v.Result.(issueForm)
	shown := page.Page{Title: "Backlog", NavEntry: "backlog"}
	if len(d.Repos) > 0 {
		chosen := d.Repos[0].Id
		if slices.ContainsFunc(d.Repos, func(r client.RepoRuns) bool { return r.Id == v.Query("repo") }) {
			chosen = v.Query("repo")
		}
		err = d.load(v, chosen)
	}
	shown.Main = view(v, d)
	return shown, err
}

// load reads a repository with its issues. That its code host or the engine is away is shown in their place.
func (d *pageData) load(v *page.Visit, repo string) error {
	err := v.Load(func(ctx context.Context) (err error) {
		d.Repo, err = client.Decode[client.RepoDetail](v.API.GetRepo(ctx, repo, nil))
		return err
	}, func(ctx context.Context) (err error) {
		d.Runs, err = loadRuns(ctx, v, repo)
		return err
	}, func(ctx context.Context) (err error) {
		d.Issues, err = client.Decode[client.ListBacklogIssue](v.API.ListIssues(ctx, &client.ListIssuesParams{
			Repo: repo, Label: client.Optional(v.Query("label")), Q: client.Optional(v.Query("q")),
			Limit: client.Optional(int64(perPage)), Offset: client.Optional(v.QueryNumber("offset") / perPage * perPage),
		}))
		if r := client.AsRefused(err); r != nil && isAway(r) {
			d.Away, err = r, nil
		}
		return err
	})
	if d.Repo.Kind == "git" {
		d.Issues.Items = d.Runs.written()
	}
	return err
}

// isAway reports whether only the issues cannot be shown.
func isAway(r *client.Refused) bool {
	return slices.Contains([]string{"engine_unavailable", "code_host_unavailable", "code_host_refused", "repo_credential_refused"}, r.Code)
}

// runsOf are the runs of a repository, the newest of each issue.
type runsOf struct {
	byIssue map[int64]client.Run
	active  int64 // how many have not ended
	waiting int64 // how many of these wait for a place
}

// loadRuns reads the runs of a repository without asking its code host.
func loadRuns(ctx context.Context, v *page.Visit, repo string) (runsOf, error) {
	out := runsOf{byIssue: map[int64]client.Run{}}
	for _, status := range []client.ListRunsParamsStatus{client.ListRunsParamsStatusTerminal, client.ListRunsParamsStatusActive} {
		list, err := client.Decode[client.RunList](v.API.ListRuns(ctx, &client.ListRunsParams{
			Status: status, Repo: &repo, Limit: client.Optional(int64(maxRuns)),
		}))
		if err != nil {
			return out, err
		}
		for _, r := range list.Items {
			if other, ok := out.byIssue[r.IssueNumber]; !ok || other.CreatedAt.Before(r.CreatedAt) {
				out.byIssue[r.IssueNumber] = r
			}
			if status == client.ListRunsParamsStatusActive && r.Wait != nil && r.Wait.Code == "slot" {
				out.waiting++
			}
		}
		out.active = list.Total
	}
	return out, nil
}

// written returns the newest issues that have or had a run.
func (r runsOf) written() (list []client.BacklogIssue) {
	for _, run := range r.byIssue {
		list = append(list, client.BacklogIssue{IssueNumber: run.IssueNumber, Title: run.IssueTitle, CreatedAt: run.CreatedAt, RunId: &run.Id})
	}
	slices.SortFunc(list, func(a, b client.BacklogIssue) int { return cmp.Compare(b.IssueNumber, a.IssueNumber) })
	return list[:min(len(list), perPage)]
}

// showRuns shows what the runs of the issues in the query do. The page asks for it when runs change, so that it does
// not ask the code host each time.
func showRuns(v *page.Visit) (page.Page, error) {
	var d pageData
	repo := v.Query("repo")
	err := v.Load(func(ctx context.Context) (err error) {
		d.Repo, err = client.Decode[client.RepoDetail](v.API.GetRepo(ctx, repo, nil))
		return err
	}, func(ctx context.Context) (err error) {
		d.Runs, err = loadRuns(ctx, v, repo)
		return err
	})
	for text := range strings.SplitSeq(v.Query("issues"), ",") {
		if n, bad := strconv.ParseInt(text, 10, 64); bad == nil && len(d.Issues.Items) < perPage {
			d.Issues.Items = append(d.Issues.Items, client.BacklogIssue{IssueNumber: n})
		}
	}
	return page.Page{Part: runsPart(v, d)}, err
}

// runsPath returns the address of showRuns for the issues of the page.
func (d pageData) runsPath(v *page.Visit) string {
	var numbers []string
	for _, i := range d.Issues.Items {
		numbers = append(numbers, kit.Digits(i.IssueNumber))
	}
	return v.Path("backlog", "runs") + "?repo=" + d.Repo.Id + "&issues=" + strings.Join(numbers, ",")
}

// runOf returns the newest run of an issue, or nil.
func (d pageData) runOf(issue int64) *client.Run {
	if r, ok := d.Runs.byIssue[issue]; ok {
		return &r
	}
	return nil
}

func isActive(r *client.Run) bool {
	return r != nil && !slices.Contains([]client.RunStatus{
		client.RunStatusMerged, client.RunStatusFailed, client.RunStatusCancelled, client.RunStatusRejected,
	}, r.Status)
}

// runText says in a few words what a run does.
func runText(r client.Run) string {
	switch {
	case !isActive(&r):
		return kit.Words(string(r.Status))
	case r.WaitsFor != nil:
		return "Waits for a person"
	case r.Wait != nil && r.Wait.Code == "slot":
		return "Waits for a place"
	case r.Wait != nil && r.StageLabel != "":
		return string(r.StageLabel) + ", waits"
	}
	return string(r.StageLabel)
}

// prospect says what happens to an issue that is queued now.
func (d pageData) prospect() string {
	most := d.Repo.Settings.MaxActive
	used := min(d.Runs.active-d.Runs.waiting, most)
	switch {
	case d.Repo.Pause != nil:
		return "Nothing begins while the repository is paused."
	case used < most && d.Runs.waiting == 0:
		return fmt.Sprintf("A queued issue begins at once: %d of %d places are used.", used, most)
	case d.Runs.waiting > 0:
		return fmt.Sprintf("A queued issue waits for a place: %d of %d are used, and %s before it.",
			used, most, kit.Count(d.Runs.waiting, "waits", "wait"))
	}
	return fmt.Sprintf("A queued issue waits for a place: %d of %d are used.", used, most)
}

// blocked returns why the person cannot queue issues, "" if they can.
func (d pageData) blocked(v *page.Visit) string {
	switch {
	case !v.MayQueue():
		return "Only an Owner or Maintainer can queue issues."
	case d.Repo.Pause != nil:
		return "The repository is paused."
	}
	return ""
}

// labels returns the labels that the filter offers: those of the issues that are shown, and the chosen one.
func (d pageData) labels(v *page.Visit) []string {
	var list []string
	if chosen := v.Query("label"); chosen != "" {
		list = append(list, chosen)
	}
	for _, i := range d.Issues.Items {
		list = append(list, i.Labels...)
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Compare(strings.ToLower(a), strings.ToLower(b)) })
	return slices.Compact(list)
}

// issueForm is the content of the form that writes an issue of a repository without issues at its host.
type issueForm struct {
	title, body string
	refused     string            // the reason, "" if a field has it, or there is none
	fields      map[string]string // what is wrong, by field
}

// queue queues issues: those with the posted numbers, in their order, or a new one.
func queue(v *page.Visit) (page.Notice, error) {
	repo, numbers := v.PostFormValue("repo"), v.PostForm["number"]
	if len(numbers) == 0 && v.PostForm.Has("title") {
		return write(v, repo)
	}
	var queued []client.Run
	var refused []string
	slices.Sort(numbers)
	for _, text := range slices.Compact(numbers) {
		run, err := queueNumber(v, repo, text)
		r := client.AsRefused(err)
		switch {
		case err == nil:
			queued = append(queued, run)
		case r == nil || r.Status == http.StatusUnauthorized:
			return page.Notice{}, err
		default:
			refused = append(refused, "#"+text+": "+page.Sentence(r))
		}
	}
	return outcome(v, queued, refused)
}

func queueNumber(v *page.Visit, repo, text string) (client.Run, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return client.Run{}, &client.Refused{Status: http.StatusConflict, Message: "An issue number has only digits."}
	}
	return client.Decode[client.Run](v.API.QueueIssue(v.Context(), &client.QueueIssueParams{IdempotencyKey: v.IdempotencyKey(text)},
		client.NewIssueBody{RepoId: repo, IssueNumber: &n}))
}

// outcome tells how many issues were queued, with a link to their runs, and why others were not.
func outcome(v *page.Visit, queued []client.Run, refused []string) (page.Notice, error) {
	n := page.Notice{Text: kit.Count(int64(len(queued)), "issue is", "issues are") + " queued.", Href: v.Path("runs"), Label: "Open the runs"}
	switch {
	case len(queued) == 0 && len(refused) == 0:
		return page.Notice{}, &client.Refused{Status: http.StatusConflict, Message: "Select the issues to queue."}
	case len(queued) == 0:
		return page.Notice{}, &client.Refused{Status: http.StatusConflict, Message: strings.Join(refused, " ")}
	case len(refused) > 0:
		n.Text, n.Bad = n.Text+" "+strings.Join(refused, " "), true
	case len(queued) == 1:
		n.Href, n.Label = v.Path("runs", queued[0].Id), "Open its run"
	}
	return n, nil
}

// write queues a new issue. After a refusal the form keeps its values.
func write(v *page.Visit, repo string) (page.Notice, error) {
	f := issueForm{title: strings.TrimSpace(v.PostFormValue("title")), body: strings.TrimSpace(v.PostFormValue("body"))}
	run, err := client.Decode[client.Run](v.API.QueueIssue(v.Context(), &client.QueueIssueParams{IdempotencyKey: v.IdempotencyKey()},
		client.NewIssueBody{RepoId: repo, Title: client.Optional(f.title), Body: client.Optional(f.body)}))
	if r := client.AsRefused(err); r != nil {
		f.fields = r.FieldErrors("title", "body")
		if len(f.fields) == 0 {
			f.refused = page.Sentence(r)
		}
		v.Result = f
		err = page.InlineError{Err: err}
	}
	return page.Notice{Text: "Issue queued.", Href: v.Path("runs", run.Id), Label: "Open its run"}, err
}
