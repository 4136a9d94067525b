package audit

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
)

// Each event of a workspace's log has a sentence.
func TestSentences(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir("../../events/testdata")
	require.NoError(t, err)
	kinds := 0
	for _, file := range files {
		kind, isForm := strings.CutSuffix(file.Name(), ".json")
		parts := strings.Split(kind, ".")
		if !isForm || len(parts) < 2 {
			continue
		}
		kind = parts[0] + "." + parts[1] // without the form's version
		// Users are in no workspace, and a refusal is recorded under the refused action.
		if strings.HasPrefix(kind, "user.") || kind == "command.denied" {
			continue
		}
		kinds++
		require.NotEmpty(t, sentences[kind][0], kind)
	}
	require.Greater(t, kinds, 50)
	require.Equal(t, "Tried to rotate a token", describeAction("service_account.rotated", true))
	require.Equal(t, "Tried: moon landed", describeAction("moon.landed", true))
	require.Equal(t, "Moon landed", describeAction("moon.landed", false))
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
	require.Equal(t, "svc-runner", programName("svc-runner"))
	require.Empty(t, programName(""))
}

func TestJSONTokens(t *testing.T) {
	t.Parallel()
	require.Equal(t, []jsonToken{{"", "{"}, {"json-key", `"a":`}, {"", " "}, {"json-text", `"b\"c"`}, {"", "}"}}, jsonTokens(`{"a": "b\"c"}`))
}
