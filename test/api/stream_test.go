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

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

const streamLine = "GET /api/v1/events/stream"

// testStreams shows what live updates promise.
func testStreams(t *testing.T, s *site) {
	database := s.clone(t)
	one, other := s.serve(t, database), s.serve(t, database)

	t.Run("nothing is missed or repeated", func(t *testing.T) { testStreamOrder(t, one, other) })
	t.Run("as described", func(t *testing.T) { testStreamDescribed(t, one) })
	t.Run("who is told what", func(t *testing.T) { testStreamAudience(t, one, other) })
	t.Run("where a stream begins", func(t *testing.T) { testStreamStart(t, one) })
	t.Run("a right that is revoked", func(t *testing.T) { testStreamRevocation(t, one, other) })
	t.Run("there is a limit", func(t *testing.T) { testStreamLimit(t, one) })
	t.Run("over NATS", func(t *testing.T) { testStreamsOverNATS(t, s) })
	t.Run("the service stops", func(t *testing.T) {
		st := other.follow(t, "ada@acme")
		begun := time.Now()
		require.NoError(t, other.cmd.Process.Signal(syscall.SIGTERM))
		st.ends()
		status, text := other.wait(t)
		require.Zero(t, status, text)
		require.NotContains(t, text, "cut off")
		require.Less(t, time.Since(begun), 30*time.Second)
	})
}

// Two services write to a workspace at once, others follow it at both and come
// again after every few events. An Owner, who is told everything, gets each
// number in turn.
func testStreamOrder(t *testing.T, one, other *service) {
	const writers, each, followers = 6, 20, 4
	start := one.follow(t, "ada@acme").start
	services := []*service{one, other}
	var working sync.WaitGroup
	for w := range writers {
		working.Go(func() {
			for i := range each {
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
	go func() { working.Wait(); close(done) }()
	type followed struct {
		service int
		seq     int64
	}
	list := make([]followed, followers)
	for i := range list {
		list[i] = followed{i, start}
	}
	for ended, turn := false, 0; ; turn++ {
		behind := 0
		head := rows[int64](t, one, `select head from logs where workspace_id = $1`, one.site.id(t, "workspace acme"))[0]
		for i := range list {
			f := &list[i]
			st := services[(f.service+turn)%2].follow(t, "ada@acme", "Last-Event-ID: "+strconv.FormatInt(f.seq, 10))
			require.Equal(t, f.seq, st.start)
			for range min(int64(3+turn%7), head-f.seq) {
				got := st.next()
				require.Equal(t, fmt.Sprint(f.seq+1), got.id)
				f.seq++
			}
			st.cancel()
			if f.seq < head {
				behind++
			}
		}
		if ended && behind == 0 {
			break
		}
		select {
		case <-done:
			ended = true
		default:
		}
	}
	kinds := rows[string](t, one, `select distinct kind from events where workspace_id = $1 and seq > $2 order by 1`,
		one.site.id(t, "workspace acme"), start)
	require.Equal(t, []string{"invitation.sent", "service_account.created"}, kinds)
}

// send asks without failing the test, so that any goroutine may.
func (v *service) send(t *testing.T, as, path, body string) (status int, err error) {
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, "http://"+v.host+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header = v.site.credentials(t, as)
	r.Header.Set("Content-Type", "application/json")
	res, err := v.client.Do(r)
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(res.Body)
	var made struct{ Token string }
	if json.Unmarshal(text, &made) == nil && made.Token != "" {
		v.site.keepSecret(made.Token, "a token that was made")
	}
	return res.StatusCode, errors.Join(err, res.Body.Close())
}

// The same happens for everybody; each is told what they could read elsewhere.
func testStreamAudience(t *testing.T, one, other *service) {
	streams := map[string]*stream{}
	for _, who := range []string{"reader", "vera@acme", "leo@acme", "mia@acme", "ada@acme", "greta@globex"} {
		streams[who] = other.follow(t, who)
	}
	made := one.ask(t, "ada@acme", "POST /api/v1/service-accounts", `{"name":"told","scopes":["api.read"]}`).is(t, "201")
	one.ask(t, "ada@acme", "POST /api/v1/service-accounts/"+made.text(t, "account.id")+"/revoke", "").is(t, "200")
	one.ask(t, "ada@acme", "PATCH /api/v1/members/"+one.site.id(t, "member ben@acme"), `{"canApproveLoops":false}`).is(t, "200")
	one.ask(t, "ada@acme", "POST /api/v1/invitations", `{"email":"told@acme.example"}`).is(t, "201")
	one.ask(t, "ada@acme", "PATCH /api/v1/workspace", `{"name":"Told"}`).is(t, "200")
	one.ask(t, "vera@acme", "POST /api/v1/invitations", `{"email":"denied@acme.example"}`).is(t, "403 role_required")
	queued := one.ask(t, "ada@acme", "POST /api/v1/backlog/queue", `{"repoId":"`+one.site.id(t, "repo acme/web")+`","title":"told"}`).is(t,
		"201")
	run := queued.text(t, "id")
	one.ask(t, "ada@acme", "POST /api/v1/runs/"+run+"/cancel", "").is(t, "202")

	people := []string{"member.approve_loops_set", "invitation.sent", "workspace.renamed", "run.queued", "run.cancelled"}
	all := []string{"service_account.created", "service_account.revoked", "member.approve_loops_set", "invitation.sent", "workspace.renamed",
		"command.denied", "run.queued", "run.cancelled"}
	for who, want := range map[string][]string{
		"reader": {"run.queued", "run.cancelled"}, "vera@acme": people, "leo@acme": people, "mia@acme": all, "ada@acme": all,
	} {
		require.Equal(t, want, streams[who].until("run.cancelled"), who)
	}
	require.Empty(t, streams["greta@globex"].frames)

	t.Run("no more than what happened to what", func(t *testing.T) {
		st := other.follow(t, "reader", "Last-Event-ID: 0")
		for f := st.next(); f.id != fmt.Sprint(queued.header.Get("X-Svc-Position")); f = st.next() {
			require.Regexp(t, `^(run|decision|job)\.`, f.event)
			require.Regexp(t, `^\{"seq":`+f.id+`,"at":"[0-9T:.-]{23}Z","kind":"`+f.event+`","target":\{"type":"(run|job)","id":"[0-9a-f-]{36}"\}\}$`,
				f.data)
		}
	})
}

// testStreamDescribed reads the whole log and holds what the stream says against
// the description: ready, and one event of each kind.
func testStreamDescribed(t *testing.T, v *service) {
	head := rows[int64](t, v, `select head from logs where workspace_id = $1`, v.site.id(t, "workspace acme"))[0]
	d := v.loadSpec(t)
	schema := d.schema(t, "paths", "/api/v1/events/stream", "get", "responses", "200", "content", "text/event-stream", "schema")
	st := v.follow(t, "ada@acme", "Last-Event-ID: 0")
	said := []frame{st.ready}
	kinds := map[string]bool{}
	for f := st.next(); f.id != fmt.Sprint(head); f = st.next() {
		require.NotZero(t, f)
		if !kinds[f.event] {
			kinds[f.event] = true
			said = append(said, f)
		}
	}
	require.Greater(t, len(kinds), 20)
	var list []any
	for _, f := range said {
		one := map[string]any{"id": json.Number(f.id), "event": f.event, "data": parsed(t, f.data)}
		if f.event == "ready" {
			one["retry"] = json.Number(f.retry)
		}
		list = append(list, one)
	}
	require.NoError(t, schema.Validate(list))
}

func testStreamStart(t *testing.T, v *service) {
	head := rows[int64](t, v, `select head from logs where workspace_id = $1`, v.site.id(t, "workspace acme"))[0]
	for name, c := range map[string]struct {
		header string
		start  int64
	}{
		"without a header, now":             {"X-Any: thing", head},
		"with nothing in it, now":           {"Last-Event-ID: ", head},
		"after an event":                    {fmt.Sprintf("Last-Event-ID: %d", head-3), head - 3},
		"at the beginning of all":           {"Last-Event-ID: 0", 0},
		"now, after another workspace's id": {fmt.Sprintf("Last-Event-ID: %d", head+1000), head},
	} {
		t.Run(name, func(t *testing.T) {
			st := v.follow(t, "ada@acme", c.header)
			require.Equal(t, c.start, st.start)
			for seq := c.start + 1; seq <= min(head, c.start+2000); seq++ {
				require.Equal(t, fmt.Sprint(seq), st.next().id)
			}
			st.cancel()
		})
	}
	for _, text := range []string{"-1", "one", "1.5", "99999999999999999999", strings.Repeat("1", 30)} {
		_, a := v.stream(t, "ada@acme", "Last-Event-ID: "+text)
		a.is(t, "422 validation_failed", text)
	}
	head405 := v.ask(t, "ada@acme", "HEAD /api/v1/events/stream", "")
	require.Equal(t, http.StatusMethodNotAllowed, head405.status, "it would not end")
	v.ask(t, "ada@acme", streamLine+"?from=7", "").is(t, "422 validation_failed")
}

// Whoever loses a right at one service hears no more from the other, and of
// nothing that came after it.
func testStreamRevocation(t *testing.T, one, other *service) {
	made := one.ask(t, "ada@acme", "POST /api/v1/service-accounts", `{"name":"streaming","scopes":["api.read"]}`).is(t, "201")
	account, token := made.text(t, "account.id"), made.text(t, "token")
	members := func(who string) string { return "/api/v1/members/" + one.site.id(t, "member "+who) }
	vera := "Cookie: " + cookieName + "=" + one.signIn(t, "vera")
	for _, c := range []struct {
		what, as, line, body string
		headers              []string
		then                 string // what coming again is answered; "" if they are let in
	}{
		{"a token that is rotated", "token " + token, "POST /api/v1/service-accounts/" + account + "/rotate", "", nil,
			"401 service_token_invalid"},
		{"a sign-out", "nobody", "POST /api/auth/sign-out", "", []string{vera}, "401 unauthenticated"},
		{"a demotion", "max@acme", "PATCH " + members("max@acme"), `{"role":"Viewer"}`, nil, ""},
		{"a promotion", "vera@acme", "PATCH " + members("vera@acme"), `{"role":"Maintainer"}`, nil, ""},
		{"a removal", "leo@acme", "DELETE " + members("leo@acme"), "", nil, "404 tenant_not_found"},
	} {
		t.Run(c.what, func(t *testing.T) {
			by := "ada@acme"
			if c.headers != nil {
				by = c.as // it is their own session
			}
			st, spared := other.follow(t, c.as, c.headers...), other.follow(t, "ada@acme")
			begun := time.Now()
			a := one.ask(t, by, c.line, c.body, c.headers...)
			require.Less(t, a.status, 300, a.verdict())
			one.ask(t, "ada@acme", "POST /api/v1/backlog/queue", `{"repoId":"`+one.site.id(t, "repo acme/web")+`","title":"`+c.what+`"}`).is(t,
				"201")
			kinds := st.ends()
			if c.what != "a sign-out" { // which is not in this workspace's log: it is seen within a second
				require.NotContains(t, kinds, "run.queued", "it came after")
			}
			require.Less(t, time.Since(begun), 30*time.Second)
			spared.until("run.queued")
			again, refused := other.stream(t, c.as, c.headers...)
			if c.then == "" {
				require.NotNil(t, again)
			} else {
				refused.is(t, c.then)
			}
		})
	}
	t.Run("an account that is revoked", func(t *testing.T) {
		token := one.ask(t, "ada@acme", "POST /api/v1/service-accounts/"+account+"/rotate", "").is(t, "200").text(t, "token")
		st := other.follow(t, "token "+token)
		one.ask(t, "ada@acme", "POST /api/v1/service-accounts/"+account+"/revoke", "").is(t, "200")
		require.Empty(t, st.ends())
	})
	t.Run("other rights than the caller's", func(t *testing.T) {
		st := other.follow(t, "reader")
		made := one.ask(t, "ada@acme", "POST /api/v1/service-accounts", `{"name":"another","scopes":["api.read"]}`).is(t, "201")
		one.ask(t, "ada@acme", "POST /api/v1/service-accounts/"+made.text(t, "account.id")+"/revoke", "").is(t, "200")
		one.ask(t, "ada@acme", "POST /api/v1/backlog/queue", `{"repoId":"`+one.site.id(t, "repo acme/web")+`","title":"others"}`).is(t, "201")
		require.Equal(t, []string{"run.queued"}, st.until("run.queued"))
	})
}

func testStreamLimit(t *testing.T, v *service) {
	var open []*stream
	for range 12 {
		open = append(open, v.follow(t, "ci-bot"))
	}
	_, a := v.stream(t, "ci-bot")
	a.is(t, "429 rate_limited")
	v.follow(t, "reader") // each caller by itself
	open[5].cancel()
	eventually(t, func() bool {
		st, _ := v.stream(t, "ci-bot")
		return st != nil
	}, "a connection that was dropped keeps its place")
	for _, st := range open {
		st.cancel()
	}
}

// What one service appends the other is told of by NATS.
func testStreamsOverNATS(t *testing.T, s *site) {
	n, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true, Username: "svc", Password: busPassword,
	})
	require.NoError(t, err)
	n.Start()
	defer n.WaitForShutdown()
	defer n.Shutdown()
	require.True(t, n.ReadyForConnections(limit))
	s.keepSecret(busPassword, "the password of the bus")
	bus := "nats://svc:" + busPassword + "@" + n.Addr().String()
	database := s.clone(t)
	t.Run("services", func(t *testing.T) {
		one, other := s.serve(t, database, "SVC_BUS_URL="+bus), s.serve(t, database, "SVC_BUS_URL="+bus)
		st := other.follow(t, "reader")
		before := rows[int64](t, one, `select seq from checkpoints where view = 'bus' and workspace_id = $1`, s.id(t, "workspace acme"))[0]
		for i := range 5 {
			one.ask(t, "ada@acme", "POST /api/v1/backlog/queue",
				fmt.Sprintf(`{"repoId":%q,"title":"over NATS %d"}`, s.id(t, "repo acme/web"), i)).is(t, "201")
			require.Equal(t, []string{"run.queued"}, st.until("run.queued"))
		}
		conn, err := nats.Connect(bus)
		require.NoError(t, err)
		defer conn.Close()
		js, err := conn.JetStream()
		require.NoError(t, err)
		eventually(t, func() bool {
			head := rows[int64](t, one, `select head from logs where workspace_id = $1`, s.id(t, "workspace acme"))[0]
			info, err := js.StreamInfo("svc_events")
			return err == nil && int64(info.State.Msgs) >= head-before
		}, "every event is published")
		text, _ := one.out.read()
		require.Contains(t, text, "SVC_BUS_URL=")
		require.Contains(t, text, "nats://svc:[redacted]@")
	})
}

const busPassword = "the-password-of-the-bus"
