package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// jobData is the content of the page of a job.
type jobData struct {
	Job       client.JobDetail
	Artifacts client.ListArtifact
	Removed   string // message that the artifacts were removed; "" if they were not
	Attempt   int64  // the attempt whose steps and log are shown
	LogBytes  int64
	LogCut    bool    // the log reached a limit; the rest was not stored
	Log       logPart // the end, or the part around a match or a linked line; the page loads it
	Search    logSearch
}

func showJob(v *page.Visit) (page.Page, error) {
	var d jobData
	id := v.PathValue("id")
	requested := v.QueryNumber("attempt") // 0 for the last one
	err := v.Load(func(ctx context.Context) (err error) {
		d.Job, err = client.Decode[client.JobDetail](v.API.GetJob(ctx, id, nil))
		return err
	}, func(ctx context.Context) (err error) {
		if v.Query("find") != "" {
			d.Search, err = searchLog(ctx, v, requested)
		}
		return err
	}, func(ctx context.Context) (err error) {
		params := &client.ListArtifactsParams{Limit: client.Optional(int64(100))}
		d.Artifacts, err = client.Decode[client.ListArtifact](v.API.ListArtifacts(ctx, id, params))
		if refused, ok := errors.AsType[*client.Refused](err); ok && refused.Code == "artifacts_removed" {
			d.Removed, err = refused.Message, nil
		}
		return err
	})
	if err != nil {
		return page.Page{}, err
	}
	d.Attempt, d.LogBytes, d.LogCut = d.Job.Attempt, d.Job.Log.Bytes, d.Job.Log.Truncated
	for _, a := range d.Job.Attempts {
		if a.Attempt == requested {
			d.Attempt, d.LogBytes = requested, a.Log.Bytes
			d.LogCut = a.Log.Truncated || requested == d.Job.Attempt && d.Job.Log.Truncated
		}
	}
	d.Log = logPart{From: max(0, d.LogBytes-partBytes), SkipFirst: d.LogBytes > partBytes, End: true, Attempt: d.Attempt}
	switch at := v.Query("at"); {
	case d.Search.Current > 0:
		d.Log = d.Search.part(d.Attempt)
	case at != "" && page.ParseNumber(at) < d.LogBytes:
		d.Log = partAround(page.ParseNumber(at), d.Attempt)
	}
	return page.Page{Title: d.Job.Name, NavEntry: "farm", Main: jobView(v, d)}, nil
}

func cancel(v *page.Visit) (page.Notice, error) {
	body := client.JobRequestBody{
		Action: client.Optional(client.Cancel), JobId: client.Optional(v.PathValue("id")),
		Reason: client.Optional(strings.TrimSpace(v.PostFormValue("reason"))),
	}
	if text := v.PostFormValue("grace"); text != "" {
		body.GraceSeconds = new(page.ParseNumber(text))
	}
	err := client.CheckResponse(v.API.SubmitJob(v.Context(), nil, body))
	if body.GraceSeconds != nil && *body.GraceSeconds == 0 {
		return page.Notice{Text: "The job is killed."}, err
	}
	return page.Notice{Text: "The job is asked to end."}, err
}

// retry submits the job once more and leads to the new one.
func retry(v *page.Visit) (page.Notice, error) {
	answer, err := client.Decode[client.JobAnswerBody](v.API.RetryJob(v.Context(), v.PathValue("id"), nil))
	return page.Notice{Text: "The job is submitted once more.", To: v.Path("farm", "jobs", answer.Job.Id)}, err
}

func (d jobData) cancelQuestion() page.Question {
	return page.Question{
		Title: "Cancel the job " + d.Job.Name + "?",
		Yes:   "Cancel the job", No: "Keep it running",
		Text: "The steps get TERM and may clean up. What still runs after the time to end is killed. Artifacts that are kept always stay.",
	}
}

func askCancel(v *page.Visit) (page.Question, error) {
	job, err := client.Decode[client.JobDetail](v.API.GetJob(v.Context(), v.PathValue("id"), nil))
	if job.State == client.JobDetailStateCancelling { // the cancel was confirmed already
		return page.Question{}, err
	}
	return jobData{Job: job}.cancelQuestion(), err
}

// duration returns the time from from to to, or to now if to is nil; ok is false if from is nil.
func duration(from, to *time.Time, now time.Time) (d time.Duration, ok bool) {
	switch {
	case from == nil:
		return 0, false
	case to == nil:
		return max(now.Sub(*from), 0), true
	}
	return to.Sub(*from), true
}

// steps returns the steps of the shown attempt, including those that have not started.
func (d jobData) steps() []client.JobStep {
	for _, a := range d.Job.Attempts {
		if a.Attempt == d.Attempt && d.Attempt != d.Job.Attempt {
			return a.Steps
		}
	}
	return d.Job.Steps
}

// defaultGrace returns how many seconds the steps have to end if a cancel does not say.
func (d jobData) defaultGrace() int64 {
	if s := d.Job.Spec.Timeouts.CancelGraceSeconds; s != nil {
		return *s
	}
	return 30
}

// graceOptions returns the grace periods that a cancel offers, in seconds.
func (d jobData) graceOptions() []int64 {
	list := []int64{0, d.defaultGrace(), 120}
	slices.Sort(list)
	return slices.Compact(list)
}

func graceText(seconds int64) string {
	if seconds == 0 {
		return "kill at once"
	}
	return kit.Duration(time.Duration(seconds)*time.Second) + " to end"
}

// graceEnd returns when the grace period of a cancelling job ends.
func (d jobData) graceEnd() time.Time {
	c := d.Job.Cancel
	if c.GraceSeconds == nil {
		return c.At
	}
	return c.At.Add(time.Duration(*c.GraceSeconds) * time.Second)
}

// waitText describes why the job waits and for what.
func (d jobData) waitText() string {
	spec := d.Job.Spec
	switch reason := string(*d.Job.WaitingReason); {
	case reason == "no_matching_runner" && len(d.Job.WaitingFor) > 0:
		return "No online runner matches. The closest lacks " + strings.Join(d.Job.WaitingFor, ", ") + "."
	case reason == "concurrency_limit" && spec.Concurrency != nil:
		return "Other " + spec.Concurrency.Key + " jobs are running."
	default:
		return waitReasonText(reason)
	}
}

// endText describes how the job ended and why.
func (d jobData) endText() string {
	j := d.Job
	if j.State == client.JobDetailStateLost && j.Attempt > 1 {
		return fmt.Sprintf("Lost: none of %d attempts came to an end; the last one: %s", j.Attempt, kit.JobReason(j.Reason))
	}
	return kit.Words(string(j.State)) + ": " + kit.JobReason(j.Reason)
}

// finishedSteps returns the number of steps that have ended.
func (d jobData) finishedSteps() (n int64) {
	for _, s := range d.steps() {
		if s.FinishedAt != nil {
			n++
		}
	}
	return n
}

// ref returns the branch or another ref in the job's spec, "" if there is none.
func (d jobData) ref() string {
	if r := d.Job.Spec.Repo; r != nil && r.Ref != nil {
		return strings.TrimPrefix(*r.Ref, "refs/heads/")
	}
	return ""
}

// neverLeased reports whether no runner has had the job yet.
func (d jobData) neverLeased() bool {
	return d.Job.State == client.JobDetailStateQueued && len(d.Job.Attempts) == 0
}

// logID returns the id of the log's element. The element is kept while the rest of the page
// is refreshed, so its id changes when the log begins, and with the search.
func (d jobData) logID() string {
	if d.neverLeased() {
		return "log-untaken"
	}
	return "log-" + kit.Digits(d.Attempt) + d.Log.markQuery()
}
