package audit

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
)

// Sentences and phrases are of kinds that exist. A kind without one is described by its words.
func TestSentences(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../events/testdata/*.*.json")
	require.NoError(t, err)
	known := map[string]bool{}
	for _, file := range files {
		parts := strings.Split(filepath.Base(file), ".")
		known[parts[0]+"."+parts[1]] = true // without the form's version
	}
	require.Greater(t, len(known), 50)
	for kind, words := range sentences {
		require.True(t, known[kind], "%s is no kind of event", kind)
		require.Equal(t, words[0], describeAction(kind, false))
	}
	for kind := range actionPhrases {
		require.True(t, known[kind], "%s is no kind of event", kind)
	}
	require.Equal(t, "Tried to rotate a token", describeAction("service_account.rotated", true))
	require.Equal(t, "Tried: lunar module landed", describeAction("lunar_module.landed", true))
	require.Equal(t, "Lunar module landed", describeAction("lunar_module.landed", false))
}

func TestActionPhrases(t *testing.T) {
	t.Parallel()
	r := client.AuditRecord{Action: "invitation.revoked"}
	got := func() string {
		before, after, named := actionPhrase(r)
		if named {
			before += r.Target.Name
		}
		return before + after
	}
	require.Equal(t, "withdrew the invitation of", got())
	r.Target.Name = "vera@acme.example"
	require.Equal(t, "withdrew the invitation of vera@acme.example", got())
	r.Outcome = client.AuditRecordOutcomeDenied
	require.Equal(t, "tried to withdraw an invitation: vera@acme.example", got())
	r = client.AuditRecord{Action: "run.merged"}
	require.Equal(t, "merged a run", got())
	r.Target.Name = "acme/web#12"
	require.Equal(t, "merged a run: acme/web#12", got())
	r.Action = "member.joined"
	require.Equal(t, "joined", got())
}

func TestProgramName(t *testing.T) {
	t.Parallel()
	require.Equal(t, "Firefox 144 on Linux", programName("Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0"))
	require.Equal(t, "curl 8", programName("curl/8.5.0"))
	require.Equal(t, "curl", programName("curl/"))
	require.Equal(t, "svc-runner", programName("svc-runner"))
	require.Empty(t, programName(""))
}

func TestJSONTokens(t *testing.T) {
	t.Parallel()
	require.Equal(t, []jsonToken{{"", "{"}, {"json-key", `"a":`}, {"", " "}, {"json-text", `"b\"c"`}, {"", "}"}}, jsonTokens(`{"a": "b\"c"}`))
}

func TestChangeSummary(t *testing.T) {
	t.Parallel()
	change := func(field string, from, to any) client.AuditChange {
		return client.AuditChange{Field: field, From: from, To: to}
	}
	const id = "019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9"
	for want, list := range map[string][]client.AuditChange{
		"role: Viewer → Maintainer":     {change("role", "member", "Maintainer")},
		"role: Owner":                   {change("role", nil, "Owner")},
		"role: Viewer → none":           {change("role", "Viewer", nil)},
		"may approve merges: no → yes":  {change("canApproveLoops", false, true)},
		"scopes: runs.read farm.submit": {change("scopes", nil, []any{"runs.read", "farm.submit"})},
		"jobs left: 3 → 2, note: disk":  {change("jobsLeft", 3.0, 2.0), change("note", nil, "disk"), change("ok", nil, true)},
		"": {
			change("agent", "a", map[string]any{"os": "linux"}), change("jobId", nil, id), change("status", "a", "b"),
		},
		"note: " + strings.Repeat("x", maxSummary-6): {change("note", nil, strings.Repeat("x", maxSummary-6)), change("role", nil, "Owner")},
	} {
		require.Equal(t, want, changeSummary(client.AuditRecord{Changes: list}))
	}
}
