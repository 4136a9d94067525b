package audit

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/http/fair"
	"svc/http/middleware"
	"svc/http/reply"
	"svc/http/rest/door"
	"svc/projections/auditlog"
	"svc/test/callers"
	"svc/test/pgtest"
	"svc/test/world"
)

func newExport(db *pgxpool.Pool, workspace events.ID, format string, upTo int64) *export {
	pages := fair.New(fair.Bound{Slots: 1})
	return &export{name: "audit." + format, format: format, upTo: upTo, checkRights: func() error { return nil },
		acquire: func(ctx context.Context) (*fair.Slot, error) { return pages.Acquire(ctx, fair.Holder{}) },
		next: func(ctx context.Context, seq int64) ([]auditlog.AuditRow, error) {
			return auditlog.Audit{DB: db}.RowsAfter(ctx, workspace, auditlog.AuditFilter{}, seq, upTo, exportPage)
		}}
}

// An exporter serves one export, as the API does.
type exporter struct {
	*httptest.Server
	ended chan middleware.Request // receives each export that has ended
}

func newExporter(t testing.TB, slowest door.Pace, begin func(ctx context.Context) *export) *exporter {
	t.Helper()
	s := &Server{Door: door.New(door.Config{Log: slog.New(slog.DiscardHandler)})}
	ended := make(chan middleware.Request, 100)
	tell := func(r middleware.Request) { ended <- r }
	return &exporter{ended: ended, Server: serveExports(t, s, tell, func(w http.ResponseWriter, r *http.Request) {
		x := begin(r.Context())
		x.first, _ = x.next(r.Context(), 0)
		s.sendExport(w, r, x, slowest)
	})}
}

// serveExports serves with the limits of exports and small buffers.
func serveExports(t testing.TB, s *Server, ended func(middleware.Request), handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	e := httptest.NewUnstartedServer(middleware.Measured(ended, middleware.Traced(s.Log,
		middleware.Limited(middleware.Limits{Time: exportLimit, Stream: true}, handle))))
	e.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	e.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(128 << 10) // the kernel reads ahead no further
		return ctx
	}
	e.Start()
	t.Cleanup(e.Close)
	return e
}

func (e *exporter) waitEnded(t testing.TB) middleware.Request {
	t.Helper()
	select {
	case r := <-e.ended:
		return r
	case <-time.After(testTimeout):
		require.FailNow(t, "the export has not ended")
		return middleware.Request{}
	}
}

func TestExportHasEveryRecordOnceInOrder(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const upTo = 2*exportPage + 1
	workspace := world.FillLog(t, db, upTo+50)
	for _, format := range []string{"ndjson", "csv"} {
		e := newExporter(t, door.Pace{Timeout: testTimeout}, func(context.Context) *export { return newExport(db, workspace, format, upTo) })
		res, err := e.Client().Get(e.URL)
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, `attachment; filename="audit.`+format+`"`, res.Header.Get("Content-Disposition"))
		var got []string
		if format == "csv" {
			rows, err := csv.NewReader(res.Body).ReadAll()
			require.NoError(t, err)
			require.Equal(t, csvHeader, rows[0])
			for _, row := range rows[1:] {
				got = append(got, row[0])
			}
		} else {
			lines := bufio.NewScanner(res.Body)
			for lines.Scan() {
				var r struct{ Seq json.Number }
				require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
				got = append(got, r.Seq.String())
			}
			require.NoError(t, lines.Err())
		}
		require.Len(t, got, upTo)
		for i, seq := range got {
			require.Equal(t, fmt.Sprint(i+1), seq)
		}
	}
}

// Of several servers behind one address, the one that answers may lack records that another had.
func TestExportWaitsForServerThatLags(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 1)
	require.NoError(t, err)
	w.CaughtUp(t)
	lagging := world.Connect(t, w.URL, func(config *pgxpool.Config) { config.MaxConns = 1 })
	_, err = lagging.Exec(t.Context(), `create temporary table logs as select workspace_id, head - 1 as head from logs`)
	require.NoError(t, err)
	s := historyServer(w.DB)
	s.Commands, s.Audit = w.Commands, auditlog.Audit{DB: lagging}
	c := callers.Owner(p.Workspace)
	c.Envelope.Actor, c.Person.User = p.Owner, p.Owner.ID

	begun := lagging.Stat().AcquireCount()
	answers := make(chan error, 1)
	go func() {
		_, err := s.exportAudit(callers.As(t, c), &exportQuery{Format: "csv"}, commands.ExportAudit{Meta: c.Meta(), Format: "csv"})
		answers <- err
	}()
	require.Eventually(t, func() bool { return lagging.Stat().AcquireCount() >= begun+2 || len(answers) > 0 }, testTimeout, time.Millisecond)
	require.Empty(t, answers, "it has read once, and again")
	_, err = lagging.Exec(t.Context(), `drop table pg_temp.logs`)
	require.NoError(t, err)
	require.NoError(t, <-answers)
}

// An error midway aborts the connection, so that the client notices.
func TestFailedExportAbortsConnection(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	workspace := world.FillLog(t, db, 3*exportPage)
	e := newExporter(t, door.Pace{Timeout: testTimeout}, func(context.Context) *export {
		x := newExport(db, workspace, "ndjson", 3*exportPage)
		next := x.next
		x.next = func(ctx context.Context, seq int64) ([]auditlog.AuditRow, error) {
			if seq == 2*exportPage {
				_, err := db.Exec(ctx, "select 1/0")
				return nil, err
			}
			return next(ctx, seq)
		}
		return x
	})
	res, err := e.Client().Get(e.URL)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, exportPage, strings.Count(string(text), "\n"), "the second page is encoded while the third is read")
	require.True(t, e.waitEnded(t).Failed, "though its status is 200")
}

// dial requests an export and reads nothing. Small buffers make the server notice soon.
func dial(t *testing.T, e *httptest.Server, headers ...string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", e.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(128<<10))
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n"+strings.Join(append(headers, "\r\n"), "\r\n"))
	require.NoError(t, err)
	return conn
}

// endless returns an export that never ends.
func endless(db *pgxpool.Pool, workspace events.ID, pages *atomic.Int64, busy *atomic.Int64) *export {
	x := newExport(db, workspace, "ndjson", exportPage)
	next := x.next
	x.next = func(ctx context.Context, _ int64) ([]auditlog.AuditRow, error) {
		busy.Add(1)
		defer busy.Add(-1)
		pages.Add(1)
		return next(ctx, 0)
	}
	return x
}

func TestExportEndsWhenClientDisconnects(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	workspace := world.FillLog(t, db, exportPage)
	var pages, busy atomic.Int64
	e := newExporter(t, door.Pace{Timeout: testTimeout}, func(context.Context) *export { return endless(db, workspace, &pages, &busy) })
	conn := dial(t, e.Server)
	_, err := io.CopyN(io.Discard, conn, 1<<20)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	begin := time.Now()
	require.False(t, e.waitEnded(t).Failed, "the client left")
	require.Less(t, time.Since(begin), time.Minute, "long before the write timeout")
	require.Zero(t, busy.Load())
	require.Eventually(t, func() bool { return db.Stat().AcquiredConns() == 0 }, time.Minute, time.Millisecond,
		"the pool closes it behind the back")
}

func TestExportEndsWhenClientStopsReading(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	workspace := world.FillLog(t, db, exportPage)
	var pages, busy atomic.Int64
	e := newExporter(t, door.Pace{Timeout: 200 * time.Millisecond}, func(context.Context) *export {
		return endless(db, workspace, &pages,
			&busy)
	})
	dial(t, e.Server)
	require.False(t, e.waitEnded(t).Failed, "it is the client's fault")
	require.Eventually(t, func() bool { return db.Stat().AcquiredConns() == 0 }, time.Minute, time.Millisecond,
		"the pool closes it behind the back")
}

// A client that reads slowly is served, here for several times the write timeout.
func TestExportServesSlowClient(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	workspace := world.FillLog(t, db, 8*exportPage)
	const writeTimeout = 3 * time.Second
	e := newExporter(t, door.Pace{Timeout: writeTimeout, Rate: door.SlowestReader.Rate},
		func(context.Context) *export { return newExport(db, workspace, "ndjson", 8*exportPage) })
	conn := dial(t, e.Server)
	begin := time.Now()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer res.Body.Close()
	tick := time.NewTicker(writeTimeout / 100)
	defer tick.Stop()
	lines, last := 0, byte(0)
	for part := make([]byte, 8<<10); ; <-tick.C {
		n, err := res.Body.Read(part)
		if lines += strings.Count(string(part[:n]), "\n"); n > 0 {
			last = part[n-1]
		}
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
	}
	require.Equal(t, 8*exportPage, lines)
	require.Equal(t, byte('\n'), last)
	require.Greater(t, time.Since(begin), 2*writeTimeout)
}

// A client that keeps reading, but below the rate, is ended.
func TestExportEndsBelowRate(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	workspace := world.FillLog(t, db, exportPage)
	var pages, busy atomic.Int64
	e := newExporter(t, door.Pace{Timeout: time.Second, Rate: 1 << 30},
		func(context.Context) *export { return endless(db, workspace, &pages, &busy) })
	conn := dial(t, e.Server)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	begin, part := time.Now(), make([]byte, 64<<10)
	var err error
	for err == nil && time.Since(begin) < testTimeout { // a chunk takes much less than the timeout
		<-tick.C
		_, err = conn.Read(part)
	}
	require.Error(t, err)
	e.waitEnded(t)
}

// Many newcomers who do not read their exports take nothing that the export of another needs, even if
// there is a slot for only one page.
func TestUnreadExportsHoldUpNobodyElse(t *testing.T) {
	t.Parallel()
	const newcomers, each, records = 5, 2, 8 * exportPage
	db := pgtest.New(t)
	workspace := world.FillLog(t, db, records)
	s := historyServer(db)
	s.Log = slog.New(slog.DiscardHandler)
	s.Bounds.ExportPages = fair.New(fair.Bound{Name: "export_pages", Slots: 1, Queue: 64, Wait: testTimeout})
	people := map[string]*door.Caller{"owner": callers.Owner(workspace)}
	for i := range newcomers {
		people[fmt.Sprint(i)] = callers.Owner(events.NewID(epoch))
	}
	e := serveExports(t, s, func(middleware.Request) {}, func(w http.ResponseWriter, r *http.Request) {
		one := *people[r.Header.Get("X-Who")]
		c := &one
		defer c.ReleaseSlots()
		if err := s.HoldSlot(r.Context(), s.Bounds.Exports, c); err != nil {
			reply.Error(w, r, s.Log, err)
			return
		}
		x := newExport(db, workspace, "ndjson", records)
		x.acquire = func(ctx context.Context) (*fair.Slot, error) { return s.Acquire(ctx, s.Bounds.ExportPages, c) }
		x.first, _ = x.next(r.Context(), 0)
		s.sendExport(w, r, x, door.Pace{Timeout: testTimeout})
	})
	begin := func(who string) *http.Response {
		res, err := http.ReadResponse(bufio.NewReader(dial(t, e, "X-Who: "+who)), nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = res.Body.Close() })
		require.Equal(t, http.StatusOK, res.StatusCode, who)
		return res
	}
	lines := func(res *http.Response) int {
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return strings.Count(string(text), "\n")
	}
	var unread []*http.Response
	for i := range newcomers {
		for range each {
			unread = append(unread, begin(fmt.Sprint(i)))
		}
	}
	require.Equal(t, records, lines(begin("owner")))
	held, _, _ := s.Bounds.Exports.Usage()
	require.GreaterOrEqual(t, held, newcomers*each, "the others are not at the end yet")
	for _, res := range unread {
		require.Equal(t, records, lines(res), "read at last")
	}
}
