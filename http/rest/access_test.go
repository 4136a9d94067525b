package rest

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/http/rest/door"
)

var placeholder = regexp.MustCompile(`<[^>]+>|{\w+}`)

// ofMachines reports whether a route belongs to package farm. test/api checks that access.txt covers those.
func ofMachines(method, path string) bool {
	return strings.HasPrefix(path, "/farm/registrations") || path == "/farm/agent" ||
		method == "POST" && strings.HasPrefix(path, "/farm/jobs/") && strings.HasSuffix(path, "/artifacts")
}

// access.txt has the expected answers of each route to each kind of caller, which test/api checks.
func TestAccessFileCoversEveryRoute(t *testing.T) {
	text, err := os.ReadFile("../../test/testdata/access.txt")
	require.NoError(t, err)
	covered := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		method, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		path, _, _ = strings.Cut(path, "?")
		if path, ok := strings.CutPrefix(path, door.Prefix); ok && method != "#" && !ofMachines(method, path) {
			covered[method+" "+placeholder.ReplaceAllString(path, "{id}")] = true
		}
	}
	for _, section := range New(Config{}).sections() {
		for _, r := range section.Routes {
			route := r.Method + " " + placeholder.ReplaceAllString(r.Path, "{id}")
			require.True(t, covered[route], "test/testdata/access.txt does not cover %s", route)
			delete(covered, route)
		}
	}
	require.Empty(t, covered, "test/testdata/access.txt has unknown routes")
}

// The description of a guard names the roles that it admits.
func TestGuardDescriptionNamesAdmittedRoles(t *testing.T) {
	rights := 0
	for _, section := range New(Config{}).sections() {
		for _, row := range section.Routes {
			g := row.Guard
			if g.Right == 0 {
				continue
			}
			rights++
			for _, r := range []events.Role{events.Owner, events.Maintainer, events.Legacy, events.Viewer} {
				named := strings.Contains(strings.ReplaceAll(g.Roles(), "legacy member", string(events.Legacy)), string(r))
				require.Equal(t, (&door.Caller{Person: &door.Person{Role: r}}).May(g) == nil, named, "%s: %s", g, r)
			}
		}
	}
	require.NotZero(t, rights)
}
