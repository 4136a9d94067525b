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

// A serviceProcess is a running program of the service.
type serviceProcess struct {
	command     *exec.Cmd
	addr        string
	startupTime time.Duration // from its start until it answered
}

// secret is every secret of the services under test.
const secret = "0123456789abcdef0123456789abcdef"

// startRest starts bin/svc-rest, as it was built, on a database.
func (s *suite) startRest(ctx context.Context, databaseURL string, env ...string) (*serviceProcess, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	command := exec.Command(filepath.Join("bin", "svc-rest"))
	command.Env = append(append(os.Environ(),
		"SVC_REST_ADDR="+addr, "SVC_DATABASE_URL="+databaseURL, "SVC_ENGINE_URL=http://127.0.0.1:9", "SVC_ENGINE_SHARED_SECRET="+secret,
		"AUTH_URL=http://"+addr, "AUTH_SECRET="+secret, "SVC_VAULT_MASTER_KEY="+secret, "SVC_RATE_LIMIT=0"), env...)
	return startProcess(ctx, command, addr)
}

// startLean starts the baseline of role_change, in a process of its own like svc-rest.
func (s *suite) startLean(ctx context.Context, databaseURL string) (*serviceProcess, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startProcess(ctx, exec.Command(program, "-lean", addr, databaseURL), addr)
}

// startProcess starts a service and waits until it answers.
func startProcess(ctx context.Context, command *exec.Cmd, addr string) (*serviceProcess, error) {
	r := &serviceProcess{addr: addr, command: command}
	r.command.Stderr = os.Stderr
	from := time.Now()
	if err := r.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s, which make build makes: %w", command.Path, err)
	}
	for {
		res, err := http.Get("http://" + addr + "/health/live")
		if err == nil {
			_ = res.Body.Close()
			r.startupTime = time.Since(from)
			return r, nil
		}
		if time.Since(from) > 10*time.Second || ctx.Err() != nil {
			r.stop()
			return nil, fmt.Errorf("%s does not answer: %w", command.Path, err)
		}
		time.Sleep(time.Millisecond)
	}
}

func (r *serviceProcess) stop() {
	_ = r.command.Process.Signal(syscall.SIGTERM)
	_ = r.command.Wait()
}

// memory returns the resident memory of the process in MiB.
func (r *serviceProcess) memory() (float64, error) { return r.memoryField("VmRSS:") }

// peakMemory returns the highest resident memory so far in MiB.
func (r *serviceProcess) peakMemory() (float64, error) { return r.memoryField("VmHWM:") }

// memoryField returns a field of /proc/PID/status in MiB.
func (r *serviceProcess) memoryField(field string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), field)
	fields := strings.Fields(rest)
	kib, err := strconv.ParseFloat(fields[0], 64)
	return kib / 1024, err
}

// freeAddr returns a loopback address that nobody listens on.
func freeAddr(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// callers are HTTP clients that keep one connection for each worker. They parse only as
// much of an answer as tells where it ends, so that they use little processor time.
type callers struct {
	mu    sync.Mutex
	addr  string
	conns map[int]*caller
}

type caller struct {
	net.Conn
	reader *bufio.Reader
}

func newCallers(addr string) *callers { return &callers{addr: addr, conns: map[int]*caller{}} }

// connection returns the connection of a worker, and opens it on first use.
func (c *callers) connection(worker int) (*caller, error) {
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

// send sends a request and requires a status.
func (c *callers) send(worker int, request []byte, status int) error {
	one, err := c.connection(worker)
	if err != nil {
		return err
	}
	if _, err := one.Write(request); err != nil {
		return err
	}
	line, err := one.reader.ReadSlice('\n')
	if err != nil {
		return err
	}
	got, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return err
	}
	length, chunked := int64(0), false
	for {
		line, err := one.reader.ReadSlice('\n')
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
		text, _ := io.ReadAll(io.LimitReader(one.reader, 200))
		return fmt.Errorf("status %d: %s", got, text)
	}
	if chunked {
		return one.skipChunks()
	}
	_, err = one.reader.Discard(int(length))
	return err
}

func (c *caller) skipChunks() error {
	for {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 64)
		if err != nil {
			return err
		}
		if _, err := c.reader.Discard(int(n) + 2); err != nil || n == 0 {
			return err
		}
	}
}

// rawRequest returns the head of an HTTP/1.1 request. line is its method and path.
func rawRequest(line string, headers ...string) []byte {
	return []byte(line + " HTTP/1.1\r\nHost: a\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n")
}
