package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/engine/client"
	"svc/http/serve"
)

// TestMain runs svc-engine itself if a test starts it as a child.
func TestMain(m *testing.M) {
	if os.Getenv("SVC_TEST_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

const secret = "a shared secret of the test"

func command(t *testing.T, args []string, environ ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	own := []string{"SVC_TEST_MAIN=1", "GORACE=atexit_sleep_ms=0", "PATH=" + os.Getenv("PATH"), "XDG_CACHE_HOME=" + t.TempDir()}
	cmd.Env = append(own, environ...)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// fails runs svc-engine, which must exit with 1, and returns its output.
func fails(t *testing.T, args []string, environ ...string) string {
	t.Helper()
	out, err := command(t, args, environ...).CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, string(out))
	require.Equal(t, 1, exit.ExitCode(), string(out))
	return string(out)
}

// A running is a svc-engine that listens.
type running struct {
	cmd     *exec.Cmd
	out     *bufio.Scanner
	addr    string
	metrics string
	seen    []string // lines of output up to the last "listening"
}

func start(t *testing.T, environ ...string) *running {
	t.Helper()
	environ = append([]string{"SVC_ENGINE_ADDR=127.0.0.1:0", "SVC_ENGINE_SHARED_SECRET=" + secret}, environ...)
	r := &running{cmd: command(t, nil, environ...)}
	pipe, err := r.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, r.cmd.Start())
	r.out = bufio.NewScanner(pipe)
	r.scan(t)
	return r
}

// scan reads output until one more listener is reported.
func (r *running) scan(t *testing.T) {
	t.Helper()
	for {
		require.True(t, r.out.Scan(), "ended before it listened: %v", r.seen)
		r.seen = append(r.seen, r.out.Text())
		var line struct{ Msg, Address, Listener string }
		require.NoError(t, json.Unmarshal(r.out.Bytes(), &line), r.out.Text())
		if line.Msg != "listening" {
			continue
		}
		if line.Listener == "metrics" {
			r.metrics = line.Address
		} else {
			r.addr = line.Address
		}
		return
	}
}

// stop ends r by SIGTERM and returns the rest of its output.
func (r *running) stop(t *testing.T) string {
	t.Helper()
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
	var rest []string
	for r.out.Scan() {
		rest = append(rest, r.out.Text())
	}
	require.NoError(t, r.cmd.Wait())
	return strings.Join(rest, "\n")
}

func TestRunsAndStops(t *testing.T) {
	r := start(t)
	require.Contains(t, r.seen[0], `"msg":"configuration"`)
	require.Contains(t, r.seen[0], `"SVC_ENGINE_SHARED_SECRET":"[redacted]"`)

	u, err := config.ParseURL("http://" + r.addr)
	require.NoError(t, err)
	c := client.Client{URL: u, Secret: secret}
	require.NoError(t, c.Health(t.Context()))
	status, err := c.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, config.Version, status.Version)

	_, err = command(t, []string{"-healthcheck"}, "SVC_ENGINE_ADDR="+r.addr).CombinedOutput()
	require.NoError(t, err)
	rest := r.stop(t)
	require.Contains(t, rest, `"msg":"stopped"`)
	require.NotContains(t, strings.Join(r.seen, "")+rest, secret)
	require.Contains(t, fails(t, []string{"-healthcheck"}, "SVC_ENGINE_ADDR="+r.addr), "refused")
}

func TestLogsJSONLinesAtLevel(t *testing.T) {
	r := start(t)
	for line := range strings.SplitSeq(r.stop(t), "\n") {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields), line)
		require.Contains(t, fields, "time")
		require.Contains(t, fields, "level")
	}

	// At level warn nothing reports the address, so the test passes a socket.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	socket, err := ln.(*net.TCPListener).File()
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	cmd := command(t, nil, "SVC_ENGINE_ADDR=fd://3", "SVC_ENGINE_SHARED_SECRET="+secret, "SVC_LOG_LEVEL=warn")
	cmd.ExtraFiles = []*os.File{socket}
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.NoError(t, socket.Close())
	require.NoError(t, serve.Check(t.Context(), serve.URL(config.Addr(ln.Addr().String()))+"/healthz"), "it waited in the socket")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	out, err := io.ReadAll(pipe)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	require.Empty(t, string(out))
}

func TestMissingSocketIsNamed(t *testing.T) {
	out := fails(t, nil, "SVC_ENGINE_ADDR=fd://99", "SVC_ENGINE_SHARED_SECRET="+secret)
	require.Contains(t, out, "SVC_ENGINE_ADDR: no listening socket was handed down as file 99")
}

func TestStartupFailuresNameTheVariable(t *testing.T) {
	ok := "SVC_ENGINE_SHARED_SECRET=" + secret
	require.Contains(t, fails(t, nil), "SVC_ENGINE_SHARED_SECRET is missing")
	require.Contains(t, fails(t, nil, "SVC_ENGINE_SHARED_SECRET="), "SVC_ENGINE_SHARED_SECRET is missing")

	out := fails(t, nil, "SVC_ENGINE_SHARED_SECRET=fifteen-bytes..", "SVC_ENGINE_ADDR=nowhere", "SVC_LOG_LEVEL=loud")
	require.Contains(t, out, "SVC_ENGINE_SHARED_SECRET is malformed: want at least 16 bytes")
	require.Contains(t, out, "SVC_ENGINE_ADDR is malformed")
	require.Contains(t, out, "SVC_LOG_LEVEL is malformed: want debug, info, warn or error")
	for _, value := range []string{"fifteen", "nowhere", "loud"} {
		require.NotContains(t, out, value)
	}

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	out = fails(t, nil, ok, "SVC_ENGINE_ADDR="+ln.Addr().String())
	require.Contains(t, out, "SVC_ENGINE_ADDR: the address "+ln.Addr().String()+" is in use")
	require.NotContains(t, out, secret)
}

func TestNeedsGit(t *testing.T) {
	require.Contains(t, fails(t, nil, "SVC_ENGINE_SHARED_SECRET="+secret, "SVC_ENGINE_ADDR=127.0.0.1:0", "PATH="), "git version: ")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	out := fails(t, nil, "SVC_ENGINE_SHARED_SECRET="+secret, "SVC_ENGINE_ADDR=127.0.0.1:0", "SVC_ENGINE_DIR="+file)
	require.Contains(t, out, "SVC_ENGINE_DIR: ")
}

func TestVersion(t *testing.T) {
	out, err := command(t, []string{"-version"}).Output()
	require.NoError(t, err)
	require.True(t, slices.Contains(strings.Fields(string(out)), config.Version), string(out))
}

func TestServesMetricsOnSeparateListener(t *testing.T) {
	r := start(t, "SVC_METRICS_ADDR=127.0.0.1:0")
	r.scan(t) // the other listener: they start concurrently
	get := func(url string) (int, string) {
		res, err := http.Get("http://" + url)
		require.NoError(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(text)
	}
	for _, path := range []string{"/healthz", "/healthz", "/nothing", "/internal/status", "/metrics"} {
		get(r.addr + path)
	}
	status, text := get(r.metrics + "/metrics")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, `svc_http_request_duration_seconds_count{method="GET",route="/healthz",status="200"} 2`)
	require.Contains(t, text, `svc_http_request_duration_seconds_count{method="other",route="other",status="404"} 2`)
	require.Contains(t, text, `program="svc-engine",version="`+config.Version+`"} 1`)
	require.Contains(t, text, "go_goroutines")
	require.NotContains(t, text, secret)
	status, _ = get(r.metrics + "/healthz")
	require.Equal(t, http.StatusNotFound, status)
	r.stop(t)
}
