package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A rest is a service in a process of its own.
type rest struct {
	command *exec.Cmd
	addr    string
	took    time.Duration // until it answered
}

// secret is that of nobody.
const secret = "0123456789abcdef0123456789abcdef"

// rest starts svc-rest on a database. It is the built program: what is measured
// is what runs.
func (s *site) rest(ctx context.Context, databaseURL string, env ...string) (*rest, error) {
	addr, err := free(ctx)
	if err != nil {
		return nil, err
	}
	command := exec.Command(filepath.Join("bin", "svc-rest"))
	command.Env = append(append(os.Environ(),
		"SVC_REST_ADDR="+addr, "SVC_DATABASE_URL="+databaseURL, "SVC_ENGINE_URL=http://127.0.0.1:9", "SVC_ENGINE_SHARED_SECRET="+secret,
		"AUTH_URL=http://"+addr, "AUTH_SECRET="+secret, "SVC_VAULT_MASTER_KEY="+secret, "SVC_RATE_LIMIT=0"), env...)
	return start(ctx, command, addr)
}

// lean starts the service that is written by hand, in a process of its own like ours.
func (s *site) lean(ctx context.Context, databaseURL string) (*rest, error) {
	addr, err := free(ctx)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(ctx, exec.Command(program, "-lean", addr, databaseURL), addr)
}

// start starts a service and waits until it answers.
func start(ctx context.Context, command *exec.Cmd, addr string) (*rest, error) {
	r := &rest{addr: addr, command: command}
	r.command.Stderr = os.Stderr
	from := time.Now()
	if err := r.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s, which make build makes: %w", command.Path, err)
	}
	for {
		res, err := http.Get("http://" + addr + "/health/live")
		if err == nil {
			_ = res.Body.Close()
			r.took = time.Since(from)
			return r, nil
		}
		if time.Since(from) > 10*time.Second || ctx.Err() != nil {
			r.stop()
			return nil, fmt.Errorf("%s does not answer: %w", command.Path, err)
		}
		time.Sleep(time.Millisecond)
	}
}

func (r *rest) stop() {
	_ = r.command.Process.Signal(syscall.SIGTERM)
	_ = r.command.Wait()
}

// memory is what the process has in memory, in MiB.
func (r *rest) memory() (float64, error) { return r.status("VmRSS:") }

// peak is the most that it had.
func (r *rest) peak() (float64, error) { return r.status("VmHWM:") }

func (r *rest) status(field string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), field)
	fields := strings.Fields(rest)
	kib, err := strconv.ParseFloat(fields[0], 64)
	return kib / 1024, err
}

func free(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// callers keep a connection each and send the same request on it. They read as
// little as tells where an answer ends, so that it is not them that is measured.
type callers struct {
	mu    sync.Mutex
	addr  string
	conns map[int]*caller
}

type caller struct {
	net.Conn
	in *bufio.Reader
}

func newCallers(addr string) *callers { return &callers{addr: addr, conns: map[int]*caller{}} }

func (c *callers) of(worker int) (*caller, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one, ok := c.conns[worker]; ok {
		return one, nil
	}
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		return nil, err
	}
	one := &caller{conn, bufio.NewReader(conn)}
	c.conns[worker] = one
	return one, nil
}

func (c *callers) close() {
	for _, one := range c.conns {
		_ = one.Close()
	}
}

// send sends a request and expects a status.
func (c *callers) send(worker int, request []byte, status int) error {
	one, err := c.of(worker)
	if err != nil {
		return err
	}
	if _, err := one.Write(request); err != nil {
		return err
	}
	line, err := one.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	got, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return err
	}
	length, chunked := int64(0), false
	for {
		line, err := one.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err != nil {
				return err
			}
		}
		chunked = chunked || bytes.HasPrefix(line, []byte("Transfer-Encoding: chunked"))
	}
	if got != status {
		text, _ := io.ReadAll(io.LimitReader(one.in, 200))
		return fmt.Errorf("status %d: %s", got, text)
	}
	if chunked {
		return one.skipChunks()
	}
	_, err = one.in.Discard(int(length))
	return err
}

func (c *caller) skipChunks() error {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 64)
		if err != nil {
			return err
		}
		if _, err := c.in.Discard(int(n) + 2); err != nil || n == 0 {
			return err
		}
	}
}

func request(line string, headers ...string) []byte {
	return []byte(line + " HTTP/1.1\r\nHost: a\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n")
}
