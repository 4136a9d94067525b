package gateway

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Rule allows requests to a path.
type Rule struct {
	Name    string         // path pattern for logs and metrics, with {names} for variable parts
	Methods []string       // allowed methods, which are labels of metrics
	Path    *regexp.Regexp // matches the path as it was sent, undecoded
	Example string         // a path that matches

	MaxBody       int64         // limit of the request's body in bytes
	IdleTimeout   time.Duration // timeout of each read of the request and write of the answer
	AnswerTimeout time.Duration // timeout from the end of the request to the answer's header
	TunnelIdle    time.Duration // how long a side of a WebSocket may be silent; 0 allows no WebSocket
}

const (
	uploadTimeout = 900 * time.Second // tolerates slow disks and lines
	smallBody     = 1 << 20
	usualTimeout  = 60 * time.Second
	// tunnelIdle is well above the ten seconds between the heartbeats of a runner.
	tunnelIdle = 120 * time.Second
)

// Rules returns everything that a gateway forwards. maxJobBytes is the limit on a job's artifacts.
// At most one rule matches a path.
func Rules(maxJobBytes int64) []Rule {
	get := []string{http.MethodGet, http.MethodHead}
	usual := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	return []Rule{
		{
			Name: "/install.sh", Methods: get, Path: path(`/install\.sh`), Example: "/install.sh",
			IdleTimeout: usualTimeout, AnswerTimeout: usualTimeout,
		},
		{
			Name: "/runner/{file}", Methods: get, Path: path(`/runner(/` + segment + `)+`), Example: "/runner/latest.json",
			IdleTimeout: usualTimeout, AnswerTimeout: usualTimeout,
		},
		{
			Name: "/api/v1/farm/registrations", Methods: usual, Path: path(`/api/v1/farm/registrations(/` + segment + `)*`),
			Example: "/api/v1/farm/registrations",
			MaxBody: smallBody, IdleTimeout: usualTimeout, AnswerTimeout: usualTimeout,
		},
		{
			Name: "/api/v1/farm/agent", Methods: []string{http.MethodGet}, Path: path(`/api/v1/farm/agent`), Example: "/api/v1/farm/agent",
			IdleTimeout: usualTimeout, AnswerTimeout: usualTimeout, TunnelIdle: tunnelIdle,
		},
		{
			Name: "/api/v1/farm/jobs/{id}/artifacts", Methods: []string{http.MethodPost}, Path: path(`/api/v1/farm/jobs/[0-9a-f-]+/artifacts`),
			Example: "/api/v1/farm/jobs/019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9/artifacts",
			MaxBody: UploadLimit(maxJobBytes), IdleTimeout: uploadTimeout, AnswerTimeout: uploadTimeout,
		},
	}
}

// UploadLimit returns the largest request with the artifacts of a job: the files in a multipart
// body with their manifest. For 256 MiB of files it is 300 MiB.
func UploadLimit(maxJobBytes int64) int64 { return maxJobBytes + maxJobBytes/8 + 12<<20 }

// segment matches a path segment whose characters have no special meaning to any server.
const segment = `[A-Za-z0-9_~-][A-Za-z0-9._~-]*`

func path(pattern string) *regexp.Regexp { return regexp.MustCompile(`^` + pattern + `$`) }

// Match returns the rule that allows a request. target is the request target as it was sent: a path
// with an optional query, or the absolute form for proxies.
func Match(rules []Rule, method, target string) (Rule, bool) {
	path, _, _ := strings.Cut(target, "?")
	for _, rule := range rules {
		if rule.Path.MatchString(path) {
			return rule, slices.Contains(rule.Methods, method)
		}
	}
	return Rule{}, false
}
