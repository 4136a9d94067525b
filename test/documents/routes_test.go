package documents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/http/hooks"
	"svc/http/rest"
	"svc/http/rest/door"
)

var (
	authRoute   = regexp.MustCompile(`\{"([A-Z]+)", "(/[^"]+)", (\w+)\(`)
	farmRoute   = regexp.MustCompile(`Method: "([A-Z]+)", Path: prefix \+ "(/[^"]+)",.* Guard: s\.(\w+)`)
	releasePath = regexp.MustCompile(`(?m)^\t\t"(/[^"]+)": +(?:s\.|func)`)
	anyMethod   = regexp.MustCompile(`(?:\{|Method: )"(?:GET|POST|PUT|PATCH|DELETE)", (?:"/|Path: prefix)`)
	admits      = regexp.MustCompile(`(?m)^For: (.+)\.$`)
)

// guards says who passes the guards that the sources of http/auth and http/farm name.
var guards = map[string]string{
	"public": "anyone", "signedIn": "a session", "signedInOr": "a session",
	"admitUnregistered": "an enrollment token", "Admit": "a runner's certificate", "admitAgent": "a runner's certificate",
}

// docs/routes.md has every route of svc-rest with who may use it. Those of /api/v1 are those of its description.
func TestRoutesPageIsCurrent(t *testing.T) {
	var page strings.Builder
	fmt.Fprint(&page, "# Routes\n\nWho may use each route of `svc-rest`, written by `go test ./test/documents -update`.\n"+
		"Routes under `/api/auth/organization` ask for the role as those of `/api/v1` do. Anyone may get `/health/live`,\n"+
		"`/health/ready`, `/api/docs` and the API's description.\n\n| Route | For |\n|---|---|\n")
	for _, list := range [][]string{describedRoutes(t), sourceRoutes(t, "http/auth/auth.go", "/api/auth", authRoute),
		sourceRoutes(t, "http/farm/*.go", "/api/v1/farm", farmRoute), releaseRoutes(t), hookRoutes(t)} {
		require.NotEmpty(t, list)
		for _, row := range slices.Compact(list) {
			fmt.Fprintln(&page, row)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(filepath.Join(root, "docs/routes.md"), []byte(page.String()), 0o644))
	}
	require.True(t, read(t, "docs/routes.md") == page.String(), "docs/routes.md: go test ./test/documents -update")
}

func row(method, path, who string) string { return "| `" + method + " " + path + "` | " + who + " |" }

// describedRoutes returns the routes of the API's description by path, those without a guard for anyone.
func describedRoutes(t *testing.T) (list []string) {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, rest.Describe(&text))
	var description struct {
		Paths map[string]map[string]struct {
			Description string `json:"description"`
		} `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(text.Bytes(), &description))
	for _, path := range slices.Sorted(maps.Keys(description.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(description.Paths[path])) {
			who := admits.FindStringSubmatch(description.Paths[path][method].Description)
			switch {
			case who != nil:
				list = append(list, row(strings.ToUpper(method), path, who[1]))
			case strings.HasPrefix(path, door.Prefix+"/"):
				require.Fail(t, "nobody is named in the description", path)
			default:
				list = append(list, row(strings.ToUpper(method), path, "anyone"))
			}
		}
	}
	return list
}

// sourceRoutes returns the routes that a pattern finds in files, which has to find all of them.
func sourceRoutes(t *testing.T, files, prefix string, pattern *regexp.Regexp) (list []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, files))
	require.NoError(t, err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		found := pattern.FindAllStringSubmatch(string(text), -1)
		require.Len(t, found, len(anyMethod.FindAll(text, -1)), "%s: a route is not in the form that this test reads", name)
		for _, m := range found {
			require.Contains(t, guards, m[3], name)
			list = append(list, row(m[1], prefix+m[2], guards[m[3]]))
		}
	}
	return list
}

var hookPath = regexp.MustCompile(`Method: http\.Method(\w+), Path: Prefix \+ "([^"]+)"`)

func hookRoutes(t *testing.T) (list []string) {
	t.Helper()
	text := read(t, "http/hooks/hooks.go")
	found := hookPath.FindAllStringSubmatch(text, -1)
	require.Len(t, found, strings.Count(text, "router.Route{"), "a route is not in the form that this test reads")
	for _, m := range found {
		list = append(list, row(strings.ToUpper(m[1]), hooks.Prefix+m[2], "a code host's signature"))
	}
	return list
}

func releaseRoutes(t *testing.T) (list []string) {
	t.Helper()
	for _, m := range releasePath.FindAllStringSubmatch(read(t, "http/farm/releases.go"), -1) {
		list = append(list, row("GET", m[1], "anyone"))
	}
	return list
}
