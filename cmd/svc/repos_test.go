package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/dev/seed"
)

func TestMissingRepositoriesAreConnected(t *testing.T) {
	s := newSite(t)
	r := s.start(t).awaitUp()
	a := s.readDevJSON(t)
	_, text := r.stop()
	require.Contains(t, text, "with the sandboxes none and bubblewrap")
	require.NotContains(t, text, "not all repositories")
	require.NotContains(t, text, a.CodeHostToken)

	asked, err := os.ReadFile(s.calls + ".repos")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(asked)), "\n")
	require.Len(t, lines, 3, "one was there")
	require.Equal(t, "id-2 acme/hello", lines[1])
	for i, name := range map[int]string{0: "acme/handbook", 2: "acme/hello"} {
		require.JSONEq(t, `{"url": "`+a.CodeHostURL+"/"+name+`", "credential": "`+a.CodeHostToken+`", "readCredential": "`+a.CodeHostReadToken+`",
			"settings": {"mayAllowOnce": true, "requiredJobs": [{"name": "test", "steps": [{"name": "test", "run": "./test.sh"}],
				"sandbox": {"kind": "bubblewrap"}, "runSeconds": 300}]}}`, lines[i])
	}
}

func TestServiceRunsWithoutRepositories(t *testing.T) {
	s := newSite(t)
	r := s.start(t, "SVC_TEST_REPOS=refused").awaitUp()
	_, text := r.stop()
	require.Contains(t, text, `WARN: not all repositories of the demonstration are connected why="connect http://`)
}

func TestRepositoriesAreAtTheCodeHost(t *testing.T) {
	var names []string
	for _, r := range seed.Repositories() {
		names = append(names, r.Name)
	}
	require.Subset(t, names, demoRepos)
}
