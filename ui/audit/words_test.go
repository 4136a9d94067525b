package audit

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
)

// What can stand in a workspace's log is said in a sentence.
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
		kind = parts[0] + "." + parts[1]                                  // of some there are several forms
		if strings.HasPrefix(kind, "user.") || kind == "command.denied" { // in no workspace's log, and in it by what was tried
			continue
		}
		kinds++
		require.NotEmpty(t, sentences[kind][0], kind)
	}
	require.Greater(t, kinds, 50)
	require.Equal(t, "Tried to rotate a token", say("service_account.rotated", true))
	require.Equal(t, "Tried: moon landed", say("moon.landed", true))
	require.Equal(t, "Moon landed", say("moon.landed", false))
}

// Steps say who did what to whom.
func TestDeeds(t *testing.T) {
	t.Parallel()
	r := client.AuditRecord{Action: "invitation.revoked"}
	said := func() string {
		before, after, named := deed(r)
		if named {
			before += r.Target.Name
		}
		return before + after
	}
	require.Equal(t, "withdrew the invitation of", said())
	r.Target.Name = "vera@acme.example"
	require.Equal(t, "withdrew the invitation of vera@acme.example", said())
	r.Outcome = client.AuditRecordOutcomeDenied
	require.Equal(t, "tried to withdraw an invitation: vera@acme.example", said())
	r = client.AuditRecord{Action: "run.merged"}
	require.Equal(t, "merged a run", said())
	r.Target.Name = "acme/web#12"
	require.Equal(t, "merged a run: acme/web#12", said())
	r.Action = "member.joined"
	require.Equal(t, "joined", said())
}

func TestProgram(t *testing.T) {
	t.Parallel()
	require.Equal(t, "Firefox 144 on Linux", program("Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0"))
	require.Equal(t, "curl 8", program("curl/8.5.0"))
	require.Equal(t, "svc-runner", program("svc-runner"))
	require.Empty(t, program(""))
}

func TestTokens(t *testing.T) {
	t.Parallel()
	require.Equal(t, []token{{"", "{"}, {"json-key", `"a":`}, {"", " "}, {"json-text", `"b\"c"`}, {"", "}"}}, tokens(`{"a": "b\"c"}`))
}
