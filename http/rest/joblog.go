package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"svc/aggregates"
	"svc/farm/joblog"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/http/reply"
	"svc/projections"
)

// logPage is how many bytes of a log are read at once.
const logPage = 256 << 10

func (s *Server) jobLogRoutes() section {
	return section{tag: "Build farm", routes: []route{
		query(s.getJobLog, route{
			method: "GET", path: "/farm/jobs/{id}/log", guard: readers, farm: true,
			limits: middleware.Limits{Time: downloadLimit, Stream: true},
			id:     "getJobLog", summary: "Read the log of a job",
			text: "What the last attempt of a job has written so far, or the attempt that `attempt` names, with the values of secrets masked. " +
				"`from`, or a `Range` of bytes, leaves out what the reader has. `X-Svc-Log-Complete` tells whether more may come. With " +
				"`format=ndjson` each line is an object with its number and the time at which it was written; `q` leaves out those that " +
				"do not have a text. A log that was removed for its age is 410 `log_removed`.",
			refuses: []*fault.Fault{aggregates.ErrNoJob, errNoAttempt, errLogRemoved},
			ownSlot: true, answer: describeLog, responses: map[string]*huma.Response{
				"206": {Description: "The part that was asked for.", Content: plainText()},
				"416": {Description: "The log has no such part: `range_not_satisfiable`."},
			},
		}),
		query(s.streamJobLog, route{
			method: "GET", path: "/farm/jobs/{id}/log/stream", guard: readers, farm: true,
			limits: middleware.Limits{Time: streamLimit, Stream: true},
			id:     "streamJobLog", summary: "Follow the log of a job",
			text: "The log as server-sent events while it grows: `log` with a piece of it, and `end` once nothing comes any more, which ends " +
				"the stream. It waits for a job that waits. The id of an event says which attempt and byte comes next: whoever comes again " +
				"with the `Last-Event-ID` that they have misses nothing. It also ends when the caller's rights change, after an hour, or when " +
				"the service stops. It counts as one of the 12 streams of a caller: 429 `rate_limited`.",
			refuses: []*fault.Fault{aggregates.ErrNoJob, errNoAttempt, errLogRemoved},
			ownSlot: true, answer: describeLogStream,
		}),
	}}
}

var (
	errNoAttempt  = fault.New(fault.NotFound, "attempt_not_found", "This job has had no such attempt.")
	errLogRemoved = fault.New(fault.Gone, "log_removed", "This log was removed, for its age.")
)

type logQuery struct {
	ID      string `path:"id" maxLength:"64" doc:"The job's id."`
	Attempt int    `query:"attempt" minimum:"1" maximum:"1000" doc:"Which attempt; the last one without it."`
	From    int64  `query:"from" minimum:"0" doc:"The first byte that is wanted."`
	Format  string `query:"format" enum:"text,ndjson" default:"text"`
	Q       string `query:"q" maxLength:"200" doc:"Only lines that have this, in whatever case and colours. Only with format=ndjson."`
	Range   string `header:"Range" maxLength:"100" doc:"One range of bytes, instead of from. Not with format=ndjson." example:"bytes=1024-"`
}

// attemptOf returns the attempt of a job that is meant: the last one that had this number,
// or the last one of all. It is nil if no runner has had the job yet.
func attemptOf(j projections.Job, number int) (*projections.JobAttempt, error) {
	for i := len(j.Attempts) - 1; i >= 0; i-- {
		if number == 0 || j.Attempts[i].Attempt == number {
			return &j.Attempts[i], nil
		}
	}
	if number != 0 {
		return nil, errNoAttempt
	}
	return nil, nil
}

// A logPart is what somebody reads of a log.
type logPart struct {
	job        projections.Job
	epoch      int
	size       int64 // of the whole, so far
	from, to   int64 // the bytes that are answered; to is not one of them
	complete   bool
	partly     bool // a range was asked for
	impossible bool // which there is not
}

func (s *Server) getJobLog(ctx context.Context, in *logQuery) (*huma.StreamResponse, error) {
	if in.Q != "" && in.Format != "ndjson" {
		return nil, invalid("q", "needs format=ndjson")
	}
	if err := s.take(ctx, s.bounds.downloads); err != nil {
		return nil, err
	}
	job, err := s.findJob(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	part, err := s.logPart(ctx, job, in.Attempt)
	if err != nil {
		return nil, err
	}
	part.from = min(in.From, part.size)
	if in.Format == "text" {
		part.narrow(in.Range)
	}
	return openapi.Stream(func(w http.ResponseWriter, r *http.Request) {
		c := callerOf(ctx)
		watch := s.live.Watch(c.workspace, nil)
		defer watch.Close()
		still := s.newRights(c, watch.Moved).still
		out := &deadlineWriter{w, http.NewResponseController(w), readLimit, func() error { return still(r.Context()) }}
		if err := s.sendLog(r.Context(), out, part, in); err != nil {
			if r.Context().Err() == nil && !errors.Is(err, errNoLonger) {
				s.log.ErrorContext(r.Context(), "log broke off", "job", job.ID.String(), "err", err)
			}
			panic(http.ErrAbortHandler)
		}
	}), nil
}

// logPart is the whole log of an attempt. Whether it is complete was looked at before how
// long it is, so one that is lacks nothing.
func (s *Server) logPart(ctx context.Context, j projections.Job, attempt int) (*logPart, error) {
	a, err := attemptOf(j, attempt)
	if err != nil {
		return nil, err
	}
	if a == nil {
		return &logPart{job: j, complete: j.State.Final()}, nil
	}
	size, err := s.logSize(ctx, j, a)
	return &logPart{job: j, epoch: a.Epoch, size: size, to: size, complete: a.Log != nil}, err
}

// logSize returns how many bytes there are of the log of an attempt. What lacks some that were
// there when it was sealed has been removed, or is being.
func (s *Server) logSize(ctx context.Context, j projections.Job, a *projections.JobAttempt) (int64, error) {
	size, err := s.farm.Logs.Size(ctx, j.Workspace, j.ID, a.Epoch)
	if err != nil || a.Log == nil || size >= a.Log.Bytes {
		return size, err
	}
	if s.farm.LogDays == 0 { // it was not always for ever
		return 0, errLogRemoved
	}
	removed := errLogRemoved.With("keptDays", s.farm.LogDays)
	removed.Message = fmt.Sprintf("This log was removed: logs of jobs are kept for %d days.", s.farm.LogDays)
	return 0, removed
}

// narrow leaves of a part what a Range asks for. What is no range of bytes, or several, is
// passed over, as HTTP has it.
func (p *logPart) narrow(text string) {
	text, ok := strings.CutPrefix(text, "bytes=")
	first, last, found := strings.Cut(strings.TrimSpace(text), "-")
	if !ok || !found || strings.Contains(text, ",") {
		return
	}
	a, errA := strconv.ParseUint(first, 10, 62)
	b, errB := strconv.ParseUint(last, 10, 62)
	from, to := int64(a), p.size
	switch {
	case first == "" && errB == nil: // so many at the end
		from = max(0, p.size-int64(b))
	case first == "" || errA != nil || last != "" && errB != nil || last != "" && b < a:
		return
	case last != "":
		to = min(p.size, int64(b)+1)
	}
	p.from, p.to, p.partly, p.impossible = from, to, true, from >= p.size
}

// sendLog writes a part of a log.
func (s *Server) sendLog(ctx context.Context, out *deadlineWriter, p *logPart, in *logQuery) error {
	h := out.w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Svc-Log-Complete", strconv.FormatBool(p.complete))
	h.Set("Accept-Ranges", "bytes")
	whole := "*"
	if p.complete {
		whole = strconv.FormatInt(p.size, 10)
	}
	switch {
	case p.impossible:
		h.Set("Content-Range", "bytes */"+whole)
		reply.JSON(out.w, http.StatusRequestedRangeNotSatisfiable, reply.Body{
			Code: "range_not_satisfiable", Message: "The log has no such part.", Details: map[string]any{"bytes": p.size},
		})
		return nil
	case in.Format == "ndjson":
		h.Set("Content-Type", "application/x-ndjson")
		return s.copyLog(ctx, p, linesWith(in.Q).writeTo(out))
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.FormatInt(p.to-p.from, 10))
	if p.partly {
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%s", p.from, p.to-1, whole))
		out.w.WriteHeader(http.StatusPartialContent)
	}
	return s.copyLog(ctx, p, func(list []joblog.Chunk, _ bool) error {
		for _, c := range list {
			if err := out.put(c.Data); err != nil {
				return err
			}
		}
		return nil
	})
}

// copyLog gives write the pieces of a part, and tells it which are the last.
func (s *Server) copyLog(ctx context.Context, p *logPart, write func(list []joblog.Chunk, last bool) error) error {
	for at := p.from; at < p.to; {
		list, err := s.farm.Logs.Read(ctx, p.job.Workspace, p.job.ID, p.epoch, at, int(min(logPage, p.to-at)))
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return fmt.Errorf("log of %s, epoch %d: nothing at %d of %d", p.job.ID, p.epoch, at, p.to)
		}
		at = list[len(list)-1].End()
		if err := write(list, at >= p.to); err != nil {
			return err
		}
	}
	return nil
}

// wholeRunes is how many bytes of text end with a whole character.
func wholeRunes(text []byte) int {
	for back := 1; back <= min(utf8.UTFMax-1, len(text)); back++ {
		i := len(text) - back
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}

func plainText() map[string]*huma.MediaType {
	return map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}, Example: "ok  \tacme/web\t0.012s\n"}}
}

func describeLog(huma.Registry) *huma.Response {
	content := plainText()
	content["application/x-ndjson"] = &huma.MediaType{
		Schema:  &huma.Schema{Type: huma.TypeString},
		Example: `{"offset":0,"line":1,"at":"` + exampleTime + `","text":"ok  \tacme/web\t0.012s"}` + "\n",
	}
	return &huma.Response{
		Description: "The log.", Content: content,
		Headers: map[string]*huma.Param{
			"X-Svc-Log-Complete": {Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"true", "false"}}, Description: "Whether nothing comes any more."},
		},
	}
}
