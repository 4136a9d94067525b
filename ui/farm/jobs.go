package farm

import (
	"context"
	"net/url"
	"slices"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

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
	switch j.State {
	case "succeeded":
		return "circle-check"
	case "failed", "lost":
		return "circle-x"
	case "timed_out", "expired":
		return "hourglass"
	case "cancelled":
		return "ban"
	}
	return "clock"
}

func isActive(state string) bool {
	switch state {
	case "queued", "leased", "running", "cancelling":
		return true
	}
	return false
}

// stateTone returns the colour of a job's state.
func stateTone(state string) kit.Tone {
	switch state {
	case "succeeded":
		return kit.Good
	case "failed", "timed_out", "lost", "expired":
		return kit.Bad
	case "cancelling":
		return kit.Warn
	case "running", "leased":
		return kit.Accent
	}
	return kit.Plain
}
