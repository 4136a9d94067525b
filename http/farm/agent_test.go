package farm_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"svc/commands"
	"svc/events"
	"svc/events/feed"
	"svc/farm/dispatch"
	"svc/farm/joblog"
	"svc/farm/wire"
	"svc/http/farm"
)

func noClone(context.Context, events.ID, events.ID, string) (string, error) { return "", nil }

// connectable returns a site whose replicas accept connections of runners.
func connectable(t *testing.T, change ...func(*dispatch.Config)) (*site, *httptest.Server) {
	t.Helper()
	s := newSite(t, func(c *farm.Config) {
		db, quiet := c.Runners.DB, slog.New(slog.DiscardHandler)
		c.TrustedProxy = func(peer netip.Addr) bool { return peer.IsLoopback() || peer == netip.MustParseAddr("10.0.0.7") }
		live := feed.New(db, quiet)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { live.Run(ctx); close(ended) }()
		d := dispatch.Config{
			DB: db, Commands: c.Commands, Live: live, Logs: joblog.New(db, quiet), Leads: func(string) bool { return false },
			Now: c.Now, Log: quiet, CloneURL: noClone, ArtifactMaxJobBytes: c.ArtifactMaxJobBytes, MaxPerWorkspace: 2,
		}
		for _, f := range change {
			f(&d)
		}
		c.Dispatcher = dispatch.New(d)
		t.Cleanup(func() { c.Dispatcher.Close(); stop(); <-ended })
	})
	server := httptest.NewServer(s.a.Handler)
	t.Cleanup(server.Close)
	return s, server
}

func connectTo(t *testing.T, server *httptest.Server, certificate string, change ...func(http.Header)) (*websocket.Conn, *http.Response) {
	t.Helper()
	h := http.Header{header: {url.PathEscape(certificate)}, "Sec-Websocket-Protocol": {"svc-farm.v9, " + wire.Version}}
	for _, f := range change {
		f(h)
	}
	socket, answer, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(server.URL, "http")+"/api/v1/farm/agent", h)
	if err != nil {
		require.NotNil(t, answer, "%v", err)
		return nil, answer
	}
	t.Cleanup(func() { _ = socket.Close() })
	return socket, answer
}

func codeOf(t *testing.T, answer *http.Response) (code string, details gjson.Result) {
	t.Helper()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	body := gjson.ParseBytes(text)
	return body.Get("code").String(), body.Get("details")
}

// greetedBy connects a runner and says hello.
func greetedBy(t *testing.T, server *httptest.Server, certificate string) (*websocket.Conn, wire.Welcome) {
	t.Helper()
	socket, answer := connectTo(t, server, certificate)
	require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
	say(t, socket, wire.Hello{Version: "0.4.0", OS: "linux", Arch: "amd64", Capacity: 2})
	return socket, hear[wire.Welcome](t, socket)
}

func say(t *testing.T, socket *websocket.Conn, m wire.Message) {
	t.Helper()
	frame, err := wire.Encode(m, time.Now())
	require.NoError(t, err)
	require.NoError(t, socket.WriteMessage(websocket.TextMessage, frame))
}

func hear[M wire.Message](t *testing.T, socket *websocket.Conn) M {
	t.Helper()
	_, frame, err := socket.ReadMessage()
	require.NoError(t, err)
	e, err := wire.Decode(frame)
	require.NoError(t, err)
	m, err := wire.Read[M](e)
	require.NoError(t, err)
	return m
}

// A connection continues after a renewal, and ends when the certificate expires that it was opened with.
func TestConnectionEndsWithItsCertificate(t *testing.T) {
	s, server := connectable(t, func(c *dispatch.Config) { c.RefreshEvery = 10 * time.Millisecond })
	_, first := s.enrol(t)
	socket, _ := greetedBy(t, server, first)
	s.clock.move(5 * 24 * time.Hour)
	second := s.a.renew(t, first, newKey(t)).is(t, 200, "").body.Get("certificate").String()
	s.b.self(t, second).is(t, 200, "")
	require.Contains(t, s.kinds(t, s.workspace), "runner.certificate_superseded")
	s.clock.move(2*24*time.Hour - time.Second)
	say(t, socket, wire.Heartbeat{Seq: 1, Free: 2})
	hear[wire.HeartbeatAck](t, socket)

	s.clock.move(time.Second)
	require.NoError(t, socket.SetReadDeadline(time.Now().Add(30*time.Second)))
	_, _, err := socket.ReadMessage()
	require.True(t, websocket.IsCloseError(err, wire.CloseExpired), "%v", err)
	greetedBy(t, server, second)
}

func TestRunnerConnects(t *testing.T) {
	s, server := connectable(t)
	runner, certificate := s.enrol(t)
	socket, w := greetedBy(t, server, certificate)
	require.Equal(t, wire.Version, socket.Subprotocol())
	require.Equal(t, runner.String(), w.Runner)
	require.EqualValues(t, 1<<20, w.Limits.ArtifactMaxJobBytes)
	require.Contains(t, s.kinds(t, s.workspace), "runner.online")

	_, err := s.b.commands.RevokeRunner(t.Context(), commands.RevokeRunner{Meta: s.owner, Runner: runner})
	require.NoError(t, err)
	_, _, err = socket.ReadMessage()
	require.True(t, websocket.IsCloseError(err, wire.CloseRevoked), "%v", err)
	_, answer := connectTo(t, server, certificate)
	code, _ := codeOf(t, answer)
	require.Equal(t, "runner_revoked", code)
}

// A refused runner gets a normal answer with the reason, and no WebSocket.
func TestRefusedConnections(t *testing.T) {
	s, server := connectable(t)
	_, certificate := s.enrol(t)
	for name, c := range map[string]struct {
		change func(http.Header)
		status int
		code   string
	}{
		"no certificate":         {func(h http.Header) { h.Del(header) }, 401, "runner_certificate_required"},
		"no protocol":            {func(h http.Header) { h.Del("Sec-Websocket-Protocol") }, 400, "protocol_unsupported"},
		"unknown protocol":       {func(h http.Header) { h.Set("Sec-Websocket-Protocol", "svc-farm.v2") }, 400, "protocol_unsupported"},
		"request from a browser": {func(h http.Header) { h.Set("Origin", server.URL) }, 403, "cross_origin_refused"},
	} {
		_, answer := connectTo(t, server, certificate, c.change)
		require.Equal(t, c.status, answer.StatusCode, name)
		code, details := codeOf(t, answer)
		require.Equal(t, c.code, code, name)
		if c.code == "protocol_unsupported" {
			require.JSONEq(t, `["svc-farm.v1"]`, details.Get("supported").Raw)
		}
	}
	s.a.ask(t, "GET", "/agent", nil, shows(certificate)).is(t, 400, "upgrade_required")
	for range 2 {
		_, answer := connectTo(t, server, certificate)
		require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
	}
	_, answer := connectTo(t, server, certificate)
	code, _ := codeOf(t, answer)
	require.Equal(t, "farm_connections_full", code)
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
}
