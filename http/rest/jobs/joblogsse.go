package jobs

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"svc/aggregates/farm"
	"svc/events"
	"svc/farm/joblog"
	"svc/fault"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections/farmviews"
)

type logStreamQuery struct {
	ID          string `path:"id" maxLength:"64" doc:"The job's id."`
	Attempt     int    `query:"attempt" minimum:"1" maximum:"1000" doc:"The attempt's number. By default the last attempt, and those that follow it."`
	LastEventID string `header:"Last-Event-ID" maxLength:"40" doc:"The id of the last event received. The stream resumes after it." example:"1:18233"`
}

// after parses Last-Event-ID: an epoch and a byte offset. Both are 0 if it is empty.
func (q *logStreamQuery) after() (epoch int, from int64, err error) {
	if q.LastEventID == "" {
		return 0, 0, nil
	}
	first, second, _ := strings.Cut(q.LastEventID, ":")
	n, errEpoch := strconv.ParseUint(first, 10, 30)
	at, errAt := strconv.ParseUint(second, 10, 62)
	if errEpoch != nil || errAt != nil || n == 0 && at != 0 {
		return 0, 0, fault.Field("Last-Event-ID", "must be the id of an event, such as 1:18233")
	}
	return int(n), int64(at), nil
}

// errNotSent refuses to resume a stream after an event that it cannot have sent. Otherwise the stream
// would wait forever, or confirm the client's number as the length of the log.
var errNotSent = fault.Field("Last-Event-ID", "must be the id of an event of this log")

// The events of the stream, as the OpenAPI document describes them: the fields of a server-sent event,
// with decoded data.
type (
	logEvent struct {
		ID    string   `json:"id" doc:"The attempt's epoch and the byte that come next." example:"1:18"`
		Event string   `json:"event" enum:"log"`
		Data  logChunk `json:"data"`
	}
	logChunk struct {
		Attempt int               `json:"attempt" example:"1"`
		Offset  int64             `json:"offset" doc:"The offset of the text in the log of the attempt." example:"0"`
		At      openapi.Timestamp `json:"at" doc:"When it was written."`
		Text    string            `json:"text" doc:"A part of the log: any number of lines, or of characters of one." example:"ok  \tacme/web\t1s\n"`
	}

	logEndEvent struct {
		ID    string `json:"id" example:"1:18"`
		Event string `json:"event" enum:"end"`
		Data  logEnd `json:"data"`
	}
	logEnd struct {
		Attempt   int    `json:"attempt" doc:"The last attempt; 0 if the job was never assigned." example:"1"`
		Bytes     int64  `json:"bytes" doc:"The length of its log." example:"18"`
		Integrity string `json:"integrity" enum:",verified,mismatch,incomplete" doc:"As in the job's log." example:"verified"`
		State     string `json:"state" doc:"The job's state." example:"succeeded"`
	}
)

// A logStream streams a growing log to one caller.
type logStream struct {
	caller    *door.Caller
	job       events.ID
	attempt   int // the requested attempt; 0 is the last
	epoch     int // the followed epoch; 0 while the job was never assigned
	at        int64
	size      int64 // of the whole log; -1 while it may grow
	next      int   // the epoch to follow after this one; 0 if there is none
	final     bool  // nothing follows this epoch
	chunks    *joblog.Watch
	checkedAt time.Time // when the caller and the job were last checked
	end       logEnd
	out       *door.DeadlineWriter
}

func (s *Server) streamJobLog(ctx context.Context, in *logStreamQuery) (*huma.StreamResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, door.BeginLimit)
	defer cancel()
	epoch, from, err := in.after()
	if err != nil {
		return nil, err
	}
	if err := s.AcquireSlot(ctx, s.Bounds.Streams); err != nil {
		return nil, err
	}
	job, err := s.findJob(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if err := s.checkFollow(ctx, job, in.Attempt, epoch, from); err != nil {
		return nil, err
	}
	st := &logStream{caller: door.CallerOf(ctx), job: job.ID, attempt: in.Attempt, epoch: epoch, at: from, checkedAt: time.Now()}
	return openapi.Stream(func(w http.ResponseWriter, r *http.Request) {
		st.chunks = s.Logs.Watch(job.Workspace, job.ID)
		defer st.chunks.Close()
		st.out = door.BeginEvents(w)
		if err := s.followLog(r.Context(), st); err != nil && r.Context().Err() == nil && !door.RightsEnded(err) {
			s.Log.InfoContext(r.Context(), "log stream failed", "err", err)
		}
	}), nil
}

// checkFollow fails if the job has no such attempt, its log was removed, or it has nothing at the
// position after which the stream is to resume. An epoch other than 0 takes precedence over attempt.
func (s *Server) checkFollow(ctx context.Context, j farmviews.Job, attempt, epoch int, from int64) error {
	a, err := attemptOf(j, attempt)
	if err != nil {
		return err
	}
	if epoch != 0 {
		i := slices.IndexFunc(j.Attempts, func(a farmviews.JobAttempt) bool { return a.Epoch == epoch })
		if i < 0 {
			return errNotSent
		}
		a = &j.Attempts[i]
	}
	var size int64
	if a != nil {
		size, err = s.logSize(ctx, j, a)
	}
	if err == nil && from > size {
		err = errNotSent
	}
	return err
}

// followLog runs a stream until the log is final, the client disconnects or loses its rights, the time
// limit is reached, or the service stops.
func (s *Server) followLog(ctx context.Context, st *logStream) error {
	if err := st.out.WriteAndFlush(fmt.Appendf(nil, "retry: %d\n\n", door.StreamRetry)); err != nil {
		return err
	}
	check, heartbeat := time.NewTicker(door.RecheckEvery), time.NewTicker(door.StreamHeartbeat)
	defer check.Stop()
	defer heartbeat.Stop()
	if err := s.refreshJob(ctx, st); err != nil {
		return err
	}
	for {
		ended, err := s.writeNewLog(ctx, st)
		if err != nil || ended {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.Ending:
			return nil
		case <-st.chunks.Changed:
		case <-check.C:
			err = s.checkReader(ctx, st)
		case <-heartbeat.C:
			err = st.out.WriteAndFlush([]byte(": still here\n\n"))
		}
		if err != nil {
			return err
		}
	}
}

// checkReader checks the caller's rights again and refreshes the job.
func (s *Server) checkReader(ctx context.Context, st *logStream) error {
	st.checkedAt = time.Now()
	if err := s.Recheck(ctx, st.caller); err != nil {
		return err
	}
	return s.refreshJob(ctx, st)
}

// refreshJob finds the followed attempt and, if its log is final, the log's size.
func (s *Server) refreshJob(ctx context.Context, st *logStream) error {
	job, ok, err := s.Jobs.Get(ctx, st.caller.Workspace, st.job)
	if err := door.CheckFound(ok, err, farm.ErrNoJob); err != nil {
		return err
	}
	st.size = -1
	if len(job.Attempts) == 0 && job.State.Final() { // it was never assigned
		st.size = 0
	}
	st.end, st.next, st.final = logEnd{State: string(job.State)}, 0, job.State.Final()
	for _, a := range job.Attempts {
		if st.attempt != 0 && a.Attempt != st.attempt {
			continue
		}
		if st.attempt != 0 && a.Ended != "declined" { // the attempt after a declined one has its number
			st.final = true
		}
		if st.next == 0 && st.epoch != 0 && a.Epoch > st.epoch {
			st.next = a.Epoch
		}
	}
	for i := len(job.Attempts) - 1; i >= 0; i-- {
		a := job.Attempts[i]
		if st.epoch == 0 && st.attempt != 0 && a.Attempt != st.attempt || st.epoch != 0 && a.Epoch != st.epoch {
			continue
		}
		st.epoch, st.end.Attempt = a.Epoch, a.Attempt
		if a.Log != nil {
			st.size, st.end.Integrity = a.Log.Bytes, a.Log.Integrity
		}
		break
	}
	return nil
}

// writeNewLog writes everything added since the last call, of the following attempts too. ended
// reports that nothing more will follow.
func (s *Server) writeNewLog(ctx context.Context, st *logStream) (ended bool, err error) {
	err = s.writeEpoch(ctx, st)
	for err == nil && st.next != 0 {
		st.epoch, st.at = st.next, 0
		if err = s.refreshJob(ctx, st); err == nil {
			err = s.writeEpoch(ctx, st)
		}
	}
	if err != nil || st.size < 0 || !st.final {
		return false, err
	}
	st.end.Bytes = st.at
	return true, st.out.WriteAndFlush(st.formatEvent("end", st.end))
}

// writeEpoch writes what was added to the log of the followed epoch.
func (s *Server) writeEpoch(ctx context.Context, st *logStream) error {
	for st.epoch != 0 {
		list, err := s.Logs.Read(ctx, st.caller.Workspace, st.job, st.epoch, st.at, logPage)
		if err != nil {
			return err
		}
		before := st.at
		if err := s.writeChunks(ctx, st, list); err != nil || st.at == before {
			return err
		}
	}
	return nil
}

// writeChunks writes chunks of a log as events. It holds an incomplete character back until its end
// arrives, unless the log ends there.
func (s *Server) writeChunks(ctx context.Context, st *logStream, list []joblog.Chunk) error {
	var held []byte // an incomplete character
	for _, c := range list {
		if time.Since(st.checkedAt) > door.RecheckEvery { // writing has taken long
			if err := s.checkReader(ctx, st); err != nil {
				return err
			}
		}
		text := append(held, c.Data...)
		n := wholeRunes(text)
		if c.End() == st.size {
			n = len(text)
		}
		held = bytes.Clone(text[n:])
		if n == 0 {
			continue
		}
		chunk := logChunk{st.end.Attempt, st.at, openapi.FormatTime(c.At), string(text[:n])}
		st.at += int64(n)
		if err := st.out.WriteAndFlush(st.formatEvent("log", chunk)); err != nil {
			return err
		}
	}
	return nil
}

// formatEvent returns an event as sent. Its id is the position that comes next.
func (st *logStream) formatEvent(event string, data any) []byte {
	text := door.EventText(0, event, data)
	_, rest, _ := strings.Cut(string(text), "\n")
	return fmt.Appendf(nil, "id: %d:%d\n%s", st.epoch, st.at, rest)
}

// describeLogStream describes the stream's response, which is not a JSON document.
func describeLogStream(schemas huma.Registry) *huma.Response {
	st := logStream{epoch: 1, at: 18}
	part := logEvent{"1:18", "log", logChunk{1, 0, schema.ExampleTime, "ok  \tacme/web\t1s\n"}}
	end := logEndEvent{"1:18", "end", logEnd{1, 18, "verified", "succeeded"}}
	return &huma.Response{
		Description: "Server-sent events, described here as a list with decoded data. As sent:\n\n```\n" +
			string(st.formatEvent(part.Event, part.Data)) + string(st.formatEvent(end.Event, end.Data)) + "```\n",
		Content: map[string]*huma.MediaType{"text/event-stream": {
			Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{OneOf: []*huma.Schema{
				schemas.Schema(reflect.TypeFor[logEvent](), true, ""), schemas.Schema(reflect.TypeFor[logEndEvent](), true, ""),
			}}},
			Example: []any{part, end},
		}},
	}
}
