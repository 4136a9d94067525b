package codehost

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Faults make a host misbehave, for tests. The zero value does nothing yet.
type Faults struct {
	mu    sync.Mutex
	paths map[string]Fault
}

// A Fault is how one path misbehaves; its fields add up.
type Fault struct {
	Hold       <-chan struct{} // answers when it is closed; never, if the caller goes before
	Delay      time.Duration   // answers so much later
	Status     int             // answers with this instead
	Body       string          // answers with this instead, as JSON whatever it is
	Unverified bool            // no address in the list is verified
	NoEmails   bool            // the list of addresses is empty
}

// Set makes a path, such as /user or /api/v3/user/emails, misbehave from the
// next request on. The zero Fault mends it.
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
			panic(http.ErrAbortHandler) // nobody is there to answer
		}
		switch {
		case fault.Body != "":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(max(fault.Status, http.StatusOK))
			_, _ = io.WriteString(w, fault.Body) // if it fails the caller has gone
		case fault.Status != 0:
			refuse(w, fault.Status, http.StatusText(fault.Status))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// wait reports whether the caller is still there when the fault has passed.
// It takes the body in first, for only then does the server see callers go.
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

// emails returns a list of addresses as the fault at path leaves it.
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
