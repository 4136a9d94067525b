package jobs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"svc/aggregates/farm"
	"svc/farm/joblog"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/http/reply"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections/farmviews"
)

// logPage is the number of bytes of a log that are read at once. A slow reader keeps one in memory; as
// NDJSON, it may take several times as much.
const logPage = 64 << 10

func (s *Server) jobLogRoutes() door.Section {
	return door.Section{Tag: "Build farm", Routes: []door.Route{
		door.Query(s.getJobLog, door.Route{
			Method: "GET", Path: "/farm/jobs/{id}/log", Guard: door.AnyMemberOrReadToken, Farm: true,
			Limits: middleware.Limits{Time: downloadLimit, Stream: true},
			ID:     "getJobLog", Summary: "Get the log of a job",
			Text: "Returns the log of the last attempt, or of the one that `attempt` names, as far as it is written, with the values of " +
				"secrets masked. Use `from` or a `Range` of bytes to skip what you have. `X-Svc-Log-Complete` says whether the log is " +
				"final. With `format=ndjson`, each line is an object with its number and the time at which it was written; `q` selects " +
				"the lines that contain a text. 410 `log_removed` if the log was deleted because of its age.",
			Refuses: []*fault.Fault{farm.ErrNoJob, errNoAttempt, errLogRemoved, errNoLogRange},
			OwnSlot: true, Answer: describeLog, Responses: map[string]*huma.Response{
				"206": describePart(plainText(), describeLogHeaders()),
			},
		}),
		door.Query(s.streamJobLog, door.Route{
			Method: "GET", Path: "/farm/jobs/{id}/log/stream", Guard: door.AnyMemberOrReadToken, Farm: true,
			Limits: middleware.Limits{Time: door.StreamLimit, Stream: true},
			ID:     "streamJobLog", Summary: "Follow the log of a job",
			Text: "Streams the log as server-sent events while it grows: `log` events with a part of it, and an `end` event once the log is " +
				"final, which ends the stream. For a queued job, the stream waits for it to start. To resume without loss, reconnect with " +
				"`Last-Event-ID`; an event's id is the attempt and byte that come next. The stream also ends when the caller's rights " +
				"change, after an hour, or when the service stops. It counts as one of the caller's 12 streams: 429 `rate_limited`.",
			Refuses: []*fault.Fault{farm.ErrNoJob, errNoAttempt, errLogRemoved},
			OwnSlot: true, Answer: describeLogStream,
		}),
	}}
}

var (
	errNoAttempt  = fault.New(fault.NotFound, "attempt_not_found", "The job has no such attempt.")
	errLogRemoved = fault.New(fault.Gone, "log_removed", "This log was removed because of its age.")
	errNoLogRange = fault.New(fault.OutOfRange, "range_not_satisfiable", "The log does not contain the requested range.")
)

type logQuery struct {
	ID      string `path:"id" maxLength:"64" doc:"The job's id."`
	Attempt int    `query:"attempt" minimum:"1" maximum:"1000" doc:"The attempt's number. By default the last attempt."`
	From    int64  `query:"from" minimum:"0" doc:"Offset of the first byte to return."`
	Format  string `query:"format" enum:"text,ndjson" default:"text"`
	Q       string `query:"q" maxLength:"200" doc:"Only lines that contain this text, ignoring case and terminal colours. Only with format=ndjson."`
	Range   string `header:"Range" doc:"A single byte range, instead of from. Not with format=ndjson." example:"bytes=1024-"`
	IfRange string `header:"If-Range" doc:"Range is ignored: a log has no ETag."`
}

// attemptOf returns the last attempt of a job with a number or, if number is 0, the last attempt. It
// returns nil if number is 0 and the job was never assigned.
func attemptOf(j farmviews.Job, number int) (*farmviews.JobAttempt, error) {
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

// A logPart is the part of a log that a request reads.
type logPart struct {
	job           farmviews.Job
	attempt       farmviews.JobAttempt
	size          int64 // of the whole log, so far
	from, to      int64 // byte offsets; to is exclusive
	complete      bool
	isRange       bool // the request has a valid Range
	unsatisfiable bool // the log does not contain it
}

func (s *Server) getJobLog(ctx context.Context, in *logQuery) (*huma.StreamResponse, error) {
	if in.Q != "" && in.Format != "ndjson" {
		return nil, fault.Field("q", "requires format=ndjson")
	}
	if err := s.AcquireSlot(ctx, s.Bounds.Downloads); err != nil {
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
	if in.Format == "text" && in.IfRange == "" { // a log has no ETag that could match
		part.applyRange(in.Range)
	}
	return openapi.Stream(func(w http.ResponseWriter, r *http.Request) {
		checkRights, stop := s.WatchRights(r.Context(), door.CallerOf(ctx))
		defer stop()
		out := door.NewDeadlineWriter(w, door.SlowestReader, checkRights)
		if err := s.sendLog(r.Context(), w, out, part, in); err != nil {
			if r.Context().Err() == nil && !door.RightsEnded(err) {
				middleware.SetFailed(r.Context())
				s.Log.ErrorContext(r.Context(), "log download failed", "job", job.ID.String(), "err", err)
			}
			panic(http.ErrAbortHandler)
		}
	}), nil
}

// logPart returns the whole log of an attempt. It reads the size after complete, so that a complete log
// is returned in full.
func (s *Server) logPart(ctx context.Context, j farmviews.Job, attempt int) (*logPart, error) {
	a, err := attemptOf(j, attempt)
	if err != nil {
		return nil, err
	}
	if a == nil {
		return &logPart{job: j, complete: j.State.Final()}, nil
	}
	size, err := s.logSize(ctx, j, a)
	return &logPart{job: j, attempt: *a, size: size, to: size, complete: a.Log != nil}, err
}

// logSize returns the size of an attempt's log. A log that is shorter than when it was sealed has been
// removed, or is being removed, and fails with errLogRemoved.
func (s *Server) logSize(ctx context.Context, j farmviews.Job, a *farmviews.JobAttempt) (int64, error) {
	size, err := s.Logs.Size(ctx, j.Workspace, j.ID, a.Epoch)
	if err != nil || a.Log == nil || size >= a.Log.Bytes {
		return size, err
	}
	if s.LogDays == 0 { // removed under an earlier setting
		return 0, errLogRemoved
	}
	removed := errLogRemoved.With("keptDays", s.LogDays)
	removed.Message = fmt.Sprintf("This log was removed: logs of jobs are kept for %d days.", s.LogDays)
	return 0, removed
}

// applyRange narrows the part to a Range header. As HTTP prescribes, it ignores malformed, non-byte and
// multiple ranges.
func (p *logPart) applyRange(text string) {
	text, ok := strings.CutPrefix(text, "bytes=")
	first, last, found := strings.Cut(strings.TrimSpace(text), "-")
	if !ok || !found || strings.Contains(text, ",") {
		return
	}
	a, errA := parseOffset(first)
	b, errB := parseOffset(last)
	from, to := a, p.size
	switch {
	case first == "" && p.size == 0:
		return // the last bytes of nothing are all of it
	case first == "" && errB == nil: // a suffix
		from = max(0, p.size-b)
	case first == "" || errA != nil || last != "" && errB != nil || last != "" && b < a:
		return
	case last != "":
		to = min(p.size, b+1)
	}
	p.from, p.to, p.isRange, p.unsatisfiable = from, to, true, from >= p.size
}

// parseOffset parses digits. A number that is too large for a log counts as the largest.
func parseOffset(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 62)
	if errors.Is(err, strconv.ErrRange) {
		return 1<<62 - 1, nil
	}
	return int64(n), err
}

// sendLog answers with a part of a log, whose text it writes to out.
func (s *Server) sendLog(ctx context.Context, w http.ResponseWriter, out *door.DeadlineWriter, p *logPart, in *logQuery) error {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Svc-Log-Complete", strconv.FormatBool(p.complete))
	h.Set("Accept-Ranges", "bytes")
	whole := "*"
	if p.complete {
		whole = strconv.FormatInt(p.size, 10)
	}
	switch {
	case p.unsatisfiable:
		h.Set("Content-Range", "bytes */"+whole)
		reply.JSON(w, errNoLogRange.Kind.Status(), reply.BodyOf(errNoLogRange.With("bytes", p.size)))
		return nil
	case in.Format == "ndjson":
		h.Set("Content-Type", "application/x-ndjson")
		return s.copyLog(ctx, p, newLogLines(p.attempt, in.Q).writeTo(out))
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.FormatInt(p.to-p.from, 10))
	if p.isRange {
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%s", p.from, p.to-1, whole))
		w.WriteHeader(http.StatusPartialContent)
	}
	return s.copyLog(ctx, p, func(list []joblog.Chunk, _ bool) error {
		for _, c := range list {
			if _, err := out.Write(c.Data); err != nil {
				return err
			}
		}
		return nil
	})
}

// copyLog passes the chunks of a part to write; last marks the final call.
func (s *Server) copyLog(ctx context.Context, p *logPart, write func(list []joblog.Chunk, last bool) error) error {
	for at := p.from; at < p.to; {
		list, err := s.Logs.Read(ctx, p.job.Workspace, p.job.ID, p.attempt.Epoch, at, int(min(logPage, p.to-at)))
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return fmt.Errorf("log of %s, epoch %d: nothing at %d of %d", p.job.ID, p.attempt.Epoch, at, p.to)
		}
		at = list[len(list)-1].End()
		if err := write(list, at >= p.to); err != nil {
			return err
		}
	}
	return nil
}

// wholeRunes returns the length of text without an incomplete UTF-8 character at its end.
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

func describeLog(schemas huma.Registry) *huma.Response {
	content := plainText()
	content["application/x-ndjson"] = schema.DescribeLines(schemas, logLine{0, 1, schema.ExampleTime, "ok  \tacme/web\t0.012s", new(int),
		false})
	return &huma.Response{Description: "The log. NDJSON is described as a list of its lines.", Content: content, Headers: describeLogHeaders()}
}

func describeLogHeaders() map[string]*huma.Param {
	return map[string]*huma.Param{
		"X-Svc-Log-Complete": {
			Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"true", "false"}}, Description: "Whether the log is final.",
		},
	}
}

// describePart describes the response to a request for a range, with the headers of the whole.
func describePart(content map[string]*huma.MediaType, headers map[string]*huma.Param) *huma.Response {
	headers["Content-Range"] = &huma.Param{
		Schema: &huma.Schema{Type: huma.TypeString}, Description: "Which bytes they are, and of how many.", Example: "bytes 1024-2047/4096",
	}
	return &huma.Response{Description: "The requested range.", Content: content, Headers: headers}
}
