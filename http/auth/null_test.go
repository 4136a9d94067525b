package auth_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// null is not treated as absent, except where null is a value.
func TestNullFieldsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cookie := s.signIn()
	for _, c := range []struct{ path, body, field, wanted string }{
		{"/organization/create", `{"name":"Acme","slug":"acme","keepCurrentActiveOrganization":null}`, "keepCurrentActiveOrganization",
			"boolean"},
		{"/organization/create", `{"name":null,"slug":"acme"}`, "name", "string"},
		{"/organization/update", `{"data":null}`, "data", "object"},
		{"/organization/invite-member", `{"email":"bo@acme.example","role":"viewer","resend":null}`, "resend", "boolean"},
		{"/organization/invite-member", `{"email":"bo@acme.example","role":"viewer","organizationId":null}`, "organizationId", "string"},
		{"/organization/has-permission", `{"permissions":null}`, "permissions", "object"},
		{"/organization/leave", `{"organizationId":null}`, "organizationId", "string"},
		{"/revoke-session", `{"token":null}`, "token", "string"},
	} {
		a := s.do(call{path: c.path, body: c.body, cookie: cookie})
		a.requireRefused(400, "VALIDATION_ERROR")
		var refusal struct{ Details map[string][]string }
		require.NoError(t, json.Unmarshal([]byte(a.text), &refusal))
		require.Equal(t, []string{"Invalid input: expected " + c.wanted + ", received null"}, refusal.Details[c.field], c.body)
	}
	s.do(call{path: "/organization/invite-member", body: `{"email":"bo@acme.example","role":null}`, cookie: cookie}).requireRefused(400,
		"ROLE_NOT_FOUND")
	a := s.do(call{path: "/organization/set-active", body: `{"organizationId":null}`, cookie: cookie})
	require.Equal(t, 200, a.StatusCode, a.text)
}
