package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A running is a server under test.
type running struct {
	url  string
	stop context.CancelFunc
	done chan error
	logs *buffer
}

func run(t *testing.T, limit time.Duration, h http.HandlerFunc) *running {
	t.Helper()
	ln, err := Listen(t.Context(), "T_ADDR", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{URL(config.Addr(ln.Addr().String())), cancel, make(chan error, 1), new(buffer)}
	s := Server{Handler: h, Log: slog.New(slog.NewJSONHandler(r.logs, nil)), StopLimit: limit}
	go func() { r.done <- s.Run(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		http.DefaultClient.CloseIdleConnections()
	})
	return r
}

// A buffer is a log that can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestRunAnswersRequestsInFlightBeforeItStops(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	r := run(t, time.Minute, func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-leave
		_, _ = io.WriteString(w, "answered")
	})
	body := make(chan string, 1)
	go func() {
		res, err := http.Get(r.url)
		if err != nil {
			body <- err.Error()
			return
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		body <- string(text)
	}()
	<-entered
	r.stop()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", r.url[len("http://"):])
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, time.Minute, time.Millisecond, "takes no new connections")
	close(leave)
	require.Equal(t, "answered", <-body)
	require.NoError(t, <-r.done)
	require.Contains(t, r.logs.String(), `"msg":"listening"`)
	require.Contains(t, r.logs.String(), `"msg":"stopped"`)
	require.NotContains(t, r.logs.String(), "cut off")
}

func TestRunCutsOffSlowRequests(t *testing.T) {
	entered, ended := make(chan struct{}), make(chan struct{})
	r := run(t, 10*time.Millisecond, func(_ http.ResponseWriter, req *http.Request) {
		defer close(ended)
		close(entered)
		<-req.Context().Done()
	})
	failed := make(chan error, 1)
	go func() {
		res, err := http.Get(r.url)
		if err == nil {
			_ = res.Body.Close()
		}
		failed <- err
	}()
	<-entered
	r.stop()
	require.NoError(t, <-r.done)
	require.Error(t, <-failed)
	<-ended
	require.Contains(t, r.logs.String(), "requests cut off")
}

func TestListenNamesTheVariableAndTheAddress(t *testing.T) {
	ln, err := Listen(t.Context(), "T_ADDR", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	_, err = Listen(t.Context(), "SVC_ENGINE_ADDR", config.Addr(ln.Addr().String()))
	require.EqualError(t, err, "SVC_ENGINE_ADDR: the address "+ln.Addr().String()+" is in use by another program")

	_, err = Listen(t.Context(), "SVC_ENGINE_ADDR", "192.0.2.1:4001") // an address that no machine has
	require.ErrorContains(t, err, "SVC_ENGINE_ADDR: ")
	require.ErrorContains(t, err, "192.0.2.1:4001")
}

func TestListenOnInheritedSocket(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f, err := ln.(*net.TCPListener).File()
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	fd, err := syscall.Dup(int(f.Fd())) // as in a child process: nobody else closes it
	require.NoError(t, err)
	require.NoError(t, f.Close())

	addr := config.Addr(fmt.Sprintf("fd://%d", fd))
	handed, err := Listen(t.Context(), "T_ADDR", addr)
	require.NoError(t, err)
	require.Equal(t, ln.Addr(), handed.Addr())
	require.NoError(t, handed.Close())
	_, err = net.Dial("tcp", ln.Addr().String())
	require.ErrorIs(t, err, syscall.ECONNREFUSED, "no copy is left open")
	_, err = Listen(t.Context(), "T_ADDR", addr)
	require.ErrorContains(t, err, fmt.Sprintf("T_ADDR: no listening socket was handed down as file %d: ", fd))

	text, err := os.Open("serve.go")
	require.NoError(t, err)
	defer text.Close()
	_, err = Listen(t.Context(), "T_ADDR", config.Addr(fmt.Sprintf("fd://%d", text.Fd())))
	require.ErrorContains(t, err, "no listening socket")
	_, err = text.Stat()
	require.NoError(t, err, "it is left alone")
	require.ErrorContains(t, Healthcheck(t.Context(), "T_ADDR", addr, "/"), "T_ADDR: nobody can ask")
}

func TestRunReturnsTheErrorOfItsListener(t *testing.T) {
	ln, err := Listen(t.Context(), "T_ADDR", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	err = Server{Log: slog.New(slog.DiscardHandler)}.Run(t.Context(), ln)
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestURL(t *testing.T) {
	for addr, url := range map[string]string{
		":4001":          "http://127.0.0.1:4001",
		"0.0.0.0:4001":   "http://127.0.0.1:4001",
		"[::]:4001":      "http://127.0.0.1:4001",
		"[::1]:4001":     "http://[::1]:4001",
		"localhost:4001": "http://localhost:4001",
	} {
		require.Equal(t, url, URL(config.Addr(addr)))
	}
}

func TestCheck(t *testing.T) {
	var status atomic.Int64
	status.Store(http.StatusOK)
	r := run(t, time.Second, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) })
	require.NoError(t, Check(t.Context(), r.url))
	status.Store(http.StatusServiceUnavailable)
	require.ErrorContains(t, Check(t.Context(), r.url), "503")
	r.stop()
	require.NoError(t, <-r.done)
	require.Error(t, Check(t.Context(), r.url))
}
