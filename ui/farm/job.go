package farm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// jobs is what the list of jobs shows.
type jobs struct {
	List     client.ListFarmJob
	Finished bool
	State    string        // only jobs of this state; "" is all
	Runner   client.Runner // only jobs of this runner; zero is all
	Part     bool          // below the runners: without filters
}

func showJobs(v *page.Visit) (page.Page, error) {
	j := jobs{Finished: v.Query("status") == "finished", Part: v.Query("in") == "farm"}
	params := &client.ListJobsParams{
		Status: client.ListJobsParamsStatusActive, Limit: client.Optional(int64(perPage)), Q: client.Optional(v.Query("q")),
	}
	if j.Finished {
		params.Status = client.ListJobsParamsStatusTerminal
	}
	if state := v.Query("state"); slices.Contains(j.states(), state) {
		j.State, params.State = state, new(client.ListJobsParamsState(state))
	}
	params.Offset = client.Optional(v.QueryNumber("offset"))
	if j.Part {
		params.State = new(client.ListJobsParamsStateQueued)
	}
	err := v.Load(func(ctx context.Context) (err error) {
		if id := v.Query("runner"); id != "" && !j.Part {
			j.Runner, err = client.Read[client.Runner](v.API.GetRunner(ctx, id, nil))
		}
		return err
	}, func(ctx context.Context) (err error) {
		if !j.Part {
			params.Runner = client.Optional(v.Query("runner"))
		}
		j.List, err = client.Read[client.ListFarmJob](v.API.ListJobs(ctx, params))
		return err
	})
	return page.Page{Title: "Jobs", NavEntry: "farm", Main: jobsView(v, j)}, err
}

// jobsPath leads to the jobs of a status, "" active, that a runner has had, "" any.
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

// states are those that the jobs of the list can be in.
func (j jobs) states() []string {
	if j.Finished {
		return []string{"succeeded", "failed", "timed_out", "cancelled", "lost", "expired"}
	}
	return []string{"queued", "leased", "running", "cancelling"}
}

// hopeless reports whether a job waits for what is not there.
func hopeless(j client.FarmJob) bool {
	return j.WaitingReason != nil && *j.WaitingReason == "no_matching_runner"
}

// signOf is the sign of a job that does not run.
func signOf(j client.FarmJob) string {
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

// one is what the page of a job shows.
type one struct {
	Job       client.JobDetail
	Artifacts client.ListArtifact
	Removed   string // says that the artifacts were removed, "" if they were not
	Attempt   int64  // whose steps and log are shown
	LogBytes  int64
	Log       logPart // its end, what was found or what a link leads to; the page asks for it by itself
	Found     finding
}

func showJob(v *page.Visit) (page.Page, error) {
	var o one
	id := v.PathValue("id")
	asked := v.QueryNumber("attempt") // 0 for the last one
	err := v.Load(func(ctx context.Context) (err error) {
		o.Job, err = client.Read[client.JobDetail](v.API.GetJob(ctx, id, nil))
		return err
	}, func(ctx context.Context) (err error) {
		if v.Query("find") != "" {
			o.Found, err = look(ctx, v, asked)
		}
		return err
	}, func(ctx context.Context) (err error) {
		params := &client.ListArtifactsParams{Limit: client.Optional(int64(100))}
		o.Artifacts, err = client.Read[client.ListArtifact](v.API.ListArtifacts(ctx, id, params))
		if refused, ok := errors.AsType[*client.Refused](err); ok && refused.Code == "artifacts_removed" {
			o.Removed, err = refused.Message, nil
		}
		return err
	})
	if err != nil {
		return page.Page{}, err
	}
	o.Attempt, o.LogBytes = o.Job.Attempt, o.Job.Log.Bytes
	for _, a := range o.Job.Attempts {
		if a.Attempt == asked {
			o.Attempt, o.LogBytes = asked, a.Log.Bytes
		}
	}
	o.Log = logPart{From: max(0, o.LogBytes-tail), Cut: o.LogBytes > tail, Attempt: o.Attempt}
	switch at := v.Query("at"); {
	case o.Found.Shown > 0:
		o.Log = o.Found.part(o.Attempt)
	case at != "" && whole(at) < o.LogBytes:
		o.Log = around(whole(at), o.Attempt)
	}
	return page.Page{Title: o.Job.Name, NavEntry: "farm", Main: jobView(v, o)}, nil
}

func cancel(v *page.Visit) (page.Notice, error) {
	body := client.JobRequestBody{
		Action: client.Optional(client.Cancel), JobId: client.Optional(v.PathValue("id")),
		Reason: client.Optional(strings.TrimSpace(v.PostFormValue("reason"))),
	}
	if text := v.PostFormValue("grace"); text != "" {
		body.GraceSeconds = new(whole(text))
	}
	err := client.Done(v.API.SubmitJob(v.Context(), nil, body))
	if body.GraceSeconds != nil && *body.GraceSeconds == 0 {
		return page.Notice{Text: "The job is killed."}, err
	}
	return page.Notice{Text: "The job is asked to end."}, err
}

func (o one) cancelQuestion() page.Question {
	return page.Question{
		Title: "Cancel " + o.Job.Name + "?",
		Text:  "The steps get TERM and may clean up. What still runs after the grace is killed. Artifacts that are kept always stay.",
	}
}

func askCancel(v *page.Visit) (page.Question, error) {
	job, err := client.Read[client.JobDetail](v.API.GetJob(v.Context(), v.PathValue("id"), nil))
	if job.State == client.JobDetailStateCancelling { // it was asked about
		return page.Question{}, err
	}
	return one{Job: job}.cancelQuestion(), err
}

func rawLog(v *page.Visit, w http.ResponseWriter) error {
	attempt := v.QueryNumber("attempt")
	resp, err := v.API.GetJobLog(v.Context(), v.PathValue("id"), &client.GetJobLogParams{Attempt: client.Optional(attempt)})
	return send(w, resp, err, `attachment; filename="job.log"`)
}

func download(v *page.Visit, w http.ResponseWriter) error {
	resp, err := v.API.GetArtifact(v.Context(), v.PathValue("id"), v.PathValue("artifact"), nil)
	return send(w, resp, err, "")
}

// send leads a file of the service on, as it comes. What it is a browser keeps, whatever
// it is: it is never shown as a page of the app.
func send(w http.ResponseWriter, resp *http.Response, err error, disposition string) error {
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		err = client.Done(resp, nil)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", "attachment")
	for _, name := range []string{"Content-Length", "Content-Disposition"} {
		if value := resp.Header.Get(name); value != "" {
			h.Set(name, value)
		}
	}
	if disposition != "" {
		h.Set("Content-Disposition", disposition)
	}
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("lead a file on: %w", err)
	}
	return nil
}

func active(state string) bool {
	switch state {
	case "queued", "leased", "running", "cancelling":
		return true
	}
	return false
}

// tone is the colour of a job's state, beside its word.
func tone(state string) kit.Tone {
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

// lasted is how long a step or a job has run, or did. ok is false if it has not begun.
func lasted(from, to *time.Time, now time.Time) (d time.Duration, ok bool) {
	switch {
	case from == nil:
		return 0, false
	case to == nil:
		return max(now.Sub(*from), 0), true
	}
	return to.Sub(*from), true
}

// steps are those of the attempt that is shown, planned ones too.
func (o one) steps() []client.JobStep {
	for _, a := range o.Job.Attempts {
		if a.Attempt == o.Attempt && o.Attempt != o.Job.Attempt {
			return a.Steps
		}
	}
	return o.Job.Steps
}

// ownGrace is how many seconds the steps have to end by themselves where a cancel says nothing.
func (o one) ownGrace() int64 {
	if s := o.Job.Spec.Timeouts.CancelGraceSeconds; s != nil {
		return *s
	}
	return 30
}

// graces are those that a cancel can choose from.
func (o one) graces() []int64 {
	list := []int64{0, o.ownGrace(), 120}
	slices.Sort(list)
	return slices.Compact(list)
}

func graceText(seconds int64) string {
	if seconds == 0 {
		return "No grace"
	}
	return kit.Took(time.Duration(seconds)*time.Second) + " grace"
}

// killedAt is when the grace is over of a job that is being cancelled.
func (o one) killedAt() time.Time {
	c := o.Job.Cancel
	if c.GraceSeconds == nil {
		return c.At
	}
	return c.At.Add(time.Duration(*c.GraceSeconds) * time.Second)
}

// waits says why the job waits, with what it waits for.
func (o one) waits() string {
	spec := o.Job.Spec
	switch reason := string(*o.Job.WaitingReason); {
	case reason == "no_matching_runner" && len(o.Job.WaitingFor) > 0:
		return "No online runner matches. The closest lacks " + strings.Join(o.Job.WaitingFor, ", ") + "."
	case reason == "concurrency_limit" && spec.Concurrency != nil:
		return "Other " + spec.Concurrency.Key + " jobs are running."
	default:
		return why(reason)
	}
}

// ended says how the job ended and why, and whether all its attempts came to no end.
func (o one) ended() string {
	j := o.Job
	if j.State == client.JobDetailStateLost && j.Attempt > 1 {
		return fmt.Sprintf("Lost: none of %d attempts came to an end; the last one: %s", j.Attempt, j.Reason)
	}
	return kit.Words(string(j.State)) + ": " + j.Reason
}

// done counts the steps that have ended.
func (o one) done() (n int64) {
	for _, s := range o.steps() {
		if s.FinishedAt != nil {
			n++
		}
	}
	return n
}

// attemptOf returns which attempt left a file.
func (o one) attemptOf(a client.Artifact) string {
	for _, attempt := range o.Job.Attempts {
		if attempt.Epoch == a.Epoch {
			return kit.Digits(attempt.Attempt)
		}
	}
	return "—"
}

// awaited are the artifacts of which no file is stored yet, while any may come.
func (o one) awaited() (list []client.JobArtifactSpec) {
	if !active(string(o.Job.State)) {
		return nil
	}
	for _, spec := range o.Job.Spec.Artifacts {
		if !slices.ContainsFunc(o.Artifacts.Items, func(a client.Artifact) bool { return a.Name == spec.Name }) {
			list = append(list, spec)
		}
	}
	return list
}

// when says when an artifact is kept.
func when(spec client.JobArtifactSpec) string {
	text := "if it succeeds"
	if spec.When != nil && *spec.When == client.JobArtifactSpecWhenAlways {
		text = "always"
	}
	if spec.Required != nil && *spec.Required {
		text += ", required"
	}
	return text
}

// commit is the one that the job was made from, "" if its spec names none.
func (o one) commit() string {
	if r := o.Job.Spec.Repo; r != nil && r.Commit != nil {
		return *r.Commit
	}
	return ""
}

// untaken tells whether no runner has had the job yet.
func (o one) untaken() bool {
	return o.Job.State == client.JobDetailStateQueued && len(o.Job.Attempts) == 0
}

// logID is the id of the part of the page that is the log, which is kept while the rest of
// the page changes: it is another one once there is a log.
func (o one) logID() string {
	if o.untaken() {
		return "log-untaken"
	}
	return "log-" + kit.Digits(o.Attempt) + o.Log.markQuery()
}
