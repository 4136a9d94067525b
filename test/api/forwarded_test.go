package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testForwardedAddresses shows which client address counts behind a proxy: for rate limits, in sessions,
// in the audit log and in log lines.
func testForwardedAddresses(t *testing.T, s *fixture) {
	const signIn, forged = "POST /api/auth/sign-in/email", "X-Forwarded-For: 203.0.113.200, "
	t.Run("from a trusted proxy", func(t *testing.T) {
		v := s.serve(t, s.cloneDatabase(t), "SVC_RATE_LIMIT=3", "SVC_TRUSTED_PROXIES=127.0.0.1, 10.0.0.0/8")
		for range 3 {
			v.ask(t, "nobody", signIn, "no JSON", forged+"203.0.113.1, 10.2.3.4").is(t, "400 BAD_REQUEST")
		}
		v.ask(t, "nobody", signIn, "no JSON", forged+"203.0.113.1").is(t, "429 rate_limited")
		v.ask(t, "nobody", signIn, "no JSON", forged+"203.0.113.2").is(t, "400 BAD_REQUEST")
		v.ask(t, "nobody", "GET /api/v1/members", "", forged+"203.0.113.1").is(t, "401 unauthenticated")

		a := v.ask(t, "nobody", signIn, `{"email": "ada@acme.example", "password": "`+password+`"}`, forged+"2001:db8::9").is(t, "200")
		cookie, _, _ := strings.Cut("Cookie: "+a.header.Get("Set-Cookie"), ";")
		session := v.ask(t, "nobody", "GET /api/auth/get-session", "", cookie).is(t, "200")
		require.Equal(t, "2001:db8::9", session.text(t, "session.ipAddress"))
		a = v.ask(t, "nobody", "PATCH /api/v1/workspace", `{"name": "Acme and daughters"}`, cookie, "X-Svc-Tenant: acme",
			forged+"203.0.113.3").is(t, "200")
		a = v.ask(t, "nobody", "GET /api/v1/audit?action=workspace.renamed", "", cookie, "X-Svc-Tenant: acme",
			"X-Svc-Min-Position: "+a.header.Get("X-Svc-Position")).is(t, "200")
		require.Equal(t, "203.0.113.3", a.text(t, "items.0.context.ip"))
		text := v.stop(t)
		require.Contains(t, text, "path=/api/v1/workspace status=200 ip=203.0.113.3")
		require.NotContains(t, text, "ip=203.0.113.200")
	})
	t.Run("from other addresses", func(t *testing.T) {
		for _, proxies := range []string{"SVC_TRUSTED_PROXIES=", "SVC_TRUSTED_PROXIES=127.0.0.2"} {
			// A limit of one a minute: the second request comes well within the minute on any machine.
			v := s.serve(t, s.cloneDatabase(t), "SVC_RATE_LIMIT=1", "SVC_FARM_TRUSTED_PROXIES=127.0.0.2", proxies)
			v.ask(t, "nobody", signIn, "no JSON", forged+"203.0.113.1").is(t, "400 BAD_REQUEST")
			v.ask(t, "nobody", signIn, "no JSON", forged+"203.0.113.2").is(t, "429 rate_limited")
		}
	})
	t.Run("origin header counts from trusted proxies only", func(t *testing.T) {
		for proxies, want := range map[string]string{"127.0.0.1": "ui", "127.0.0.2": "api", "": "api"} {
			v := s.serve(t, s.cloneDatabase(t), "SVC_FARM_TRUSTED_PROXIES=127.0.0.1", "SVC_TRUSTED_PROXIES="+proxies)
			for header, want := range map[string]string{"X-Svc-Origin: ui": want, "X-Svc-Origin: cli": "api"} {
				a := v.ask(t, "ada@acme", "PATCH /api/v1/workspace", `{"name": "`+header[6:]+`"}`, header).is(t, "200")
				a = v.ask(t, "ada@acme", "GET /api/v1/audit?action=workspace.renamed&limit=1", "",
					"X-Svc-Min-Position: "+a.header.Get("X-Svc-Position")).is(t, "200")
				require.Equal(t, want, a.text(t, "items.0.context.origin"), proxies)
			}
		}
	})
}
