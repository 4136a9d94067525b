package jobs

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/aggregates/farm"
	"svc/events"
	"svc/events/store"
	"svc/farm/joblog"
	"svc/fault"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections"
	"svc/projections/farmviews"
	"svc/test/pgtest"
)

// A logger is a server with one job and its log.
type logger struct {
	*Server
	t         *testing.T
	db        *pgxpool.Pool
	store     *store.Store
	workspace events.ID
	job       events.ID
	version   int
	caller    *door.Caller
	written   <-chan struct{} // closed when the last stream has written a part of the log
}

func newLogger(t *testing.T) *logger {
	t.Helper()
	db := pgtest.New(t)
	logs := joblog.New(db, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { logs.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	l := &logger{t: t, db: db, workspace: events.NewID(epoch), job: events.NewID(epoch)}
	l.store = store.New(db, projections.Inline(), func(events.ID, int64) {})
	t.Cleanup(l.store.Close)
	l.Server = &Server{Jobs: farmviews.Jobs{DB: db}, Config: Config{Logs: logs}, Door: door.New(door.Config{
		ServiceAccounts: projections.ServiceAccounts{DB: db},
		Log:             slog.New(slog.DiscardHandler), Ending: make(chan struct{}), Now: func() time.Time { return epoch },
	})}

	_, err := db.Exec(t.Context(), `insert into workspaces values ($1, 'Acme', 'acme', now())`, l.workspace)
	require.NoError(t, err)
	_, err = db.Exec(t.Context(), `
		insert into service_tokens values (decode(repeat('00', 32), 'hex'), $1, $1, 'reader', '{api.read}', 'tail', 'current')`, l.workspace)
	require.NoError(t, err)
	token := projections.ServiceToken{Workspace: l.workspace, Scopes: []events.Scope{events.ReadAPI}, Status: projections.TokenCurrent}
	l.caller = &door.Caller{Workspace: l.workspace, Token: &token}
	spec := exampleJobSpec()
	l.append(events.JobSubmitted{Spec: spec, Requirement: spec.Required().Key(), ExpiresAt: epoch.Add(time.Hour)})
	return l
}

// append appends events to the job.
func (l *logger) append(list ...events.Event) {
	l.t.Helper()
	_, err := l.store.Append(l.t.Context(), &events.Commit{
		Workspace: l.workspace, Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem}, Origin: events.FromFarm}, At: epoch,
		Writes: []events.Write{{Stream: l.job, Version: l.version, Events: list}},
	})
	require.NoError(l.t, err)
	l.version += len(list)
}

// lease assigns the job to a runner.
func (l *logger) lease(epoch, attempt int) {
	l.append(events.JobLeased{Epoch: epoch, Attempt: attempt, Runner: events.ID{1}, RunnerName: "builder-1"}, events.JobAccepted{Epoch: epoch})
}

// writeLog appends to the log of an epoch.
func (l *logger) writeLog(epoch, from int, text string) {
	l.t.Helper()
	_, err := l.db.Exec(l.t.Context(), `insert into job_logs values ($1, $2, $3, $4, $5, $6)`, l.workspace, l.job, epoch, from,
		schema.ExampleAt(0),
		[]byte(text))
	require.NoError(l.t, err)
	l.Logs.Moved(l.workspace, l.job)
}

func (l *logger) sealed(epoch int, bytes int64) events.Event {
	return events.JobLogSealed{Epoch: epoch, Bytes: bytes, Chunks: 1, Integrity: "verified"}
}

// read returns the response to a log request.
func (l *logger) read(q logQuery) *http.Response {
	l.t.Helper()
	job, err := l.findJob(door.WithCaller(l.t.Context(), l.caller), l.job.String())
	require.NoError(l.t, err)
	part, err := l.logPart(l.t.Context(), job, q.Attempt)
	require.NoError(l.t, err)
	part.from = min(q.From, part.size)
	part.applyRange(q.Range)
	w := httptest.NewRecorder()
	out := door.NewDeadlineWriter(deadlines{w}, door.Pace{Timeout: time.Minute}, nil)
	require.NoError(l.t, l.sendLog(l.t.Context(), w, out, part, &q))
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(text)
}

func TestReadLogWholeAndInPart(t *testing.T) {
	t.Parallel()
	l := newLogger(t)
	none := l.read(logQuery{Format: "text"})
	require.Empty(t, body(t, none))
	require.Equal(t, "false", none.Header.Get("X-Svc-Log-Complete"))

	l.lease(1, 1)
	l.writeLog(1, 0, "of the first\n")
	l.append(events.JobLeaseExpired{Epoch: 1}, events.JobRequeued{Epoch: 1, Reason: "lease_expired", NotBefore: epoch}, l.sealed(1, 13))
	l.lease(2, 2)
	l.writeLog(2, 0, "one\n")
	l.writeLog(2, 4, "two é\n")
	require.Equal(t, "of the first\n", body(t, l.read(logQuery{Format: "text", Attempt: 1})))
	require.Equal(t, "true", l.read(logQuery{Format: "text", Attempt: 1}).Header.Get("X-Svc-Log-Complete"))
	whole := l.read(logQuery{Format: "text"})
	require.Equal(t, "false", whole.Header.Get("X-Svc-Log-Complete"))
	require.Equal(t, "11", whole.Header.Get("Content-Length"))
	require.Equal(t, "one\ntwo é\n", body(t, whole))
	require.Equal(t, "two é\n", body(t, l.read(logQuery{Format: "text", From: 4})))
	require.Empty(t, body(t, l.read(logQuery{Format: "text", From: 400})))
	part := l.read(logQuery{Format: "text", Range: "bytes=2-5"})
	require.Equal(t, 206, part.StatusCode)
	require.Equal(t, "bytes 2-5/*", part.Header.Get("Content-Range"))
	require.Equal(t, "e\ntw", body(t, part))
	require.Equal(t, 416, l.read(logQuery{Format: "text", Range: "bytes=11-"}).StatusCode)
	require.Equal(t, `{"offset":0,"at":"`+schema.ExampleTime+`","text":"one"}
{"offset":4,"at":"`+schema.ExampleTime+`","text":"two é"}
`, body(t, l.read(logQuery{Format: "ndjson"})))

	l.append(events.JobFinished{Epoch: 2, Seq: 3, Outcome: events.JobStateSucceeded, Reported: "succeeded"}, l.sealed(2, 11))
	require.Equal(t, "bytes 0-3/11", l.read(logQuery{Format: "text", Range: "bytes=0-3"}).Header.Get("Content-Range"))
	_, err := attemptOf(farmviews.Job{Attempts: []farmviews.JobAttempt{{Attempt: 1}}}, 2)
	require.ErrorIs(t, err, errNoAttempt)
}

// follow starts a stream; the returned function waits for its end and returns its output.
func (l *logger) follow(ctx context.Context, st *logStream) (wait func() (string, error)) {
	w, ended := httptest.NewRecorder(), make(chan error, 1)
	st.caller, st.job, st.checkedAt = l.caller, l.job, time.Now()
	st.chunks = l.Logs.Watch(l.workspace, l.job)
	written := make(chan struct{})
	l.written = written
	st.out = door.NewDeadlineWriter(deadlines{&firstWrite{ResponseWriter: w, done: written}}, door.Pace{Timeout: time.Minute}, nil)
	go func() { ended <- l.followLog(ctx, st) }()
	return func() (string, error) {
		defer st.chunks.Close()
		select {
		case err := <-ended:
			return w.Body.String(), err
		case <-time.After(time.Minute):
			return "", context.DeadlineExceeded
		}
	}
}

// awaitOutput waits until the last stream has written a part of the log, and so follows that attempt.
func (l *logger) awaitOutput() {
	l.t.Helper()
	select {
	case <-l.written:
	case <-time.After(time.Minute):
		require.FailNow(l.t, "the stream has written no log")
	}
}

// A firstWrite closes done when a part of the log is written.
type firstWrite struct {
	http.ResponseWriter
	once sync.Once
	done chan struct{}
}

func (w *firstWrite) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(`"text":`)) {
		w.once.Do(func() { close(w.done) })
	}
	return w.ResponseWriter.Write(b)
}

func (w *firstWrite) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A stream of a queued job has its whole log, with no character split, and ends with it.
func TestLogStreamFollowsToEnd(t *testing.T) {
	t.Parallel()
	l := newLogger(t)
	wait := l.follow(t.Context(), &logStream{})
	l.lease(1, 1)
	l.writeLog(1, 0, "one\ntw\xc3")
	l.writeLog(1, 7, "\xa9\n")
	l.append(events.JobFinished{Epoch: 1, Seq: 3, Outcome: events.JobStateFailed, Reported: "failed"}, l.sealed(1, 9))
	text, err := wait()
	require.NoError(t, err)
	require.Contains(t, strings.ReplaceAll(text, "\\n", ""), "one")
	require.NotContains(t, text, "\ufffd")
	require.True(t, strings.HasSuffix(text,
		"id: 1:9\nevent: end\ndata: {\"attempt\":1,\"bytes\":9,\"integrity\":\"verified\",\"state\":\"failed\"}\n\n"), text)

	again, err := l.follow(t.Context(), &logStream{epoch: 1, at: 4})()
	require.NoError(t, err)
	require.Contains(t, again, `"offset":4,"at":"`+schema.ExampleTime+`","text":"tw`)
	require.NotContains(t, again, "one")
}

// A stream of no attempt in particular goes on with the next one, and ends with the job.
func TestLogStreamFollowsNextAttempt(t *testing.T) {
	t.Parallel()
	l := newLogger(t)
	l.lease(1, 1)
	l.writeLog(1, 0, "broken\n")
	wait := l.follow(t.Context(), &logStream{})
	l.awaitOutput()
	one := l.follow(t.Context(), &logStream{attempt: 1})
	l.append(events.JobLeaseExpired{Epoch: 1}, events.JobRequeued{Epoch: 1, Reason: "lease_expired", NotBefore: epoch}, l.sealed(1, 7))
	text, err := one()
	require.NoError(t, err)
	require.Contains(t, text, `data: {"attempt":1,"bytes":7,"integrity":"verified","state":"queued"}`)
	l.lease(2, 2)
	l.writeLog(2, 0, "whole\n")
	l.append(events.JobFinished{Epoch: 2, Seq: 3, Outcome: events.JobStateSucceeded, Reported: "succeeded"}, l.sealed(2, 6))
	text, err = wait()
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(text, `"text":"broken`))
	require.Equal(t, 1, strings.Count(text, `"text":"whole`))
	require.True(t, strings.HasSuffix(text,
		"id: 2:6\nevent: end\ndata: {\"attempt\":2,\"bytes\":6,\"integrity\":\"verified\",\"state\":\"succeeded\"}\n\n"), text)

	resumed, err := l.follow(t.Context(), &logStream{epoch: 1, at: 7})()
	require.NoError(t, err)
	require.NotContains(t, resumed, "broken")
	require.Contains(t, resumed, "whole")
}

// The attempt after a declined one has the same number: a stream of that number goes on with it, and
// with no other.
func TestLogStreamOfAttemptGoesOnAfterDecline(t *testing.T) {
	t.Parallel()
	l := newLogger(t)
	decline := func(epoch int) {
		l.append(events.JobLeased{Epoch: epoch, Attempt: 1, Runner: events.ID{1}, RunnerName: "builder-1"})
		l.append(events.JobDeclined{Epoch: epoch, Runner: events.ID{1}, Reason: "busy"},
			events.JobRequeued{Epoch: epoch, Reason: "declined", NotBefore: schema.ExampleAt(0)})
	}
	decline(1)
	wait := l.follow(t.Context(), &logStream{attempt: 1, epoch: 1})
	decline(2)
	l.lease(3, 1)
	l.writeLog(3, 0, "whole\n")
	l.append(events.JobLeaseExpired{Epoch: 3}, events.JobRequeued{Epoch: 3, Reason: "lease_expired", NotBefore: schema.ExampleAt(0)})
	l.lease(4, 2)
	l.writeLog(4, 0, "another\n")
	l.append(events.JobFinished{Epoch: 4, Seq: 3, Outcome: events.JobStateSucceeded, Reported: "succeeded"},
		l.sealed(1, 0), l.sealed(2, 0), l.sealed(3, 6), l.sealed(4, 8))
	const log = `"text":"whole\n"`
	text, err := wait()
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(text, log), "%s", text)
	require.NotContains(t, text, "another")
	require.True(t, strings.HasSuffix(text,
		"id: 3:6\nevent: end\ndata: {\"attempt\":1,\"bytes\":6,\"integrity\":\"verified\",\"state\":\"succeeded\"}\n\n"), text)

	l = newLogger(t)
	decline(1)
	wait = l.follow(t.Context(), &logStream{attempt: 1, epoch: 1})
	l.append(events.JobCancelled{Reason: "superseded"}, l.sealed(1, 0))
	text, err = wait()
	require.NoError(t, err)
	require.Contains(t, text, `"bytes":0,"integrity":"verified","state":"cancelled"`, "nobody takes it")
}

func TestLogStreamEndsWhenRightsChange(t *testing.T) {
	t.Parallel()
	l := newLogger(t)
	wait := l.follow(t.Context(), &logStream{})
	_, err := l.db.Exec(t.Context(), `update service_tokens set status = 'revoked'`)
	require.NoError(t, err)
	_, err = wait()
	require.ErrorIs(t, err, aggregates.ErrTokenInvalid)

	l = newLogger(t)
	wait = l.follow(t.Context(), &logStream{})
	l.append(events.JobCancelled{Reason: "superseded"})
	text, err := wait()
	require.NoError(t, err)
	require.Contains(t, text, `event: end`+"\n"+`data: {"attempt":0,"bytes":0,"integrity":"","state":"cancelled"}`, "no runner ever had it")
	_, err = l.findJob(door.WithCaller(t.Context(), &door.Caller{Workspace: events.NewID(epoch)}), l.job.String())
	require.ErrorIs(t, err, farm.ErrNoJob, "of another workspace")
}

// A removed log is an error, not an empty log, both when read and when followed.
func TestRemovedLogIsRefused(t *testing.T) {
	t.Parallel()
	l := newLogger(t)
	l.lease(1, 1)
	l.writeLog(1, 0, "one\n")
	l.writeLog(1, 4, "two\n")
	l.append(events.JobFinished{Epoch: 1, Seq: 3, Outcome: events.JobStateSucceeded, Reported: "succeeded"}, l.sealed(1, 8))
	ask := func() (read, follow error) {
		job, err := l.findJob(door.WithCaller(t.Context(), l.caller), l.job.String())
		require.NoError(t, err)
		_, read = l.logPart(t.Context(), job, 0)
		for _, epoch := range []int{0, 1} {
			follow = l.checkFollow(t.Context(), job, 0, epoch, 0)
			require.Equal(t, read, follow)
		}
		return read, follow
	}
	read, _ := ask()
	require.NoError(t, read)
	for _, at := range []int{4, 0} { // the end goes first
		_, err := l.db.Exec(t.Context(), `delete from job_logs where job_id = $1 and from_byte = $2`, l.job, at)
		require.NoError(t, err)
		l.LogDays = 0
		read, _ = ask()
		require.ErrorIs(t, read, errLogRemoved)
		l.LogDays = 30
		read, _ = ask()
		require.Equal(t, 410, fault.As(read).Kind.Status())
		require.Equal(t, "This log was removed: logs of jobs are kept for 30 days.", fault.As(read).Message)
		require.Equal(t, map[string]any{"keptDays": 30}, fault.As(read).Details)
	}
}

func TestLogStreamLastEventID(t *testing.T) {
	for text, ok := range map[string]bool{"": true, "1:0": true, "0:0": true, "3:18233": true, "0:5": false, "18233": false,
		"1:": false, ":1": false, "a:b": false,
		"-1:2": false, "1:-2": false} {
		_, _, err := (&logStreamQuery{LastEventID: text}).after()
		require.Equal(t, ok, err == nil, text)
	}
}

// A stream resumes only after a position that the log has.
func TestLogStreamResumesWithinLog(t *testing.T) {
	t.Parallel()
	l := newLogger(t)
	l.lease(1, 1)
	l.writeLog(1, 0, "one\n")
	job, ok, err := l.Jobs.Get(t.Context(), l.workspace, l.job)
	require.NoError(t, err)
	require.True(t, ok)
	for id, sent := range map[[2]int]bool{{0, 0}: true, {1, 0}: true, {1, 4}: true, {1, 5}: false, {2, 0}: false, {7, 4}: false} {
		err := l.checkFollow(t.Context(), job, 0, id[0], int64(id[1]))
		if sent {
			require.NoError(t, err, id)
		} else {
			require.ErrorIs(t, err, errNotSent, id)
		}
	}
}
