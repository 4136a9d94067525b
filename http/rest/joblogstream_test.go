package rest

import (
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
	"svc/events"
	"svc/events/store"
	"svc/farm/joblog"
	"svc/fault"
	"svc/projections"
	"svc/test/pgtest"
)

// A logger has a job, whose log grows, and a server of it.
type logger struct {
	*Server
	t         *testing.T
	db        *pgxpool.Pool
	store     *store.Store
	workspace events.ID
	job       events.ID
	version   int
	caller    *caller
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
	l.Server = &Server{
		views: Views{Jobs: projections.Jobs{DB: db}, ServiceAccounts: projections.ServiceAccounts{DB: db}},
		farm:  Farm{Logs: logs}, log: slog.New(slog.DiscardHandler), ending: make(chan struct{}), now: func() time.Time { return epoch },
	}
	_, err := db.Exec(t.Context(), `insert into workspaces values ($1, 'Acme', 'acme', now())`, l.workspace)
	require.NoError(t, err)
	_, err = db.Exec(t.Context(), `
		insert into service_tokens values (decode(repeat('00', 32), 'hex'), $1, $1, 'reader', '{api.read}', 'tail', 'current')`, l.workspace)
	require.NoError(t, err)
	token := projections.ServiceToken{Workspace: l.workspace, Scopes: []events.Scope{events.ReadAPI}, Status: projections.TokenCurrent}
	l.caller = &caller{workspace: l.workspace, token: &token}
	spec := exampleJobSpec()
	l.happens(events.JobSubmitted{Spec: spec, Requirement: spec.Required().Key(), ExpiresAt: epoch.Add(time.Hour)})
	return l
}

// happens lets something happen to the job.
func (l *logger) happens(list ...events.Event) {
	l.t.Helper()
	_, err := l.store.Append(l.t.Context(), &events.Commit{
		Workspace: l.workspace, Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem}, Origin: events.FromFarm}, At: epoch,
		Writes: []events.Write{{Stream: l.job, Version: l.version, Events: list}},
	})
	require.NoError(l.t, err)
	l.version += len(list)
}

// leased gives the job to a runner, as so many attempts.
func (l *logger) leased(epoch, attempt int) {
	l.happens(events.JobLeased{Epoch: epoch, Attempt: attempt, Runner: events.ID{1}, RunnerName: "builder-1"}, events.JobAccepted{Epoch: epoch})
}

// writes adds to the log of an epoch.
func (l *logger) writes(epoch, from int, text string) {
	l.t.Helper()
	_, err := l.db.Exec(l.t.Context(), `insert into job_logs values ($1, $2, $3, $4, $5, $6)`, l.workspace, l.job, epoch, from, exampleAt(0), []byte(text))
	require.NoError(l.t, err)
	l.farm.Logs.Moved(l.workspace, l.job)
}

func (l *logger) sealed(epoch int, bytes int64) events.Event {
	return events.JobLogSealed{Epoch: epoch, Bytes: bytes, Chunks: 1, Integrity: "verified"}
}

// read answers a log as text, as a request for it would be.
func (l *logger) read(q logQuery) *http.Response {
	l.t.Helper()
	job, err := l.findJob(context.WithValue(l.t.Context(), callerKey{}, l.caller), l.job.String())
	require.NoError(l.t, err)
	part, err := l.logPart(l.t.Context(), job, q.Attempt)
	require.NoError(l.t, err)
	part.from = min(q.From, part.size)
	part.narrow(q.Range)
	w := httptest.NewRecorder()
	out := &deadlineWriter{w: w, controller: http.NewResponseController(deadlines{w}), patience: time.Minute}
	require.NoError(l.t, l.sendLog(l.t.Context(), out, part, &q))
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(text)
}

func TestALogIsReadWholeAndInPart(t *testing.T) {
	t.Parallel()
	l := newLogger(t)
	none := l.read(logQuery{Format: "text"})
	require.Empty(t, body(t, none))
	require.Equal(t, "false", none.Header.Get("X-Svc-Log-Complete"))

	l.leased(1, 1)
	l.writes(1, 0, "of the first\n")
	l.happens(events.JobLeaseExpired{Epoch: 1}, events.JobRequeued{Epoch: 1, Reason: "lease_expired", NotBefore: epoch}, l.sealed(1, 13))
	l.leased(2, 2)
	l.writes(2, 0, "one\n")
	l.writes(2, 4, "two é\n")
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
	require.Equal(t, `{"offset":0,"at":"`+exampleTime+`","text":"one"}
{"offset":4,"at":"`+exampleTime+`","text":"two é"}
`, body(t, l.read(logQuery{Format: "ndjson"})))

	l.happens(events.JobFinished{Epoch: 2, Seq: 3, Outcome: events.JobSucceeded, Reported: "succeeded"}, l.sealed(2, 11))
	require.Equal(t, "bytes 0-3/11", l.read(logQuery{Format: "text", Range: "bytes=0-3"}).Header.Get("Content-Range"))
	_, err := attemptOf(projections.Job{Attempts: []projections.JobAttempt{{Attempt: 1}}}, 2)
	require.ErrorIs(t, err, errNoAttempt)
}

// follow runs a stream and returns what it said when it has ended.
func (l *logger) follow(ctx context.Context, st *logStream) (said func() (string, error)) {
	w, ended := httptest.NewRecorder(), make(chan error, 1)
	st.caller, st.job, st.checked = l.caller, l.job, time.Now()
	st.pieces = l.farm.Logs.Watch(l.workspace, l.job)
	st.out = &deadlineWriter{w: w, controller: http.NewResponseController(deadlines{w}), patience: time.Minute}
	go func() { ended <- l.followLog(ctx, st) }()
	return func() (string, error) {
		defer st.pieces.Close()
		select {
		case err := <-ended:
			return w.Body.String(), err
		case <-time.After(time.Minute):
			return "", context.DeadlineExceeded
		}
	}
}

// A stream that begins while the job waits has all that it then writes, however its
// characters are cut, and ends with it.
func TestALogIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	l := newLogger(t)
	said := l.follow(t.Context(), &logStream{})
	l.leased(1, 1)
	l.writes(1, 0, "one\ntw\xc3")
	l.writes(1, 7, "\xa9\n")
	l.happens(events.JobFinished{Epoch: 1, Seq: 3, Outcome: events.JobFailed, Reported: "failed"}, l.sealed(1, 9))
	text, err := said()
	require.NoError(t, err)
	require.Contains(t, strings.ReplaceAll(text, "\\n", ""), "one")
	require.NotContains(t, text, "\ufffd")
	require.True(t, strings.HasSuffix(text, "id: 1:9\nevent: end\ndata: {\"attempt\":1,\"bytes\":9,\"integrity\":\"verified\",\"state\":\"failed\"}\n\n"), text)

	again, err := l.follow(t.Context(), &logStream{epoch: 1, at: 4})()
	require.NoError(t, err)
	require.Contains(t, again, `"offset":4,"at":"`+exampleTime+`","text":"tw`)
	require.NotContains(t, again, "one")
}

func TestALogStreamEndsWithTheRights(t *testing.T) {
	t.Parallel()
	l := newLogger(t)
	said := l.follow(t.Context(), &logStream{})
	_, err := l.db.Exec(t.Context(), `update service_tokens set status = 'revoked'`)
	require.NoError(t, err)
	_, err = said()
	require.ErrorIs(t, err, errNoLonger)

	l = newLogger(t)
	said = l.follow(t.Context(), &logStream{})
	l.happens(events.JobCancelled{Reason: "superseded"})
	text, err := said()
	require.NoError(t, err)
	require.Contains(t, text, `event: end`+"\n"+`data: {"attempt":0,"bytes":0,"integrity":"","state":"cancelled"}`, "no runner ever had it")
	_, err = l.findJob(context.WithValue(t.Context(), callerKey{}, &caller{workspace: events.NewID(epoch)}), l.job.String())
	require.ErrorIs(t, err, aggregates.ErrNoJob, "of another workspace")
}

// A log that was removed is not one of which nothing was written, whoever asks how.
func TestALogThatWasRemoved(t *testing.T) {
	t.Parallel()
	l := newLogger(t)
	l.leased(1, 1)
	l.writes(1, 0, "one\n")
	l.writes(1, 4, "two\n")
	l.happens(events.JobFinished{Epoch: 1, Seq: 3, Outcome: events.JobSucceeded, Reported: "succeeded"}, l.sealed(1, 8))
	ask := func() (read, follow error) {
		job, err := l.findJob(context.WithValue(t.Context(), callerKey{}, l.caller), l.job.String())
		require.NoError(t, err)
		_, read = l.logPart(t.Context(), job, 0)
		for _, epoch := range []int{0, 1} {
			follow = l.mayFollow(t.Context(), job, 0, epoch)
			require.Equal(t, read, follow)
		}
		return read, follow
	}
	read, _ := ask()
	require.NoError(t, read)
	for _, at := range []int{4, 0} { // the end goes first
		_, err := l.db.Exec(t.Context(), `delete from job_logs where job_id = $1 and from_byte = $2`, l.job, at)
		require.NoError(t, err)
		l.farm.LogDays = 0
		read, _ = ask()
		require.ErrorIs(t, read, errLogRemoved)
		l.farm.LogDays = 30
		read, _ = ask()
		require.Equal(t, 410, fault.As(read).Kind.Status())
		require.Equal(t, "This log was removed: logs of jobs are kept for 30 days.", fault.As(read).Message)
		require.Equal(t, map[string]any{"keptDays": 30}, fault.As(read).Details)
	}
}

func TestWhereALogStreamGoesOn(t *testing.T) {
	for text, ok := range map[string]bool{"": true, "1:0": true, "3:18233": true, "18233": false, "1:": false, ":1": false, "a:b": false, "-1:2": false, "1:-2": false} {
		_, _, err := (&logStreamQuery{LastEventID: text}).after()
		require.Equal(t, ok, err == nil, text)
	}
}
