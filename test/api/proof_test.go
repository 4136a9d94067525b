package api

import (
	"encoding/base64"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testProof checks the log offline, as an Owner who does not trust the service can: with an export and an
// answer of /audit/verify that was kept. Forged, changed and removed records are detected.
func testProof(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t))
	position := v.ask(t, "ada@acme", "PATCH /api/v1/workspace", `{"name":"Acme, proved"}`).is(t, "200").header.Get("X-Svc-Position")
	verified := v.ask(t, "ada@acme", "GET /api/v1/audit/verify", "", "X-Svc-Min-Position: "+position).is(t, "200")
	require.Equal(t, true, verified.at(t, "ok"))
	for _, since := range []string{verified.text(t, "checkpoint"), strings.TrimSuffix(verified.text(t, "checkpoint"), "\n")} {
		again := v.ask(t, "ada@acme", "GET /api/v1/audit/verify?since="+url.QueryEscape(since), "").is(t, "200")
		require.Equal(t, true, again.at(t, "ok"), "$(…) of a shell drops the last newline")
	}
	require.Equal(t, []int{24},
		queryRows[int](t, v, `select octet_length(mac) from events where workspace_id = $1 and seq = $2::text::bigint`, s.id(t, "workspace acme"),
			position), "the event has no MAC")
	export := v.ask(t, "ada@acme", "GET /api/v1/audit/export?format=ndjson&leaf=true", "").is(t, "200").body

	file, keptFile := filepath.Join(t.TempDir(), "log.ndjson"), filepath.Join(t.TempDir(), "verified.json")
	require.NoError(t, os.WriteFile(keptFile, []byte(verified.body), 0o600))
	check := func(export string) (status int, text string) {
		require.NoError(t, os.WriteFile(file, []byte(export), 0o600))
		return s.start(t, "svc-db", nil, "verify", "-export="+file, "-kept="+keptFile).waitForExit(t)
	}
	status, text := check(export)
	require.Zero(t, status, text)
	require.Contains(t, text, " records are as they were signed, 0 more are not covered by the checkpoint, ")
	require.Contains(t, text, "root "+verified.text(t, "root"))

	renamed := `"name":"Acme, proved"`
	at := strings.LastIndex(export[:strings.Index(export, `Acme, proved`)], "\n") + 1
	line, rest, _ := strings.Cut(export[at:], "\n")
	_, leaf, _ := strings.Cut(line, `"leaf":"`)
	leaf, _, _ = strings.Cut(leaf, `"`)
	event, err := base64.StdEncoding.DecodeString(leaf)
	require.NoError(t, err)
	require.Contains(t, string(event), renamed, "the leaf is the event as it is stored")
	forged := base64.StdEncoding.EncodeToString([]byte(strings.Replace(string(event), renamed, `"name":"Acme, forged"`, 1)))
	status, text = check(export[:at] + strings.Replace(line, leaf, forged, 1) + "\n" + rest)
	require.Equal(t, 1, status, text)
	require.Contains(t, text, "some records are not as they were signed")
	status, text = check(strings.Replace(export, `Acme, proved`, `Acme, forged`, 1))
	require.Equal(t, 1, status, text)
	require.Contains(t, text, "record "+position+": its line differs from its leaf")
	status, text = check(export[:at] + rest)
	require.Equal(t, 1, status, text)
	require.Contains(t, text, "record "+position+": the ")
}
