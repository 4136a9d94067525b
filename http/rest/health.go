package rest

import (
	"context"
	"net/http"
	"sync"
	"time"

	"svc/http/reply"
)

// checkTime is how long a dependency may take to answer.
const checkTime = 2 * time.Second

// A Check asks a dependency whether it answers. Its error is shown to
// operators: it names no address and no secret.
type Check func(context.Context) error

type dependency struct {
	Status  string `json:"status"` // up, down
	Message string `json:"message,omitempty"`
}

type readiness struct {
	Status string                `json:"status"` // ok, error
	Info   map[string]dependency `json:"info"`   // what is up
	Error  map[string]dependency `json:"error"`  // what is down
}

// live answers as long as the process runs.
func live(w http.ResponseWriter, _ *http.Request) {
	reply.JSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// ready asks all dependencies at once and answers 503 if one is down.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), checkTime)
	defer cancel()
	out := readiness{Status: "ok", Info: map[string]dependency{}, Error: map[string]dependency{}}
	var mu sync.Mutex
	var group sync.WaitGroup
	for name, check := range s.Dependencies {
		group.Go(func() {
			err := check(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				out.Info[name] = dependency{Status: "up"}
				return
			}
			s.Log.WarnContext(r.Context(), "dependency is down", "dependency", name, "err", err)
			out.Status, out.Error[name] = "error", dependency{"down", "The " + name + " does not answer."}
		})
	}
	group.Wait()
	status := http.StatusOK
	if out.Status != "ok" {
		status = http.StatusServiceUnavailable
	}
	reply.JSON(w, status, out)
}
