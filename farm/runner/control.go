package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"svc/farm/runner/identity"
)

// A Status describes a running supervisor. svc-runner status prints it.
type Status struct {
	Version   string      `json:"version"`
	Name      string      `json:"name"`
	RunnerID  string      `json:"runnerId"`
	URL       string      `json:"url"`
	Connected time.Time   `json:"connectedSince,omitzero"` // zero if not connected
	LastError string      `json:"lastError,omitempty"`     // of the last failed connection
	Lost      int         `json:"connectionsLost"`         // in the last ten minutes, cut by neither side
	Draining  []string    `json:"draining,omitempty"`      // the sources of the drain
	Capacity  int         `json:"capacity"`
	Sandboxes []string    `json:"sandboxes"`
	NotAfter  time.Time   `json:"certificateUntil"`
	Jobs      []JobStatus `json:"jobs"`
}

// A JobStatus describes a held job.
type JobStatus struct {
	Job       string    `json:"job"`
	Epoch     int       `json:"epoch"`
	Name      string    `json:"name,omitempty"`
	State     string    `json:"state"`
	Since     time.Time `json:"since"`
	SpoolSize int64     `json:"spoolBytes"`
}

// ErrNotRunning says that no supervisor answers in the folder.
var ErrNotRunning = errors.New("svc-runner does not run with this data folder")

const controlTimeout = 10 * time.Second

// serveControl answers status and drain requests on a socket in the data folder, which only this
// user and root can open.
func (s *Supervisor) serveControl(ctx context.Context) (stop func(), err error) {
	if err := os.Remove(s.cfg.Folder.Path(identity.SocketFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("listen for status: %w", err)
	}
	dir, path, err := socket(s.cfg.Folder)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	ln, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for status: %w", err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false) // its path may go through a descriptor of this process
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(s.status()) // fails only if the client has gone
	})
	mux.HandleFunc("POST /drain", func(w http.ResponseWriter, r *http.Request) {
		s.drain(drainedHere, r.FormValue("end") == "")
		_ = json.NewEncoder(w).Encode(s.status()) // as above
	})
	server := &http.Server{Handler: mux, ReadTimeout: controlTimeout, WriteTimeout: controlTimeout}
	s.inBackground(func(context.Context) { _ = server.Serve(ln) }) // returns when it is closed
	return func() { _ = server.Close() }, nil
}

// socket returns the path of the control socket. The kernel limits it to about a hundred bytes. A
// longer one is reached through dir, so dir must stay open while the path is used.
func socket(f identity.Folder) (dir *os.File, path string, err error) {
	if dir, err = os.Open(string(f)); err != nil {
		return nil, "", fmt.Errorf("open data folder: %w", err)
	}
	if path = f.Path(identity.SocketFile); len(path) > 100 {
		path = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), identity.SocketFile)
	}
	return dir, path, nil
}

func (s *Supervisor) status() Status {
	jobs := s.heldJobs()
	s.mu.Lock()
	st := Status{
		Version: Version, Name: s.identity.Name, RunnerID: s.identity.RunnerID, URL: s.identity.URL, Connected: s.connected,
		LastError: s.lastError, Capacity: s.cfg.Capacity, Sandboxes: s.sandboxes, NotAfter: s.identity.NotAfter, Jobs: []JobStatus{},
	}
	st.Lost = len(s.recentlyLost())
	for by := range s.drains {
		st.Draining = append(st.Draining, string(by))
	}
	s.mu.Unlock()
	slices.Sort(st.Draining)
	for _, j := range jobs {
		size := j.spool.Bytes()
		j.mu.Lock()
		one := JobStatus{Job: j.jobID, Epoch: j.epoch, Name: j.title, State: j.state, Since: j.since, SpoolSize: size}
		if j.finishing {
			one.State = "uploading"
		}
		j.mu.Unlock()
		st.Jobs = append(st.Jobs, one)
	}
	slices.SortFunc(st.Jobs, func(a, b JobStatus) int { return strings.Compare(a.Job, b.Job) })
	return st
}

// AskStatus returns the status of the supervisor of a folder, or [ErrNotRunning].
func AskStatus(ctx context.Context, f identity.Folder) (Status, error) {
	return ask(ctx, f, http.MethodGet, "/status")
}

// AskDrain makes the supervisor of a folder stop taking jobs, or take them again. Its errors are
// those of [AskStatus].
func AskDrain(ctx context.Context, f identity.Folder, end bool) (Status, error) {
	if end {
		return ask(ctx, f, http.MethodPost, "/drain?end=true")
	}
	return ask(ctx, f, http.MethodPost, "/drain")
}

func ask(ctx context.Context, f identity.Folder, method, path string) (st Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		dir, path, err := socket(f)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	defer t.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, "http://runner"+path, bytes.NewReader(nil))
	if err != nil {
		return st, fmt.Errorf("ask the supervisor: %w", err)
	}
	res, err := (&http.Client{Transport: t}).Do(req)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return st, ErrNotRunning
	}
	if err != nil {
		return st, fmt.Errorf("ask the supervisor: %w", identity.WithoutAddress(err))
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&st); err != nil {
		return st, fmt.Errorf("ask the supervisor: %w", err)
	}
	return st, nil
}
