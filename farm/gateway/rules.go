package gateway

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Rule lets requests through.
type Rule struct {
	Name    string         // what it is about, with {names} for what may be anything
	Methods []string       // nil for any that is not about the connection itself
	Path    *regexp.Regexp // of the path as it was sent
	Example string         // a path that it matches

	Body   int64         // the most bytes that a request may have
	Idle   time.Duration // how long the next bytes of the request or the answer may take
	Answer time.Duration // how long the answer may take to begin, after all of the request
	Tunnel time.Duration // how long both sides of a WebSocket may be silent; 0 if there is none
}

const (
	uploads = 900 * time.Second // a slow disk or line is none of ours to judge
	small   = 1 << 20
	usual   = 60 * time.Second
	// The agent's heartbeat is every ten seconds.
	silence = 120 * time.Second
)

// Rules are all that a gateway lets through, where a job may have maxJobBytes of artifacts.
// One path has one rule at most.
func Rules(maxJobBytes int64) []Rule {
	get := []string{http.MethodGet, http.MethodHead}
	return []Rule{
		{Name: "/install.sh", Methods: get, Path: path(`/install\.sh`), Example: "/install.sh", Idle: usual, Answer: usual},
		{Name: "/runner/{file}", Methods: get, Path: path(`/runner(/` + segment + `)+`), Example: "/runner/latest.json", Idle: usual, Answer: usual},
		{
			Name: "/api/v1/farm/registrations", Path: path(`/api/v1/farm/registrations(/` + segment + `)*`), Example: "/api/v1/farm/registrations",
			Body: small, Idle: usual, Answer: usual,
		},
		{
			Name: "/api/v1/farm/agent", Methods: []string{http.MethodGet}, Path: path(`/api/v1/farm/agent`), Example: "/api/v1/farm/agent",
			Idle: usual, Answer: usual, Tunnel: silence,
		},
		{
			Name: "/api/v1/farm/jobs/{id}/artifacts", Methods: []string{http.MethodPost}, Path: path(`/api/v1/farm/jobs/[0-9a-f-]+/artifacts`),
			Example: "/api/v1/farm/jobs/019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9/artifacts",
			Body:    UploadLimit(maxJobBytes), Idle: uploads, Answer: uploads,
		},
	}
}

// UploadLimit is the most bytes that a request with the artifacts of a job has: what they
// are in a multipart body with their manifest. Of 256 MiB it makes 300.
func UploadLimit(maxJobBytes int64) int64 { return maxJobBytes + maxJobBytes/8 + 12<<20 }

// A segment has letters that mean nothing to any server.
const segment = `[A-Za-z0-9_~-][A-Za-z0-9._~-]*`

func path(pattern string) *regexp.Regexp { return regexp.MustCompile(`^` + pattern + `$`) }

// Match returns the rule that lets a request through. target is the request's target as it
// was sent: a path and perhaps a query, or what a client of a proxy would send.
func Match(rules []Rule, method, target string) (Rule, bool) {
	path, _, _ := strings.Cut(target, "?")
	for _, rule := range rules {
		if rule.Path.MatchString(path) {
			return rule, rule.takes(method)
		}
	}
	return Rule{}, false
}

func (r Rule) takes(method string) bool {
	if r.Methods == nil {
		return method != http.MethodConnect && method != http.MethodTrace
	}
	return slices.Contains(r.Methods, method)
}
