package gateway

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

// agent connects as a runner does.
func (s *subject) agent(t *testing.T, pair *tls.Certificate) *websocket.Conn {
	t.Helper()
	dialer := websocket.Dialer{
		TLSClientConfig: s.tlsWith(pair), Subprotocols: []string{"svc-farm.v1"}, HandshakeTimeout: waitLimit,
	}
	conn, res, err := dialer.DialContext(t.Context(), "wss://"+s.address+"/api/v1/farm/agent", http.Header{"X_Svc_Client_Cert": {"forged"}})
	require.NoError(t, err)
	require.Equal(t, 101, res.StatusCode)
	require.NoError(t, res.Body.Close())
	require.Equal(t, "svc-farm.v1", conn.Subprotocol())
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(waitLimit)))
	return conn
}

func echo(t *testing.T, conn *websocket.Conn, kind int, text string) {
	t.Helper()
	require.NoError(t, conn.WriteMessage(kind, []byte(text)))
	got, back, err := conn.ReadMessage()
	require.NoError(t, err)
	require.Equal(t, kind, got)
	require.Equal(t, text, string(back))
}

func TestAgentConnectsWithItsCertificate(t *testing.T) {
	everyGateway(t, func(t *testing.T, s *subject) {
		for _, pair := range s.certificates(t) {
			conn := s.agent(t, &pair)
			requireForwarded(t, s.next(t), pair)
			echo(t, conn, websocket.TextMessage, `{"t":"hello"}`)
			echo(t, conn, websocket.BinaryMessage, strings.Repeat("\x00\xff", 256<<10))
			require.NoError(t, conn.Close())
		}
	})
}

// Heartbeats keep a tunnel open, and silence ends another.
func TestSilentTunnelEnds(t *testing.T) {
	t.Parallel()
	const idle = time.Second
	rules := Rules(256 << 20)
	for i := range rules {
		if rules[i].TunnelIdle > 0 {
			require.Equal(t, 120*time.Second, rules[i].TunnelIdle, "twelve heartbeats")
			rules[i].TunnelIdle = idle
		}
		rules[i].IdleTimeout, rules[i].AnswerTimeout = idle/2, idle/2 // which do not apply to tunnels
	}
	s := start(t, rules)
	conn := s.agent(t, nil)
	heartbeats := time.NewTicker(50 * time.Millisecond)
	defer heartbeats.Stop()
	beat := func() {
		<-heartbeats.C
		echo(t, conn, websocket.TextMessage, "heartbeat")
	}
	for range 3 { // it is not the first one alone that counts
		beat()
	}
	began := time.Now()
	silent := s.agent(t, nil)
	ended := make(chan error, 1)
	go func() {
		_, _, err := silent.ReadMessage()
		ended <- err
	}()
	for len(ended) == 0 {
		beat()
	}
	require.Error(t, <-ended)
	require.GreaterOrEqual(t, time.Since(began), idle)
	require.Less(t, time.Since(began), waitLimit/2)
	beat()
}

// The HTTP server does not track hijacked connections when it shuts down.
func TestCloseEndsTunnels(t *testing.T) {
	t.Parallel()
	s := start(t, Rules(256<<20))
	conn := s.agent(t, nil)
	echo(t, conn, websocket.TextMessage, "here")
	s.stop()
	_, _, err := conn.ReadMessage()
	require.Error(t, err)
	_, err = tls.Dial("tcp", s.address, s.tlsWith(nil))
	require.Error(t, err)
}
