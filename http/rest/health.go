package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"svc/config"
	"svc/http/openapi"
	"svc/http/reply"
)

// Version is the version of the REST service, and info.version of its OpenAPI document.
const Version = config.Version

// checkTimeout bounds the check of a dependency.
const checkTimeout = 2 * time.Second

// checkEvery is the interval of the checks for the dashboard.
const checkEvery = 5 * time.Second

// A Check checks that a dependency answers, and returns what it reports about itself, such as its
// version. The message and a [Down] error are shown to people, so they must not contain addresses
// or secrets.
type Check func(context.Context) (message string, err error)

// A Down is the error of a check whose text is shown to people. Other errors are only logged.
type Down string

func (d Down) Error() string { return string(d) }

type dependency struct {
	Status  string `json:"status"` // up, warning, down
	Message string `json:"message,omitempty"`
}

type readiness struct {
	Status string                `json:"status"` // ok, error
	Info   map[string]dependency `json:"info"`   // dependencies that are up, and warnings to operators
	Error  map[string]dependency `json:"error"`  // dependencies that are down
}

// live answers 200 as long as the process runs.
func live(w http.ResponseWriter, _ *http.Request) {
	reply.JSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// health checks the dependencies and keeps the latest result.
type health struct {
	checks   map[string]Check
	warnings func() map[string]string
	log      *slog.Logger
	last     atomic.Pointer[healthSnapshot]

	mu    sync.Mutex
	probe *probe // the newest of /health/ready
}

func newHealth(checks map[string]Check, warnings func() map[string]string, log *slog.Logger) *health {
	if warnings == nil {
		warnings = func() map[string]string { return nil }
	}
	return &health{checks: checks, warnings: warnings, log: log}
}

// probeMaxAge is how long after its start a probe is shared. /health/ready needs no authentication and
// has no rate limit.
const probeMaxAge = 250 * time.Millisecond

// A probe is one check of all dependencies, shared by requests that arrive at about the same time.
type probe struct {
	began  time.Time
	done   chan struct{}
	result *healthSnapshot // valid once done is closed
}

// probeShared returns the result of a probe that is at most probeMaxAge old. It returns nil if ctx ends
// first.
func (h *health) probeShared(ctx context.Context) *healthSnapshot {
	h.mu.Lock()
	p := h.probe
	first := p == nil || p.result != nil && time.Since(p.began) >= probeMaxAge
	if first {
		p = &probe{began: time.Now(), done: make(chan struct{})}
		h.probe = p
	}
	h.mu.Unlock()
	if first { // not cancelled with this caller: others wait for the result, and checkTimeout bounds it
		result := h.probeAll(context.WithoutCancel(ctx), neverQuiet)
		h.mu.Lock()
		p.result = result
		h.mu.Unlock()
		close(p.done)
		return result
	}
	select {
	case <-p.done:
		return p.result
	case <-ctx.Done():
		return nil
	}
}

type system struct {
	Status       string             `json:"status" enum:"ok,error"`
	AskedAt      *openapi.Timestamp `json:"askedAt" nullable:"true" doc:"When the dependencies were checked. They are checked every five seconds; a 304 means that their status is unchanged."`
	Dependencies []systemDependency `json:"dependencies" nullable:"false" doc:"The service and its dependencies, by name."`
}

type systemDependency struct {
	Name    string `json:"name" example:"engine" doc:"rest is the service itself."`
	Status  string `json:"status" enum:"up,down"`
	Message string `json:"message" doc:"The problem if it is down; otherwise what it reports about itself, if anything." example:"The engine does not answer."`
	TookMS  int64  `json:"tookMs" doc:"Duration of the check; 0 for the service itself." example:"3"`
}

// A healthSnapshot is the state of the dependencies at a time, for /health/ready and the dashboard.
type healthSnapshot struct {
	readiness
	system system
	text   string // of the dependencies' names, states and messages; part of the dashboard's ETag
}

// selfDependency is this service in the dashboard's list. It is up whenever it answers.
var selfDependency = systemDependency{Name: "rest", Status: "up", Message: "Version " + Version + "."}

// newHealthSnapshot returns the snapshot of list, checked at a time, and of this service.
func newHealthSnapshot(list []systemDependency, at time.Time) *healthSnapshot {
	p := &healthSnapshot{readiness: readiness{Status: "ok", Info: map[string]dependency{}, Error: map[string]dependency{}}}
	list = append(list, selfDependency)
	slices.SortFunc(list, func(a, b systemDependency) int { return cmp.Compare(a.Name, b.Name) })
	for _, d := range list {
		p.text += fmt.Sprintln(d.Name, d.Status, d.Message)
		switch {
		case d.Status == "down":
			p.Status, p.Error[d.Name] = "error", dependency{d.Status, d.Message}
		case d.Name != selfDependency.Name:
			p.Info[d.Name] = dependency{Status: d.Status}
		}
	}
	p.system = system{p.Status, openapi.FormatOptionalTime(&at), list}
	return p
}

// run checks the dependencies every checkEvery until ctx ends.
func (h *health) run(ctx context.Context) {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		h.probeAll(ctx, h.wasDown)
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// probeAll checks all dependencies concurrently. It logs those that are down, unless quiet returns true.
func (h *health) probeAll(ctx context.Context, quiet func(name string) bool) *healthSnapshot {
	within, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var mu sync.Mutex
	var list []systemDependency
	var group sync.WaitGroup
	start := time.Now()
	for name, check := range h.checks {
		group.Go(func() {
			message, err := check(within)
			one := systemDependency{name, "up", message, time.Since(start).Milliseconds()}
			if err != nil {
				one.Status, one.Message = "down", "The "+name+" does not answer."
				if down, ok := errors.AsType[Down](err); ok {
					one.Message = string(down)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			list = append(list, one)
			if err != nil && ctx.Err() == nil && !quiet(name) {
				h.log.WarnContext(ctx, "dependency is down", "dependency", name, "err", err)
			}
		})
	}
	group.Wait()
	found := newHealthSnapshot(list, start)
	if ctx.Err() == nil { // otherwise the checks failed because the caller left
		h.last.Store(found)
	}
	return found
}

// wasDown reports whether a dependency was down in the latest snapshot.
func (h *health) wasDown(name string) bool {
	last := h.last.Load()
	return last != nil && last.Error[name].Status == "down"
}

// ready answers 503 if a dependency is down. Warnings do not change the status: taking the replica out
// of service would not fix them.
func (h *health) ready(w http.ResponseWriter, r *http.Request) {
	found, status := h.probeShared(r.Context()), http.StatusOK
	if found == nil {
		return // the caller has disconnected
	}
	if found.Status != "ok" {
		status = http.StatusServiceUnavailable
	}
	out := found.readiness
	if list := h.warnings(); len(list) > 0 {
		out.Info = maps.Clone(out.Info)
		for name, message := range list {
			out.Info[name] = dependency{"warning", message}
		}
	}
	reply.JSON(w, status, out)
}

func neverQuiet(string) bool { return false }

// latest returns the latest snapshot, or takes the first one.
func (h *health) latest(ctx context.Context) *healthSnapshot {
	if found := h.last.Load(); found != nil {
		return found
	}
	return h.probeAll(ctx, h.wasDown)
}
