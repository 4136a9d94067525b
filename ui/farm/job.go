package farm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
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
}

func showJobs(v *page.Visit) (page.Page, error) {
	j := jobs{Finished: v.Query("status") == "finished"}
	params := &client.ListJobsParams{Status: client.ListJobsParamsStatusActive, Limit: client.Optional(int64(perPage)), Q: client.Optional(v.Query("q"))}
	if j.Finished {
		params.Status = client.ListJobsParamsStatusTerminal
	}
	if offset, err := strconv.ParseInt(v.Query("offset"), 10, 64); err == nil {
		params.Offset = client.Optional(max(offset, 0))
	}
	var err error
	j.List, err = client.Read[client.ListFarmJob](v.API.ListJobs(v.Context(), params))
	return page.Page{Title: "Jobs", Place: "farm", Main: jobsView(v, j)}, err
}

// one is what the page of a job shows.
type one struct {
	Job       client.JobDetail
	Artifacts client.ListArtifact
	Attempt   int64 // whose steps and log are shown
	Log       logPart
}

func showJob(v *page.Visit) (page.Page, error) {
	var o one
	id := v.PathValue("id")
	asked, _ := strconv.ParseInt(v.Query("attempt"), 10, 64) // what is no number is the last one
	err := v.Load(func(ctx context.Context) (err error) {
		o.Job, err = client.Read[client.JobDetail](v.API.GetJob(ctx, id, nil))
		return err
	}, func(ctx context.Context) (err error) {
		o.Artifacts, err = client.Read[client.ListArtifact](v.API.ListArtifacts(ctx, id, &client.ListArtifactsParams{Limit: client.Optional(int64(100))}))
		return err
	})
	if err != nil {
		return page.Page{}, err
	}
	o.Attempt = o.Job.Attempt
	bytes := o.Job.Log.Bytes
	for _, a := range o.Job.Attempts {
		if a.Attempt == asked {
			o.Attempt, bytes = asked, a.Log.Bytes
		}
	}
	o.Log = logPart{From: max(0, bytes-tail), Attempt: o.Attempt, Live: active(string(o.Job.State)) && o.Attempt == o.Job.Attempt}
	return page.Page{Title: o.Job.Name, Place: "farm", Main: jobView(v, o)}, nil
}

func cancel(v *page.Visit) (page.Notice, error) {
	err := client.Done(v.API.SubmitJob(v.Context(), nil, client.JobRequestBody{
		Action: client.Optional(client.Cancel), JobId: client.Optional(v.PathValue("id")),
		Reason: client.Optional(strings.TrimSpace(v.PostFormValue("reason"))),
	}))
	return page.Notice{Text: "The job is asked to end.", To: v.Path("farm", "jobs", v.PathValue("id"))}, err
}

const (
	tail    = 64 << 10 // bytes of a log that are shown at first
	maxPart = 1 << 20  // bytes of an answer that are read for one part
	perPart = 5000     // lines of a part
)

// A logPart is some lines of a log, and where it goes on.
type logPart struct {
	Lines   []logLine
	From    int64 // the byte that the part begins with
	Next    int64 // the byte that the next one begins with
	Attempt int64
	Live    bool // more may come
}

// A logLine is one line.
type logLine struct {
	At      time.Time
	Offset  int64
	Text    string
	Partial bool
}

// lines shows the lines from a byte on. A part of a log that grows asks for the next
// part by itself.
func lines(v *page.Visit) (page.Page, error) {
	from, _ := strconv.ParseInt(v.Query("from"), 10, 64)
	attempt, _ := strconv.ParseInt(v.Query("attempt"), 10, 64)
	part, err := readLog(v, max(from, 0), attempt)
	return page.Page{Part: linesView(v, part)}, err
}

func readLog(v *page.Visit, from, attempt int64) (logPart, error) {
	part := logPart{From: from, Next: from, Attempt: attempt}
	resp, err := v.API.GetJobLog(v.Context(), v.PathValue("id"), &client.GetJobLogParams{
		Attempt: client.Optional(attempt), From: client.Optional(from), Format: client.Optional(client.GetJobLogParamsFormat("ndjson")),
	})
	if err == nil && resp.StatusCode == http.StatusRequestedRangeNotSatisfiable { // nothing new
		part.Live = resp.Header.Get("X-Svc-Log-Complete") != "true"
		return part, resp.Body.Close()
	}
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		err = client.Done(resp, nil)
	}
	if err != nil {
		return part, err
	}
	defer resp.Body.Close()
	part.Live = resp.Header.Get("X-Svc-Log-Complete") != "true"
	return part, part.read(io.LimitReader(resp.Body, maxPart))
}

// read takes lines in. The last one of a log that grows is left for the next part if it
// has not ended.
func (p *logPart) read(from io.Reader) error {
	scan := bufio.NewScanner(from)
	scan.Buffer(nil, maxPart)
	for len(p.Lines) < perPart && scan.Scan() {
		var l logLine
		if json.Unmarshal(scan.Bytes(), &l) != nil {
			break // what the limit has cut off
		}
		if l.Partial && p.Live {
			break
		}
		p.Lines = append(p.Lines, l)
		p.Next = l.Offset + int64(len(l.Text))
		if !l.Partial {
			p.Next++
		}
	}
	if err := scan.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("read a log: %w", err)
	}
	return nil
}

func rawLog(v *page.Visit, w http.ResponseWriter) error {
	attempt, _ := strconv.ParseInt(v.Query("attempt"), 10, 64)
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

// words makes a word for machines one for people.
func words(state string) string {
	text := strings.ReplaceAll(state, "_", " ")
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
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
