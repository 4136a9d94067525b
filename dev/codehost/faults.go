package codehost

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Faults make a host misbehave in tests. The zero value has no faults.
type Faults struct {
	mu    sync.Mutex
	paths map[string]Fault
}

// A Fault describes how a path misbehaves. Fields can be combined.
type Fault struct {
	Hold       <-chan struct{} // answer only when it is closed, or never if the client leaves before
	Delay      time.Duration   // delay of the answer
	Status     int             // answer with this status
	Body       string          // answer with this body, labelled as JSON
	Unverified bool            // list all addresses as unverified
	NoEmails   bool            // list no addresses
}

// Set sets the fault of a path, such as /user or /api/v3/user/emails, for subsequent requests. The
// zero Fault removes it.
func (f *Faults) Set(path string, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.paths == nil {
		f.paths = map[string]Fault{}
	}
	f.paths[path] = fault
}

func (f *Faults) at(path string) Fault {
	if f == nil {
		return Fault{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.paths[path]
}

func (f *Faults) serve(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fault := f.at(r.URL.Path)
		if !fault.wait(r) {
			panic(http.ErrAbortHandler) // the client has gone
		}
		switch {
		case fault.Body != "":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(max(fault.Status, http.StatusOK))
			_, _ = io.WriteString(w, fault.Body) // fails if the client has gone
		case fault.Status != 0:
			refuse(w, fault.Status, http.StatusText(fault.Status))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// wait waits as the fault requires and reports whether the client is still connected. It reads the
// body first, because the server detects disconnects only after that.
func (f Fault) wait(r *http.Request) bool {
	if f.Hold == nil && f.Delay == 0 {
		return true
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if f.Hold != nil {
		select {
		case <-f.Hold:
		case <-r.Context().Done():
			return false
		}
	}
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-r.Context().Done():
			return false
		}
	}
	return true
}

// emails applies the fault of a path to a list of addresses.
func (f *Faults) emails(path string, list []Email) []Email {
	switch fault := f.at(path); {
	case fault.NoEmails:
		return nil
	case fault.Unverified:
		list = slices.Clone(list)
		for i := range list {
			list[i].Verified = false
		}
	}
	return list
}
