package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"svc/aggregates"
	"svc/events"
	"svc/farm/joblog"
	"svc/http/openapi"
	"svc/projections"
)

type logStreamQuery struct {
	ID          string `path:"id" maxLength:"64" doc:"The job's id."`
	Attempt     int    `query:"attempt" minimum:"1" maximum:"1000" doc:"Which attempt; the last one without it."`
	LastEventID string `header:"Last-Event-ID" maxLength:"40" doc:"The id of the last event that was received: the stream goes on after it." example:"1:18233"`
}

// after reads the id of an event: an epoch and a byte.
func (q *logStreamQuery) after() (epoch int, from int64, err error) {
	if q.LastEventID == "" {
		return 0, 0, nil
	}
	first, second, _ := strings.Cut(q.LastEventID, ":")
	n, errEpoch := strconv.ParseUint(first, 10, 30)
	at, errAt := strconv.ParseUint(second, 10, 62)
	if errEpoch != nil || errAt != nil {
		return 0, 0, invalid("Last-Event-ID", "must be the id of an event, such as 1:18233")
	}
	return int(n), int64(at), nil
}

// What the stream says, as server-sent events have it.
type (
	logPiece struct {
		Attempt int       `json:"attempt"`
		Offset  int64     `json:"offset"`
		At      timestamp `json:"at"`
		Text    string    `json:"text"`
	}
	logEnd struct {
		Attempt   int    `json:"attempt"`
		Bytes     int64  `json:"bytes"`
		Integrity string `json:"integrity"`
		State     string `json:"state"`
	}
)

// A logStream tells one caller what is added to a log.
type logStream struct {
	caller  *caller
	job     events.ID
	attempt int // that was asked for, 0 the last one
	epoch   int // that is followed, 0 while there is none
	at      int64
	size    int64 // of the whole log, -1 while it may grow
	pieces  *joblog.Watch
	checked time.Time // the caller, and the job
	last    logEnd
	out     *deadlineWriter
}

func (s *Server) streamJobLog(ctx context.Context, in *logStreamQuery) (*huma.StreamResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, beginLimit)
	defer cancel()
	epoch, from, err := in.after()
	if err != nil {
		return nil, err
	}
	if err := s.take(ctx, s.bounds.streams); err != nil {
		return nil, err
	}
	job, err := s.findJob(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if err := s.mayFollow(ctx, job, in.Attempt, epoch); err != nil {
		return nil, err
	}
	st := &logStream{caller: callerOf(ctx), job: job.ID, attempt: in.Attempt, epoch: epoch, at: from, checked: time.Now()}
	return openapi.Stream(func(w http.ResponseWriter, r *http.Request) {
		st.pieces = s.farm.Logs.Watch(job.Workspace, job.ID)
		defer st.pieces.Close()
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no") // a proxy would wait for more
		st.out = &deadlineWriter{w: w, controller: http.NewResponseController(w), patience: streamPatience}
		if err := s.followLog(r.Context(), st); err != nil && r.Context().Err() == nil && !errors.Is(err, errNoLonger) {
			s.log.InfoContext(r.Context(), "log stream broke off", "err", err)
		}
	}), nil
}

// mayFollow refuses to follow an attempt, or the one of an epoch that is not 0, if there was
// none or its log was removed.
func (s *Server) mayFollow(ctx context.Context, j projections.Job, attempt, epoch int) error {
	a, err := attemptOf(j, attempt)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(j.Attempts, func(a projections.JobAttempt) bool { return a.Epoch == epoch }); i >= 0 {
		a = &j.Attempts[i]
	}
	if a != nil {
		_, err = s.logSize(ctx, j, a)
	}
	return err
}

// followLog runs a stream until the log is whole, the reader goes away or may no longer
// read, the stream has lasted long enough, or the service stops.
func (s *Server) followLog(ctx context.Context, st *logStream) error {
	if err := st.out.write(fmt.Appendf(nil, "retry: %d\n\n", streamRetry)); err != nil {
		return err
	}
	check, beat := time.NewTicker(recheckEvery), time.NewTicker(streamBeat)
	defer check.Stop()
	defer beat.Stop()
	err := s.lookAtJob(ctx, st)
	for err == nil {
		ended, err := s.writeLog(ctx, st)
		if err != nil || ended {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.ending:
			return nil
		case <-st.pieces.Changed:
		case <-check.C:
			err = s.checkReader(ctx, st)
		case <-beat.C:
			err = st.out.write([]byte(": still here\n\n"))
		}
		if err != nil {
			return err
		}
	}
	return err
}

// checkReader looks whether the caller is who they were, and how far the job is.
func (s *Server) checkReader(ctx context.Context, st *logStream) error {
	st.checked = time.Now()
	if err := s.recheck(ctx, st.caller); err != nil {
		return err
	}
	return s.lookAtJob(ctx, st)
}

// lookAtJob finds the attempt that is followed, and whether its log is whole.
func (s *Server) lookAtJob(ctx context.Context, st *logStream) error {
	job, ok, err := s.views.Jobs.Get(ctx, st.caller.workspace, st.job)
	if err == nil && !ok {
		err = aggregates.ErrNoJob
	}
	if err != nil {
		return err
	}
	st.size = -1
	if len(job.Attempts) == 0 && job.State.Final() { // no runner ever had it
		st.size = 0
	}
	st.last = logEnd{State: string(job.State)}
	for i := len(job.Attempts) - 1; i >= 0; i-- {
		a := job.Attempts[i]
		if st.epoch == 0 && st.attempt != 0 && a.Attempt != st.attempt || st.epoch != 0 && a.Epoch != st.epoch {
			continue
		}
		st.epoch, st.last.Attempt = a.Epoch, a.Attempt
		if a.Log != nil {
			st.size, st.last.Integrity = a.Log.Bytes, a.Log.Integrity
		}
		break
	}
	return nil
}

// writeLog writes all that has been added. ended tells that nothing comes any more.
func (s *Server) writeLog(ctx context.Context, st *logStream) (ended bool, err error) {
	for st.epoch != 0 {
		list, err := s.farm.Logs.Read(ctx, st.caller.workspace, st.job, st.epoch, st.at, logPage)
		if err != nil {
			return false, err
		}
		before := st.at
		if err := s.writePieces(ctx, st, list); err != nil {
			return false, err
		}
		if st.at == before {
			break
		}
	}
	if st.size < 0 {
		return false, nil
	}
	st.last.Bytes = st.at
	return true, st.out.write(st.text("end", st.last))
}

// writePieces writes pieces of a log. A character whose end has not come waits for it,
// unless the log ends there.
func (s *Server) writePieces(ctx context.Context, st *logStream, list []joblog.Chunk) error {
	var held []byte // the beginning of a character
	for _, c := range list {
		if time.Since(st.checked) > recheckEvery { // there is much to write
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
		piece := logPiece{st.last.Attempt, st.at, at(c.At), string(text[:n])}
		st.at += int64(n)
		if err := st.out.write(st.text("log", piece)); err != nil {
			return err
		}
	}
	return nil
}

// text is an event as it is sent. Its id leads to what comes next.
func (st *logStream) text(event string, data any) []byte {
	text := eventText(0, event, data)
	_, rest, _ := strings.Cut(string(text), "\n")
	return fmt.Appendf(nil, "id: %d:%d\n%s", st.epoch, st.at, rest)
}

func describeLogStream(huma.Registry) *huma.Response {
	text := `id: 1:18
event: log
data: {"attempt":1,"offset":0,"at":"` + exampleTime + `","text":"ok  \tacme/web\t1s\n"}

id: 1:18
event: end
data: {"attempt":1,"bytes":18,"integrity":"verified","state":"succeeded"}

`
	return &huma.Response{
		Description: "The log while it grows.",
		Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}, Example: text}},
	}
}
