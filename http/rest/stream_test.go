package rest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/events"
	"svc/events/feed"
	"svc/http/fair"
	"svc/http/middleware"
	"svc/http/rest/door"
	"svc/projections"
	"svc/test/callers"
	"svc/test/pgtest"
	"svc/test/world"
)

// A streamer serves one stream, of a token that is valid while its row exists.
type streamer struct {
	*httptest.Server
	live  *feed.Feed
	ended chan error
}

func newStreamer(t *testing.T, db *pgxpool.Pool, workspace events.ID, beat, writeTimeout time.Duration) *streamer {
	t.Helper()
	live := feed.New(db, slog.New(slog.DiscardHandler))
	s := New(Config{
		Live: live, Primary: Primary{ServiceAccounts: projections.ServiceAccounts{DB: db}}, Log: slog.New(slog.DiscardHandler),
	})

	token := projections.ServiceToken{Workspace: workspace, Scopes: []events.Scope{events.ReadAPI}, Status: projections.TokenCurrent}
	for _, sql := range []string{
		`insert into workspaces values ($1, 'Acme', 'acme', now())`,
		`insert into service_tokens values (decode(repeat('00', 32), 'hex'), $1, $1, 'reader', '{api.read}', 'tail', 'current')`,
	} {
		_, err := db.Exec(t.Context(), sql, workspace)
		require.NoError(t, err)
	}
	found, err := s.Primary.ServiceAccounts.Tokens(t.Context(), []events.Fingerprint{{}})
	require.NoError(t, err)
	require.Len(t, found, 1)
	e := &streamer{live: live, ended: make(chan error, 1)}
	e.Server = httptest.NewUnstartedServer(middleware.Traced(s.Log,
		middleware.Limited(middleware.Limits{Time: door.StreamLimit, Stream: true}, http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			ctx := r.Context()
			st := &stream{
				caller: &door.Caller{Workspace: workspace, Token: &token, Fingerprint: events.Fingerprint{}},
				watch:  live.Watch(workspace, nounsFor(events.Everybody)), checkedAt: time.Now(), heartbeat: beat,
				out: door.NewDeadlineWriter(w, door.Pace{Timeout: writeTimeout}, nil),
			}
			defer st.watch.Close()
			_, err := st.watch.Head(ctx)
			if err == nil {
				err = s.follow(ctx, st)
			}
			e.ended <- err
		}))))
	e.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(16 << 10) // the kernel reads ahead no further
		return ctx
	}
	e.Start()
	t.Cleanup(e.Close)
	return e
}

func (e *streamer) waitEnded(t *testing.T) error {
	t.Helper()
	select {
	case err := <-e.ended:
		return err
	case <-time.After(testTimeout):
		require.FailNow(t, "the stream has not ended")
	}
	return nil
}

// A heartbeat has the position as its id.
func TestIdleStreamSendsHeartbeats(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	e := newStreamer(t, db, events.NewID(epoch), time.Millisecond, testTimeout)
	res, err := e.Client().Get(e.URL)
	require.NoError(t, err)
	lines := bufio.NewScanner(res.Body)
	for beats := 0; beats < 3; {
		require.True(t, lines.Scan())
		if lines.Text() == ": still here" {
			beats++
			require.True(t, lines.Scan())
			require.Equal(t, "id: 0", lines.Text())
		}
	}
	require.NoError(t, res.Body.Close())
	_ = e.waitEnded(t) // the client has disconnected
}

// Clients receive the kinds of the description. A kind that somebody made up, with lines of its own, makes no events.
func TestStreamOmitsUnknownKinds(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	workspace := events.NewID(epoch)
	_, err := db.Exec(t.Context(), `insert into logs values ($1, 3, now())`, workspace)
	require.NoError(t, err)
	for i, kind := range []string{"run.x\ndata: {}\n\nid: 77\nevent: member.removed\ndata: {}\n\nevent: y", "run.x", "run.cancelled"} {
		_, err = db.Exec(t.Context(), `insert into events (workspace_id, seq, id, stream, version, kind, schema, at, meta, data)
			values ($1, $2, $3, $3, 1, $4, 1, now(), '{}', '{}')`, workspace, i+1, events.NewID(epoch), kind)
		require.NoError(t, err)
	}
	e := newStreamer(t, db, workspace, testTimeout, testTimeout)
	res, err := e.Client().Get(e.URL)
	require.NoError(t, err)
	defer res.Body.Close()
	var ids []string
	lines := bufio.NewScanner(res.Body)
	for len(ids) < 2 && lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			ids = append(ids, id)
		}
	}
	require.NoError(t, lines.Err())
	require.Equal(t, []string{"0", "3"}, ids)
}

func TestStreamEndsWhenClientStopsReading(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	workspace := events.NewID(epoch)
	world.FillLog(t, db, 60_000)
	_, err := db.Exec(t.Context(), `update events set workspace_id = $1`, workspace)
	require.NoError(t, err)
	_, err = db.Exec(t.Context(), `insert into logs values ($1, 60000, now())`, workspace)
	require.NoError(t, err)
	e := newStreamer(t, db, workspace, testTimeout, 100*time.Millisecond)
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.URL, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	require.NoError(t, err)
	require.ErrorContains(t, e.waitEnded(t), "timeout")
}

// An idle stream checks the rights of its caller too.
func TestStreamEndsWhenTokenIsRevoked(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	e := newStreamer(t, db, events.NewID(epoch), testTimeout, testTimeout)
	res, err := e.Client().Get(e.URL)
	require.NoError(t, err)
	defer res.Body.Close()
	_, err = db.Exec(t.Context(), `update service_tokens set status = 'revoked'`)
	require.NoError(t, err)
	require.ErrorIs(t, e.waitEnded(t), aggregates.ErrTokenInvalid)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err, "it ends cleanly")
	require.Contains(t, string(text), "event: ready\n")
}

// A stream of a log that was set back begins again, at its head.
func TestStreamStartsAgainAfterLogWasSetBack(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	workspace := world.FillLog(t, db, 10)
	e := newStreamer(t, db, workspace, testTimeout, testTimeout)
	res, err := e.Client().Get(e.URL)
	require.NoError(t, err)
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	next := func(prefix string) string {
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), prefix); ok {
				return text
			}
		}
		require.FailNow(t, "the stream has ended", lines.Err())
		return ""
	}
	for id := range 11 {
		require.Equal(t, fmt.Sprint(id), next("id: "))
	}
	require.Equal(t, "run.cost_recorded", next("event: "))
	for _, sql := range []string{`delete from events where seq > 3`, `update logs set head = 3`} {
		_, err := db.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	late := e.live.Watch(workspace, nil)
	defer late.Close()
	_, err = late.Head(t.Context()) // notices it
	require.NoError(t, err)
	require.Equal(t, "3", next("id: "))
	require.Equal(t, "ready", next("event: "))
	require.Equal(t, fmt.Sprintf(`{"workspace":"%s","seq":3}`, workspace), next("data: "))
	_, err = db.Exec(t.Context(), `
		with e as (insert into events (workspace_id, seq, id, stream, version, kind, schema, at, meta, data)
			select workspace_id, 4, gen_random_uuid(), stream, 4, 'run.merged', schema, at, meta, '{}' from events where seq = 3)
		update logs set head = 4`)
	require.NoError(t, err)
	e.live.Moved(workspace, 4)
	require.Equal(t, "4", next("id: "))
	require.Equal(t, "run.merged", next("event: "))
}

func TestAudiences(t *testing.T) {
	for kind, tokens := range map[string]bool{
		"run.merged": true, "decision.raised": true, "member.joined": false, "invitation.sent": false, "workspace.renamed": false,
		"service_account.rotated": false, "user.signed_in": false, "audit.exported": false, "command.denied": false, "moon.landed": false,
	} {
		require.Equal(t, tokens, events.NounOf(kind).Audience >= audienceOf(&door.Caller{}), kind)
	}
	for role, most := range map[events.Role]events.Audience{
		events.Owner: events.Administrators, events.Maintainer: events.Administrators, events.Viewer: events.Members,
		events.Legacy: events.Members,
	} {
		require.Equal(t, most, audienceOf(&door.Caller{Person: &door.Person{Role: role}}), fmt.Sprint(role))
	}
}

func TestBoundsRefuseAlike(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const head = 10
	workspace, elsewhere := world.FillLog(t, db, head), world.FillLog(t, db, head)
	t.Run("a stream", func(t *testing.T) {
		s := New(Config{Live: feed.New(db, slog.New(slog.DiscardHandler)), Now: func() time.Time { return epoch }})
		s.Bounds.Streams = fair.New(fair.Bound{Name: "a stream", Slots: 4, Retry: 3 * time.Second})
		callers.RefusedAlike(t, s.Door, s.Bounds.Streams, workspace, elsewhere, func(ctx context.Context) error {
			_, err := s.streamEvents(ctx, &streamQuery{})
			return err
		})
	})
}
