package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testLostKey loses the vault's key and has an operator replace it. The log records the replacement, and
// changes to records from before and after it are still detected.
func testLostKey(t *testing.T, s *fixture) {
	const verify, as = "GET /api/v1/audit/verify", "ada@acme"
	database := s.cloneDatabase(t)
	v := s.serve(t, database)
	rename := func(name string) string {
		return v.ask(t, as, "PATCH /api/v1/workspace", `{"name":"`+name+`"}`).is(t, "200").header.Get("X-Svc-Position")
	}
	position := rename("Acme, before")
	earlier := v.ask(t, as, verify, "", "X-Svc-Min-Position: "+position).is(t, "200")
	lostKey := earlier.text(t, "verifierKey")
	v.stop(t)

	// With another key a service answers reads, refuses changes, can neither sign nor verify, and reports it.
	environ := "SVC_VAULT_MASTER_KEY=" + strings.Repeat("another-key-", 4)
	v = s.serve(t, database, environ)
	v.expectsErrors = true
	for line, body := range map[string]string{
		"PATCH /api/v1/workspace":          `{"name":"Acme, refused"}`,
		"POST /api/v1/service-accounts":    `{"name":"refused","scopes":["api.read"]}`,
		"PUT /api/v1/farm/secrets/NOWHERE": `{"value":"refused"}`,
	} {
		v.ask(t, as, line, body).is(t, "503 unavailable")
	}
	require.Equal(t, "Acme, before", v.ask(t, as, "GET /api/v1/workspace", "").is(t, "200").text(t, "name"))
	ready := v.ask(t, "nobody", "GET /health/ready", "").is(t, "200")
	require.Equal(t, "warning", ready.text(t, "info.vault.status"), ready.body)
	require.Contains(t, ready.text(t, "info.vault.message"), "SVC_VAULT_MASTER_KEY")
	v.ask(t, as, verify, "").is(t, "503 signing_key_unavailable")
	v.waitFor(t, func(text string) bool {
		return strings.Contains(text, "stored credentials cannot be opened") && strings.Contains(text, "svc-db replace-key")
	})

	// The operator replaces the key while the service runs.
	replaceKey := func(environ, key string) (int, string) {
		return s.start(t, "svc-db", []string{environ}, "replace-key", "-verifier-key="+key, "-url="+database).waitForExit(t)
	}
	status, text := replaceKey("SVC_VAULT_MASTER_KEY="+vaultKey, lostKey)
	require.Equal(t, 1, status, text)
	require.Contains(t, text, "nothing has to be replaced")
	status, text = replaceKey(environ, lostKey)
	require.Zero(t, status, text)
	require.Contains(t, text, s.id(t, "workspace acme")+": uses the new key; ")
	require.Contains(t, text, ", 0 later ones were not signed\n")
	verified := func(headers ...string) answer { return v.ask(t, as, verify, "", headers...).is(t, "200") }
	after := rename("Acme, after")
	answer := verified("X-Svc-Min-Position: " + after)
	require.Equal(t, true, answer.at(t, "ok"), answer.body)
	require.NotEqual(t, lostKey, answer.text(t, "verifierKey"))
	require.Equal(t, lostKey, answer.text(t, "formerKeys.0.verifierKey"))
	record := v.ask(t, as, "GET /api/v1/audit?action=signing_key.replaced", "").is(t, "200")
	require.Contains(t, record.body, `"field":"verifierKey","from":"`+lostKey+`"`)
	require.Contains(t, record.body, `"origin":"cli"`)
	status, text = s.start(t, "svc-db", nil, "verify", "-url="+database).waitForExit(t)
	require.Zero(t, status, text)
	require.Contains(t, text, "signed by "+lostKey+", which was lost and replaced in record ")
	v.stop(t)

	// A restarted service verifies the log, and detects records that are changed later.
	v = s.serve(t, database, environ)
	v.ask(t, as, verify, "").is(t, "200")
	for _, seq := range []string{after, position} {
		_, err := connectPool(t, database).Exec(t.Context(),
			`update events set data = (data::text || ' ')::json where workspace_id = $1 and seq = $2::text::bigint`, s.id(t, "workspace acme"), seq)
		require.NoError(t, err)
		bad := verified()
		require.Equal(t, false, bad.at(t, "ok"))
		require.Contains(t, bad.body, `"firstBad":{"seq":`+seq+`,"reason":"the record was changed"}`)
	}
}
