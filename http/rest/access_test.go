package rest

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

var placeholder = regexp.MustCompile(`<[^>]+>|{\w+}`)

// ofMachines reports whether a route is one of package farm's, of which test/api sees
// that access.txt speaks.
func ofMachines(method, path string) bool {
	return strings.HasPrefix(path, "/farm/registrations") || path == "/farm/agent" ||
		method == "POST" && strings.HasPrefix(path, "/farm/jobs/") && strings.HasSuffix(path, "/artifacts")
}

// Every route has a block in access.txt, which says what each kind of caller is
// answered; test/api holds the service to that.
func TestEveryRouteSaysWhoMayCallIt(t *testing.T) {
	text, err := os.ReadFile("../../test/testdata/access.txt")
	require.NoError(t, err)
	said := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		method, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		path, _, _ = strings.Cut(path, "?")
		if path, ok := strings.CutPrefix(path, prefix); ok && method != "#" && !ofMachines(method, path) {
			said[method+" "+placeholder.ReplaceAllString(path, "{id}")] = true
		}
	}
	for _, section := range (&Server{}).sections() {
		for _, r := range section.routes {
			route := r.method + " " + placeholder.ReplaceAllString(r.path, "{id}")
			require.True(t, said[route], "test/testdata/access.txt does not say who may call %s", route)
			delete(said, route)
		}
	}
	require.Empty(t, said, "test/testdata/access.txt speaks of routes that there are not")
}

// A guard is named by the roles that it lets in.
func TestGuardsAreNamedByTheirRoles(t *testing.T) {
	for _, right := range events.Rights() {
		g := mayDo(right)
		for _, r := range []events.Role{events.Owner, events.Maintainer, events.Legacy, events.Viewer} {
			named := strings.Contains(strings.ReplaceAll(g.String(), "legacy member", string(events.Legacy)), string(r))
			require.Equal(t, (&caller{person: &person{role: r}}).may(g) == nil, named, "%s: %s", g, r)
		}
	}
}
