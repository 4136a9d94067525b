// Package jobs contains the pages of the build farm's jobs: all of them, and one with its log and artifacts.
package jobs

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// Routes returns the routes of the pages.
func Routes() []page.Route {
	const list, job = "/w/{workspace}/farm/jobs", "/w/{workspace}/farm/jobs/{id}"
	return []page.Route{
		{Method: http.MethodGet, Path: list, Show: showJobs},
		{Method: http.MethodGet, Path: job, Show: showJob},
		{Method: http.MethodGet, Path: job + "/lines", Show: lines},
		{Method: http.MethodGet, Path: job + "/earlier", Show: showEarlier},
		{Method: http.MethodGet, Path: job + "/log.txt", Send: rawLog},
		{Method: http.MethodGet, Path: job + "/artifacts/{artifact}", Send: download},
		{Method: http.MethodPost, Path: job + "/retry", Do: retry, Show: showJob, Back: "farm/jobs/{id}"},
		{Method: http.MethodPost, Path: job + "/cancel", Do: cancel, Show: showJob, Back: "farm/jobs/{id}", Ask: askCancel},
	}
}

const jobsPerPage = 50

// jobsData is the content of a list of jobs.
type jobsData struct {
	List     client.ListFarmJob
	Finished bool
	State    string        // filter by state; "" for all
	Runner   client.Runner // filter by runner; zero for all
	Embedded bool          // the queue on the page of runners, without filters
}

func showJobs(v *page.Visit) (page.Page, error) {
	j := jobsData{Finished: v.Query("status") == "finished", Embedded: v.Query("in") == "farm"}
	params := &client.ListJobsParams{
		Status: client.Optional(client.ListJobsParamsStatusActive), Limit: client.Optional(int64(jobsPerPage)), Q: client.Optional(v.Query("q")),
	}
	if j.Finished {
		params.Status = client.Optional(client.ListJobsParamsStatusTerminal)
	}
	if state := v.Query("state"); slices.Contains(j.states(), state) {
		j.State, params.State = state, new(client.ListJobsParamsState(state))
	}
	params.Offset = client.Optional(v.QueryNumber("offset"))
	if j.Embedded {
		params.State = new(client.ListJobsParamsStateQueued)
	}
	err := v.Load(func(ctx context.Context) (err error) {
		if id := v.Query("runner"); id != "" && !j.Embedded {
			j.Runner, err = client.Decode[client.Runner](v.API.GetRunner(ctx, id, nil))
		}
		return err
	}, func(ctx context.Context) (err error) {
		if !j.Embedded {
			params.Runner = client.Optional(v.Query("runner"))
		}
		j.List, err = client.Decode[client.ListFarmJob](v.API.ListJobs(ctx, params))
		return err
	})
	return page.Page{Title: "Jobs", NavEntry: "farm", Main: jobsView(v, j)}, err
}

// jobsPath returns the address of the jobs with a status, "" for active, of a runner, "" for any.
func jobsPath(v *page.Visit, status, runner string) string {
	q := url.Values{}
	if status != "" {
		q.Set("status", status)
	}
	if runner != "" {
		q.Set("runner", runner)
	}
	if len(q) == 0 {
		return v.Path("farm", "jobs")
	}
	return v.Path("farm", "jobs") + "?" + q.Encode()
}

// states returns the states that jobs of the list can have.
func (j jobsData) states() []string {
	if j.Finished {
		return []string{"succeeded", "failed", "timed_out", "cancelled", "lost", "expired"}
	}
	return []string{"queued", "leased", "running", "cancelling"}
}

// lacksRunner reports whether a job waits because no online runner matches.
func lacksRunner(j client.FarmJob) bool {
	return j.WaitingReason != nil && *j.WaitingReason == "no_matching_runner"
}

// jobIcon returns the icon of a job that is not running.
func jobIcon(j client.FarmJob) string {
	if j.WaitingReason != nil {
		switch *j.WaitingReason {
		case "concurrency_limit":
			return "git-branch"
		case "no_matching_runner":
			return "triangle-alert"
		case "not_before":
			return "hourglass"
		case "runner_draining":
			return "pause"
		}
	}
	return kit.JobIcon(string(j.State))
}

func isActive(state string) bool {
	switch state {
	case "queued", "leased", "running", "cancelling":
		return true
	}
	return false
}

// waitReasonText describes why a job waits.
func waitReasonText(reason string) string {
	switch reason {
	case "all_busy":
		return "All matching runners are busy."
	case "concurrency_limit":
		return "Other jobs with its concurrency key are running."
	case "no_matching_runner":
		return "No online runner has the required sandbox and labels."
	case "not_before":
		return "Its next attempt starts shortly."
	case "runner_resting":
		return "Matching runners recently declined jobs and are resting."
	case "runner_draining":
		return "Matching runners are draining."
	}
	return "Next in line."
}
