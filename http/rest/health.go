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

	"svc/http/reply"
)

// checkTime is how long a dependency may take to answer.
const checkTime = 2 * time.Second

// checkAgain is how old the dashboard's picture of the dependencies gets.
const checkAgain = 5 * time.Second

// A Check asks a dependency whether it answers, and what it says of itself, such as its
// version. That and its error are shown to people: they name no address and no secret.
type Check func(context.Context) (says string, err error)

// A Down is the error of a check that is shown as it is.
type Down string

func (d Down) Error() string { return string(d) }

type dependency struct {
	Status  string `json:"status"` // up, warning, down
	Message string `json:"message,omitempty"`
}

type readiness struct {
	Status string                `json:"status"` // ok, error
	Info   map[string]dependency `json:"info"`   // what is up, and what operators should look at all the same
	Error  map[string]dependency `json:"error"`  // what is down
}

// live answers as long as the process runs.
func live(w http.ResponseWriter, _ *http.Request) {
	reply.JSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// health asks the dependencies and remembers what they said.
type health struct {
	checks   map[string]Check
	warnings func() map[string]string
	log      *slog.Logger
	last     atomic.Pointer[picture]

	mu   sync.Mutex
	look *look // the newest that a caller began
}

func newHealth(checks map[string]Check, warnings func() map[string]string, log *slog.Logger) *health {
	if warnings == nil {
		warnings = func() map[string]string { return nil }
	}
	return &health{checks: checks, warnings: warnings, log: log}
}

// lookAge is how long callers share a look at the dependencies, from its beginning:
// anybody may ask, as often as they like.
const lookAge = 250 * time.Millisecond

// A look is one round of questions, for all who ask at about the same time.
type look struct {
	began time.Time
	done  chan struct{}
	found *picture // when done is closed
}

// shared returns what is found now, or was a moment ago. It is nil if ctx ends first.
func (h *health) shared(ctx context.Context) *picture {
	h.mu.Lock()
	l := h.look
	first := l == nil || l.found != nil && time.Since(l.began) >= lookAge
	if first {
		l = &look{began: time.Now(), done: make(chan struct{})}
		h.look = l
	}
	h.mu.Unlock()
	if first { // which ends in time, also for those who wait for it if this caller goes away
		found := h.ask(context.WithoutCancel(ctx), never)
		h.mu.Lock()
		l.found = found
		h.mu.Unlock()
		close(l.done)
		return found
	}
	select {
	case <-l.done:
		return l.found
	case <-ctx.Done():
		return nil
	}
}

// A picture is what the dependencies said, also in the form of the dashboard.
type picture struct {
	readiness
	system system
	text   string // of system, but how long and when they were asked; it differs if that does
}

// itself is this service among what the dashboard shows: it answers, or nobody would know.
var itself = systemDependency{Name: "rest", Status: "up", Message: "Version " + Version + "."}

// newPicture puts together what the dependencies said at a time.
func newPicture(list []systemDependency, at time.Time) *picture {
	p := &picture{readiness: readiness{Status: "ok", Info: map[string]dependency{}, Error: map[string]dependency{}}}
	list = append(list, itself)
	slices.SortFunc(list, func(a, b systemDependency) int { return cmp.Compare(a.Name, b.Name) })
	for _, d := range list {
		p.text += fmt.Sprintln(d.Name, d.Status, d.Message)
		switch {
		case d.Status == "down":
			p.Status, p.Error[d.Name] = "error", dependency{d.Status, d.Message}
		case d.Name != itself.Name:
			p.Info[d.Name] = dependency{Status: d.Status}
		}
	}
	p.system = system{p.Status, optional(&at), list}
	return p
}

// run asks again and again until ctx ends, so that last is never old.
func (h *health) run(ctx context.Context) {
	again := time.NewTicker(checkAgain)
	defer again.Stop()
	for ctx.Err() == nil {
		h.ask(ctx, h.known)
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

// ask asks all dependencies at once. What is down is logged unless quiet says
// that it need not be.
func (h *health) ask(ctx context.Context, quiet func(name string) bool) *picture {
	within, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	var mu sync.Mutex
	var list []systemDependency
	var group sync.WaitGroup
	begun := time.Now()
	for name, check := range h.checks {
		group.Go(func() {
			says, err := check(within)
			one := systemDependency{name, "up", says, time.Since(begun).Milliseconds()}
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
	found := newPicture(list, begun)
	if ctx.Err() == nil { // or whoever asked has gone, and the answer is about that
		h.last.Store(found)
	}
	return found
}

// known reports whether a dependency was down when it was asked before.
func (h *health) known(name string) bool {
	last := h.last.Load()
	return last != nil && last.Error[name].Status == "down"
}

// ready answers 503 if a dependency is down now. Warnings change no status: taking
// the service away would mend none of them.
func (h *health) ready(w http.ResponseWriter, r *http.Request) {
	found, status := h.shared(r.Context()), http.StatusOK
	if found == nil {
		return // nobody waits for an answer
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

func never(string) bool { return false }

// now returns what was last found.
func (h *health) now(ctx context.Context) *picture {
	if found := h.last.Load(); found != nil {
		return found
	}
	return h.ask(ctx, h.known)
}
