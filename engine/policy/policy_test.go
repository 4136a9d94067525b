package policy

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/engine/client"
	"svc/events"
)

var settings = client.Policy{
	RequiredJobs: json.RawMessage(`[{"name":"build","steps":[{"name":"1","run":"make"}],` +
		`"sandbox":{"kind":"bubblewrap","network":"none"},"secrets":["KEY"]}]`),
	MaxFiles: 50, MaxLines: 1500, Rounds: 3, Cents: 0, MayAllowOnce: true, ProtectedPaths: []string{"deploy/**"},
}

func TestFileTakesPowerAway(t *testing.T) {
	t.Parallel()
	merged, instructions, err := Merge(settings, `
version: 1
requiredJobs:
  - name: test
    steps:
      - run: make test
        env: {CI: "1"}
      - {name: lint, run: make lint, shell: bash, timeoutSeconds: 60}
    labels: [os=linux]
    sandbox: {memoryMiB: 512, cpus: 1.5}
    runSeconds: 600
protectedPaths: [infra/**, deploy/**]
limits: {maxFiles: 20, maxLines: 9000, rounds: 2, cents: 500}
instructions: docs/agents.md
`)
	require.NoError(t, err)
	require.Equal(t, "docs/agents.md", instructions)
	require.Equal(t, []string{"deploy/**", "infra/**"}, merged.ProtectedPaths)
	require.Equal(t, []any{20, 1500, 2, int64(500)}, []any{merged.MaxFiles, merged.MaxLines, merged.Rounds, merged.Cents})
	require.True(t, merged.MayAllowOnce)
	var jobs []events.RequiredJob
	require.NoError(t, json.Unmarshal(merged.RequiredJobs, &jobs))
	require.Len(t, jobs, 2)
	require.Equal(t, []string{"KEY"}, jobs[0].Secrets)
	require.Equal(t, events.RequiredJob{
		Name: "test", Labels: []string{"os=linux"}, RunSeconds: 600,
		Steps: []events.JobStep{
			{Name: "step 1", Run: "make test", Env: map[string]string{"CI": "1"}},
			{Name: "lint", Run: "make lint", Shell: "bash", TimeoutSeconds: 60},
		},
		Sandbox: events.JobSandbox{Kind: "bubblewrap", Network: "none", MemoryMiB: 512, CPUs: 1.5},
	}, jobs[1])
	require.Equal(t, []string{"deploy/**"}, settings.ProtectedPaths)

	same, _, err := Merge(settings, "")
	require.NoError(t, err)
	require.Equal(t, settings, same)
}

func TestErrorsNameLineAndColumn(t *testing.T) {
	t.Parallel()
	job := "version: 1\nrequiredJobs:\n- name: a\n  steps: [{run: x}]\n"
	for file, want := range map[string]string{
		"version: 2":                                            "line 1, column 10: version 2 is not known",
		"protectedPaths: []":                                    "version is missing",
		"version: 1\nimplementer: x":                            `line 2, column 1: "implementer" is not known here`,
		"version: 1\nversion: 1":                                "there twice",
		"version: 1\nlimits: {cents: -1}":                       "line 2, column 17: the number has to be",
		"version: 1\nlimits: {cents: x}":                        "a whole number is expected",
		"version: 1\nprotectedPaths: a":                         "line 2, column 17: a list is expected here",
		"version: 1\nprotectedPaths: ['[']":                     `not a pattern`,
		"version: 1\ninstructions: ../x":                        "not a path inside",
		"version: 1\ninstructions: /x":                          "not a path inside",
		"a: &a 1\nb: *a":                                        "anchors and aliases",
		"version: 1\n\tbad: 1":                                  "line 2",
		"version: [":                                            "line 1",
		"- 1":                                                   "a mapping is expected",
		"version: 1\n---\nversion: 1":                           "more than one document",
		strings.Repeat("#", MaxFile+1):                          "larger than 64 KiB",
		job + "  secrets: [K]":                                  `"secrets" is not known here`,
		job + "  sandbox: {network: host}":                      "line 5, column 22: only jobs of the settings may use the network",
		job + "  sandbox: {kind: none}":                         "only jobs of the settings may do without a sandbox",
		job + "  sandbox: {kind: docker}":                       `"docker" is not known`,
		job + "- name: a\n  steps: [{run: x}]":                  `another required job "a"`,
		job + "- name: build\n  steps: [{run: x}]":              `another required job "build"`,
		job + "- name: b":                                       "has no steps",
		job + "- steps: [{run: x}]":                             "has no name",
		job + "- name: b\n  steps: [{name: x}]":                 "nothing to run",
		job + "- name: b\n  steps: [{run: x, env: {'A B': c}}]": "not the name of a variable",
	} {
		_, _, err := Merge(settings, file)
		require.ErrorContains(t, err, want, file)
		var f *client.Failure
		require.ErrorAs(t, Failure(err), &f)
		require.Equal(t, client.CodePolicy, f.Code)
		require.Contains(t, f.Message, File)
	}
	other := errors.New("other")
	require.Equal(t, other, Failure(other))
}

func TestSHAIsOfTheContent(t *testing.T) {
	t.Parallel()
	one, err := SHA(settings)
	require.NoError(t, err)
	other := settings
	other.RequiredJobs = json.RawMessage(" " + string(settings.RequiredJobs) + "\n")
	same, err := SHA(other)
	require.NoError(t, err)
	require.Equal(t, one, same)
	other.MaxFiles++
	differs, err := SHA(other)
	require.NoError(t, err)
	require.NotEqual(t, one, differs)
}
