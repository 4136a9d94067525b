package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"svc/dev/codehost/faults"
)

// Write writes an answer. One to GET has an ETag, and is 304 if the caller has it.
func Write(w http.ResponseWriter, r *http.Request, status int, body any) {
	head := w.Header()
	head.Set("X-GitHub-Request-Id", head.Get("X-Request-Id"))
	head.Set("X-GitHub-Api-Version-Selected", "2022-11-28")
	head.Set("X-GitHub-Media-Type", "github.v3; format=json")
	if body == nil {
		w.WriteHeader(status)
		return
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // the type is a bug
	}
	head.Set("Content-Type", "application/json; charset=utf-8")
	if r.Method == http.MethodGet && status == http.StatusOK {
		sum := sha256.Sum256(append(text, r.Header.Get("Authorization")...))
		tag := `W/"` + hex.EncodeToString(sum[:]) + `"`
		head.Set("ETag", tag)
		head.Set("Cache-Control", "private, max-age=60, s-maxage=60")
		head.Set("Vary", "Accept, Authorization, Cookie, X-GitHub-OTP")
		if slices.Contains(strings.Split(r.Header.Get("If-None-Match"), ", "), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	w.WriteHeader(status)
	_, _ = w.Write(text) // fails if the client has gone
}

// Page returns the page of a list that the query asks for, and sets Link.
func Page[T any](head http.Header, r *http.Request, list []T) []T {
	size, number := PositiveParam(r, "per_page", 30, 100), PositiveParam(r, "page", 1, 10_000)
	last := max(1, (len(list)+size-1)/size)
	link := func(page int, rel string) string {
		query := r.URL.Query()
		query.Set("page", strconv.Itoa(page))
		return "<" + Base(r) + r.URL.Path + "?" + query.Encode() + `>; rel="` + rel + `"`
	}
	var links []string
	if number > 1 {
		links = append(links, link(number-1, "prev"))
	}
	if number < last {
		links = append(links, link(number+1, "next"), link(last, "last"))
	}
	if number > 1 {
		links = append(links, link(1, "first"))
	}
	if links != nil {
		head.Set("Link", strings.Join(links, ", "))
	}
	begin := min((number-1)*size, len(list))
	return list[begin:min(begin+size, len(list))]
}

// PositiveParam parses a number in the query. Like GitHub it uses the fallback for invalid values.
func PositiveParam(r *http.Request, name string, fallback, most int) int {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || n < 1 {
		return fallback
	}
	return min(n, most)
}

// Base returns the URL by which the client reached the host.
func Base(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// Hours count requests by account and hour. The limit is told, and not enforced: tests inject it as a fault.
type Hours struct {
	mu     sync.Mutex
	hour   time.Time
	counts map[string]int
}

// Count counts a request and sets the headers of the limit.
func (l *Hours) Count(head http.Header, login string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if hour := now.Truncate(time.Hour); !hour.Equal(l.hour) {
		l.hour, l.counts = hour, map[string]int{}
	}
	l.counts[login]++
	used := min(l.counts[login], faults.Hourly-1)
	head.Set("X-RateLimit-Limit", strconv.Itoa(faults.Hourly))
	head.Set("X-RateLimit-Remaining", strconv.Itoa(faults.Hourly-used))
	head.Set("X-RateLimit-Used", strconv.Itoa(used))
	head.Set("X-RateLimit-Reset", strconv.FormatInt(l.hour.Add(time.Hour).Unix(), 10))
	head.Set("X-RateLimit-Resource", "core")
}
