// Package faults makes requests to the code host fail as tests ask for.
package faults

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"svc/http/reply"
)

// A rule says what goes wrong with requests that match it. Tests add rules by POST /_test/faults.
type rule struct {
	Match struct {
		Method string `json:"method"` // any if it is empty
		Path   string `json:"path"`   // a regular expression
	} `json:"match"`
	Kind       string `json:"kind"`
	Status     int    `json:"status"`
	Message    string `json:"message"`
	Body       string `json:"body"`
	RetryAfter int    `json:"retryAfter"` // seconds
	Delay      int    `json:"delay"`      // milliseconds
	Times      int    `json:"times"`      // 0: until the rules are removed
	After      bool   `json:"after"`      // the work is done before the answer fails
	Hits       int    `json:"hits"`       // how often it has matched

	path   *regexp.Regexp
	refuse func(w http.ResponseWriter, status int, text string)
}

// Kinds of faults.
const (
	faultDelay     = "delay"       // works, or with After answers, after Delay
	faultStatus    = "status"      // answers Status with Message
	faultRateLimit = "rate_limit"  // the limit is used up; with RetryAfter, a secondary limit
	faultCut       = "cut"         // closes the connection; with After, in the middle of the answer
	faultTwice     = "twice"       // does the work twice, as if a proxy had sent the request again
	faultStale     = "stale"       // pull requests have the head before the last push
	faultBody      = "body"        // answers 200 and Body
	faultPush      = "refuse_push" // each ref of the push is refused with Message
	faultLie       = "lie"         // a merge leaves out the change, and says that it is merged
)

var faultKinds = []string{faultDelay, faultStatus, faultRateLimit, faultCut, faultTwice, faultStale, faultBody, faultPush, faultLie}

// Hourly is how many requests an hour each account has.
const Hourly = 5000

const (
	maxFaults = 100
	maxDelay  = 60_000 // milliseconds
)

// Rules say what goes wrong. The first of them applies that matches.
type Rules struct {
	Refuse func(w http.ResponseWriter, status int, text string) // answers an error

	mu   sync.Mutex
	list []*rule
}

// Add adds the rule in the body.
func (f *Rules) Add(w http.ResponseWriter, r *http.Request) {
	var added rule
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(&added)
	if err == nil {
		added.path, err = regexp.Compile(added.Match.Path)
	}
	switch {
	case err != nil:
		f.Refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	case !slices.Contains(faultKinds, added.Kind) || added.Kind == faultStatus && (added.Status < 400 || added.Status > 599):
		f.Refuse(w, http.StatusUnprocessableEntity, "want one of the kinds "+strings.Join(faultKinds, ", ")+", and of status a status")
		return
	case added.Delay < 0 || added.Delay > maxDelay || added.RetryAfter < 0 || added.Times < 0:
		f.Refuse(w, http.StatusUnprocessableEntity, "want numbers of 0 and above, and a minute at most")
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.list) >= maxFaults {
		f.Refuse(w, http.StatusUnprocessableEntity, "there are too many faults")
		return
	}
	added.refuse = f.Refuse
	f.list = append(f.list, &added)
	reply.JSON(w, http.StatusCreated, added)
}

// Show answers the rules.
func (f *Rules) Show(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	reply.JSON(w, http.StatusOK, map[string]any{"faults": append([]*rule{}, f.list...)})
}

// Clear removes all rules.
func (f *Rules) Clear(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = nil
	w.WriteHeader(http.StatusNoContent)
}

// take returns the rule for a request, if there is one that applies once more.
func (f *Rules) take(r *http.Request) *rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.list {
		if (one.Match.Method == "" || one.Match.Method == r.Method) && one.path.MatchString(r.URL.Path) &&
			(one.Times == 0 || one.Hits < one.Times) {
			one.Hits++
			return one
		}
	}
	return nil
}

// Inject applies faults to the requests for next. Nil faults are none.
func (f *Rules) Inject(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f == nil || strings.HasPrefix(r.URL.Path, "/_test/") {
			next.ServeHTTP(w, r)
			return
		}
		one := f.take(r)
		if one == nil {
			next.ServeHTTP(w, r)
			return
		}
		one.apply(w, r, next)
	})
}

func (f *rule) apply(w http.ResponseWriter, r *http.Request, next http.Handler) {
	late := f.Kind == faultDelay && f.After
	if !late && !f.wait(r.Context()) {
		return
	}
	switch {
	case f.Kind == faultDelay && !late:
		next.ServeHTTP(w, r)
		return
	case f.Kind == faultStale:
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), staleKey{}, true)))
		return
	case f.Kind == faultLie:
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), lieKey{}, true)))
		return
	case f.Kind == faultPush:
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), refusedPushKey{}, f.Message)))
		return
	}
	done := newKept()
	if f.After || f.Kind == faultTwice {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			f.refuse(w, http.StatusBadRequest, "Problems reading the body")
			return
		}
		again := func() *http.Request {
			c := r.Clone(r.Context())
			c.Body = io.NopCloser(bytes.NewReader(body))
			return c
		}
		next.ServeHTTP(done, again())
		if f.Kind == faultTwice {
			next.ServeHTTP(w, again())
			return
		}
	}
	if !late || f.wait(r.Context()) {
		f.answer(w, done)
	}
}

// wait waits for Delay. It returns false if the client has gone.
func (f *rule) wait(ctx context.Context) bool {
	select {
	case <-time.After(time.Duration(f.Delay) * time.Millisecond):
		return true
	case <-ctx.Done():
		return false
	}
}

// answer answers a request whose work was or was not done.
func (f *rule) answer(w http.ResponseWriter, done *kept) {
	switch f.Kind {
	case faultDelay:
		maps.Copy(w.Header(), done.header)
		w.WriteHeader(done.status)
		_, _ = w.Write(done.body.Bytes())
	case faultCut:
		if f.After {
			maps.Copy(w.Header(), done.header)
			w.Header().Set("Content-Length", strconv.Itoa(done.body.Len()))
			w.WriteHeader(done.status)
			_, _ = w.Write(done.body.Bytes()[:done.body.Len()/2])
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	case faultRateLimit:
		f.limit(w)
	case faultBody:
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(cmp.Or(f.Status, http.StatusOK))
		_, _ = io.WriteString(w, f.Body)
	default:
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		}
		f.refuse(w, f.Status, cmp.Or(f.Message, http.StatusText(f.Status)))
	}
}

// limit answers as GitHub does if a limit is used up.
func (f *rule) limit(w http.ResponseWriter) {
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		f.refuse(w, cmp.Or(f.Status, http.StatusForbidden),
			"You have exceeded a secondary rate limit. Please wait a few minutes before you try again.")
		return
	}
	w.Header().Set("X-RateLimit-Limit", strconv.Itoa(Hourly))
	w.Header().Set("X-RateLimit-Remaining", "0")
	w.Header().Set("X-RateLimit-Used", strconv.Itoa(Hourly))
	w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Add(time.Minute).Unix(), 10))
	w.Header().Set("X-RateLimit-Resource", "core")
	f.refuse(w, cmp.Or(f.Status, http.StatusForbidden), "API rate limit exceeded for user ID 1.")
}

type (
	staleKey       struct{}
	lieKey         struct{}
	refusedPushKey struct{}
)

// Stale reports whether pull requests show the head before the last push.
func Stale(ctx context.Context) bool { return ctx.Value(staleKey{}) != nil }

// Lying reports whether a merge leaves out the change.
func Lying(ctx context.Context) bool { return ctx.Value(lieKey{}) != nil }

// RefusedPush returns with which words a push is refused, or "".
func RefusedPush(ctx context.Context) string {
	text, _ := ctx.Value(refusedPushKey{}).(string)
	return text
}

// A kept is an answer that is not sent.
type kept struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newKept() *kept { return &kept{header: http.Header{}, status: http.StatusOK} }

func (k *kept) Header() http.Header            { return k.header }
func (k *kept) WriteHeader(status int)         { k.status = status }
func (k *kept) Write(text []byte) (int, error) { return k.body.Write(text) }
