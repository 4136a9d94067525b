package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"svc/test/natsserver"
)

const streamRequest = "GET /api/v1/events/stream"

// testStreams checks the guarantees of live updates.
func testStreams(t *testing.T, s *fixture) {
	database := s.cloneDatabase(t)
	one, other := s.serve(t, database), s.serve(t, database)

	t.Run("order and completeness", func(t *testing.T) { testStreamOrder(t, one, other) })
	t.Run("frames match the description", func(t *testing.T) { testStreamFrames(t, one) })
	t.Run("audience", func(t *testing.T) { testStreamAudience(t, one, other) })
	t.Run("start position", func(t *testing.T) { testStreamStart(t, one) })
	t.Run("revocation", func(t *testing.T) { testStreamRevocation(t, one, other) })
	t.Run("limit of open streams", func(t *testing.T) { testStreamLimit(t, one) })
	t.Run("over NATS", func(t *testing.T) { testStreamsOverNATS(t, s) })
	t.Run("service stops", func(t *testing.T) {
		st := other.openStream(t, "ada@acme")
		start := time.Now()
		require.NoError(t, other.cmd.Process.Signal(syscall.SIGTERM))
		st.kindsUntilEnd()
		status, text := other.waitForExit(t)
		require.Zero(t, status, text)
		require.NotContains(t, text, "cut off")
		require.Less(t, time.Since(start), 30*time.Second)
	})
}

// testStreamOrder writes to a workspace through two services while readers follow it through both and
// reconnect after every few events. An Owner, who receives every event, gets each sequence number once
// and in order.
func testStreamOrder(t *testing.T, one, other *service) {
	const writers, writesEach, readers = 6, 20, 4
	start := one.openStream(t, "ada@acme").start
	services := []*service{one, other}
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range writesEach {
				body := fmt.Sprintf(`{"name":"writer-%d-%d","scopes":["api.read"]}`, w, i)
				if w%2 == 0 {
					body = fmt.Sprintf(`{"email":"w%d-%d@acme.example"}`, w, i)
				}
				path := []string{"/api/v1/invitations", "/api/v1/service-accounts"}[w%2]
				if status, err := services[w/2%2].send(t, "ada@acme", path, body); err != nil || status != http.StatusCreated &&
					status != http.StatusConflict {
					t.Errorf("%s: %d, %v", path, status, err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	type reader struct {
		service int
		seq     int64 // of the last event received
	}
	list := make([]reader, readers)
	for i := range list {
		list[i] = reader{i, start}
	}
	for written, round := false, 0; ; round++ {
		behind := 0
		head := queryRows[int64](t, one, `select head from logs where workspace_id = $1`, one.fixture.id(t, "workspace acme"))[0]
		for i := range list {
			r := &list[i]
			st := services[(r.service+round)%2].openStream(t, "ada@acme", "Last-Event-ID: "+strconv.FormatInt(r.seq, 10))
			require.Equal(t, r.seq, st.start)
			for range min(int64(3+round%7), head-r.seq) {
				got := st.next()
				require.Equal(t, fmt.Sprint(r.seq+1), got.id)
				r.seq++
			}
			st.cancel()
			if r.seq < head {
				behind++
			}
		}
		if written && behind == 0 {
			break
		}
		select {
		case <-done:
			written = true
		default:
		}
	}
	kinds := queryRows[string](t, one, `select distinct kind from events where workspace_id = $1 and seq > $2 order by 1`,
		one.fixture.id(t, "workspace acme"), start)
	require.Equal(t, []string{"invitation.sent", "service_account.created"}, kinds)
}

// send posts a JSON body. Unlike ask it returns errors instead of failing the test, so that any goroutine
// may call it.
func (v *service) send(t *testing.T, as, path, body string) (status int, err error) {
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, "http://"+v.host+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header = v.fixture.credentials(t, as)
	r.Header.Set("Content-Type", "application/json")
	res, err := v.client.Do(r)
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(res.Body)
	var created struct{ Token string }
	if json.Unmarshal(text, &created) == nil && created.Token != "" {
		v.fixture.addSecret(created.Token, "a token created by a test")
	}
	return res.StatusCode, errors.Join(err, res.Body.Close())
}

// testStreamAudience shows that a caller receives the events that their role may read, and no others.
func testStreamAudience(t *testing.T, one, other *service) {
	streams := map[string]*stream{}
	for _, who := range []string{"reader", "vera@acme", "leo@acme", "mia@acme", "ada@acme", "greta@globex"} {
		streams[who] = other.openStream(t, who)
	}
	created := one.ask(t, "ada@acme", "POST /api/v1/service-accounts", `{"name":"told","scopes":["api.read"]}`).is(t, "201")
	one.ask(t, "ada@acme", "POST /api/v1/service-accounts/"+created.text(t, "account.id")+"/revoke", "").is(t, "200")
	one.ask(t, "ada@acme", "PATCH /api/v1/members/"+one.fixture.id(t, "member ben@acme"), `{"canApproveLoops":false}`).is(t, "200")
	one.ask(t, "ada@acme", "POST /api/v1/invitations", `{"email":"told@acme.example"}`).is(t, "201")
	one.ask(t, "ada@acme", "PATCH /api/v1/workspace", `{"name":"Told"}`).is(t, "200")
	one.ask(t, "vera@acme", "POST /api/v1/invitations", `{"email":"denied@acme.example"}`).is(t, "403 role_required")
	queued := one.ask(t, "ada@acme", "POST /api/v1/backlog/queue", `{"repoId":"`+one.fixture.id(t, "repo acme/web")+`","title":"told"}`).is(t,
		"201")
	run := queued.text(t, "id")
	one.ask(t, "ada@acme", "POST /api/v1/runs/"+run+"/cancel", "").is(t, "202")

	people := []string{"member.approve_loops_set", "invitation.sent", "workspace.renamed", "run.queued", "run.cancelled"}
	all := []string{"service_account.created", "service_account.revoked", "member.approve_loops_set", "invitation.sent", "workspace.renamed",
		"command.denied", "run.queued", "run.cancelled"}
	for who, want := range map[string][]string{
		"reader": {"run.queued", "run.cancelled"}, "vera@acme": people, "leo@acme": people, "mia@acme": all, "ada@acme": all,
	} {
		require.Equal(t, want, streams[who].kindsUntil("run.cancelled"), who)
	}
	require.Empty(t, streams["greta@globex"].frames)

	t.Run("frames contain only kind and target", func(t *testing.T) {
		st := other.openStream(t, "reader", "Last-Event-ID: 0")
		for f := st.next(); f.id != fmt.Sprint(queued.header.Get("X-Svc-Position")); f = st.next() {
			require.Regexp(t, `^(run|decision|job)\.`, f.event)
			require.Regexp(t, `^\{"seq":`+f.id+`,"at":"[0-9T:.-]{23}Z","kind":"`+f.event+`","target":\{"type":"(run|job)","id":"[0-9a-f-]{36}"\}\}$`,
				f.data)
		}
	})
}

// testStreamFrames reads the whole log as a stream and validates the ready frame and one frame of each
// event kind against the OpenAPI document.
func testStreamFrames(t *testing.T, v *service) {
	head := queryRows[int64](t, v, `select head from logs where workspace_id = $1`, v.fixture.id(t, "workspace acme"))[0]
	d := v.loadSpec(t)
	schema := d.schema(t, "paths", "/api/v1/events/stream", "get", "responses", "200", "content", "text/event-stream", "schema")
	st := v.openStream(t, "ada@acme", "Last-Event-ID: 0")
	frames := []frame{st.ready}
	kinds := map[string]bool{}
	for f := st.next(); f.id != fmt.Sprint(head); f = st.next() {
		require.NotZero(t, f)
		if !kinds[f.event] {
			kinds[f.event] = true
			frames = append(frames, f)
		}
	}
	require.Greater(t, len(kinds), 20)
	var list []any
	for _, f := range frames {
		item := map[string]any{"id": json.Number(f.id), "event": f.event, "data": parseJSON(t, f.data)}
		if f.event == "ready" {
			item["retry"] = json.Number(f.retry)
		}
		list = append(list, item)
	}
	require.NoError(t, schema.Validate(list))
}

func testStreamStart(t *testing.T, v *service) {
	head := queryRows[int64](t, v, `select head from logs where workspace_id = $1`, v.fixture.id(t, "workspace acme"))[0]
	for name, c := range map[string]struct {
		header string
		start  int64
	}{
		"no Last-Event-ID: the head":    {"X-Any: thing", head},
		"empty Last-Event-ID: the head": {"Last-Event-ID: ", head},
		"a sequence number":             {fmt.Sprintf("Last-Event-ID: %d", head-3), head - 3},
		"zero: the whole log":           {"Last-Event-ID: 0", 0},
		"beyond the head: the head":     {fmt.Sprintf("Last-Event-ID: %d", head+1000), head},
	} {
		t.Run(name, func(t *testing.T) {
			st := v.openStream(t, "ada@acme", c.header)
			require.Equal(t, c.start, st.start)
			for seq := c.start + 1; seq <= min(head, c.start+2000); seq++ {
				require.Equal(t, fmt.Sprint(seq), st.next().id)
			}
			st.cancel()
		})
	}
	for _, text := range []string{"-1", "one", "1.5", "99999999999999999999", strings.Repeat("1", 30)} {
		_, a := v.tryOpenStream(t, "ada@acme", "Last-Event-ID: "+text)
		a.is(t, "422 validation_failed", text)
	}
	headRequest := v.ask(t, "ada@acme", "HEAD /api/v1/events/stream", "").is(t, "200") // a stream has no end, its header has
	require.Equal(t, "text/event-stream", headRequest.header.Get("Content-Type"))
	v.ask(t, "ada@acme", streamRequest+"?from=7", "").is(t, "422 validation_failed")
}

// testStreamRevocation shows that a change of rights through one service ends the caller's stream at the
// other, and that no later event is sent.
func testStreamRevocation(t *testing.T, one, other *service) {
	created := one.ask(t, "ada@acme", "POST /api/v1/service-accounts", `{"name":"streaming","scopes":["api.read"]}`).is(t, "201")
	account, token := created.text(t, "account.id"), created.text(t, "token")
	members := func(who string) string { return "/api/v1/members/" + one.fixture.id(t, "member "+who) }
	vera := "Cookie: " + cookieName + "=" + one.signIn(t, "vera")
	for _, c := range []struct {
		name, as, line, body string
		headers              []string
		reconnect            string // answer to a new request; "" if it is accepted
	}{
		{"token rotated", "token " + token, "POST /api/v1/service-accounts/" + account + "/rotate", "", nil,
			"401 service_token_invalid"},
		{"signed out", "nobody", "POST /api/auth/sign-out", "", []string{vera}, "401 unauthenticated"},
		{"role lowered", "max@acme", "PATCH " + members("max@acme"), `{"role":"Viewer"}`, nil, ""},
		{"role raised", "vera@acme", "PATCH " + members("vera@acme"), `{"role":"Maintainer"}`, nil, ""},
		{"member removed", "leo@acme", "DELETE " + members("leo@acme"), "", nil, "404 tenant_not_found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			by := "ada@acme"
			if c.headers != nil {
				by = c.as // people end their own session
			}
			st, unaffected := other.openStream(t, c.as, c.headers...), other.openStream(t, "ada@acme")
			start := time.Now()
			a := one.ask(t, by, c.line, c.body, c.headers...)
			require.Less(t, a.status, 300, a.statusAndCode())
			one.ask(t, "ada@acme", "POST /api/v1/backlog/queue", `{"repoId":"`+one.fixture.id(t, "repo acme/web")+`","title":"`+c.name+`"}`).is(t,
				"201")
			kinds := st.kindsUntilEnd()
			if c.name != "signed out" { // sessions are not in the log: the stream ends within a second
				require.NotContains(t, kinds, "run.queued", "it was appended after the change")
			}
			require.Less(t, time.Since(start), 30*time.Second)
			unaffected.kindsUntil("run.queued")
			again, refused := other.tryOpenStream(t, c.as, c.headers...)
			if c.reconnect == "" {
				require.NotNil(t, again)
			} else {
				refused.is(t, c.reconnect)
			}
		})
	}
	t.Run("account revoked", func(t *testing.T) {
		token := one.ask(t, "ada@acme", "POST /api/v1/service-accounts/"+account+"/rotate", "").is(t, "200").text(t, "token")
		st := other.openStream(t, "token "+token)
		one.ask(t, "ada@acme", "POST /api/v1/service-accounts/"+account+"/revoke", "").is(t, "200")
		require.Empty(t, st.kindsUntilEnd())
	})
	t.Run("rights of other callers", func(t *testing.T) {
		st := other.openStream(t, "reader")
		created := one.ask(t, "ada@acme", "POST /api/v1/service-accounts", `{"name":"another","scopes":["api.read"]}`).is(t, "201")
		one.ask(t, "ada@acme", "POST /api/v1/service-accounts/"+created.text(t, "account.id")+"/revoke", "").is(t, "200")
		one.ask(t, "ada@acme", "POST /api/v1/backlog/queue", `{"repoId":"`+one.fixture.id(t, "repo acme/web")+`","title":"others"}`).is(t, "201")
		require.Equal(t, []string{"run.queued"}, st.kindsUntil("run.queued"))
	})
}

func testStreamLimit(t *testing.T, v *service) {
	var open []*stream
	for range 12 {
		open = append(open, v.openStream(t, "ci-bot"))
	}
	_, a := v.tryOpenStream(t, "ci-bot")
	a.is(t, "429 rate_limited")
	v.openStream(t, "reader") // the limit is per caller
	open[5].cancel()
	eventually(t, func() bool {
		st, _ := v.tryOpenStream(t, "ci-bot")
		return st != nil
	}, "a dropped connection still counts")
	for _, st := range open {
		st.cancel()
	}
}

// testStreamsOverNATS shows that a service learns through NATS of events that another has appended.
func testStreamsOverNATS(t *testing.T, s *fixture) {
	s.addSecret(busPassword, "the password of the bus")
	bus := natsserver.Start(t, natsserver.Config{Password: busPassword}).URL
	database := s.cloneDatabase(t)
	t.Run("services", func(t *testing.T) {
		one, other := s.serve(t, database, "SVC_BUS_URL="+bus), s.serve(t, database, "SVC_BUS_URL="+bus)
		st := other.openStream(t, "reader")
		before := queryRows[int64](t, one, `select seq from checkpoints where view = 'bus' and workspace_id = $1`, s.id(t, "workspace acme"))[0]
		for i := range 5 {
			one.ask(t, "ada@acme", "POST /api/v1/backlog/queue",
				fmt.Sprintf(`{"repoId":%q,"title":"over NATS %d"}`, s.id(t, "repo acme/web"), i)).is(t, "201")
			require.Equal(t, []string{"run.queued"}, st.kindsUntil("run.queued"))
		}
		conn, err := nats.Connect(bus)
		require.NoError(t, err)
		defer conn.Close()
		js, err := conn.JetStream()
		require.NoError(t, err)
		eventually(t, func() bool {
			head := queryRows[int64](t, one, `select head from logs where workspace_id = $1`, s.id(t, "workspace acme"))[0]
			info, err := js.StreamInfo("svc_events")
			return err == nil && int64(info.State.Msgs) >= head-before
		}, "not every event was published")
		text, _ := one.out.read()
		require.Contains(t, text, "SVC_BUS_URL=")
		require.Contains(t, text, "nats://svc:[redacted]@")
	})
}

const busPassword = "the-password-of-the-bus"
