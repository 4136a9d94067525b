package auth_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Empty parameters are not treated as absent, and repeated ones are refused.
func TestEmptyAndRepeatedParametersAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cookie := s.signIn()
	home := s.home.String()
	for _, c := range []struct{ path, name, wrong string }{
		{"get-full-organization?organizationId=", "organizationId", "must not be empty"},
		{"get-full-organization?organizationId=" + home + "&organizationId=zzz", "organizationId", "must not be sent twice"},
		{"get-organization?organizationSlug=", "organizationSlug", "must not be empty"},
		{"list-invitations?organizationId=", "organizationId", "must not be empty"},
		{"list-members?organizationId=" + home + "&limit=&limit=2", "limit", "must not be sent twice"},
		{"list-members?organizationId=" + home + "&sortBy=", "sortBy", "must not be empty"},
		{"get-active-member-role?organizationId=" + home + "&userId=", "userId", "must not be empty"},
		{"get-invitation?id=", "id", "must not be empty"},
	} {
		a := s.do(call{path: "/organization/" + c.path, cookie: cookie})
		a.requireRefused(http.StatusBadRequest, "VALIDATION_ERROR")
		var refusal struct {
			Message string
			Details map[string][]string
		}
		require.NoError(t, json.Unmarshal([]byte(a.text), &refusal))
		require.Equal(t, "[query."+c.name+"] "+c.wrong, refusal.Message, c.path)
		require.Equal(t, map[string][]string{c.name: {c.wrong}}, refusal.Details, c.path)
		s.do(call{path: "/organization/" + c.path}).requireRefused(http.StatusUnauthorized, "UNAUTHORIZED")
	}
	a := s.do(call{path: "/organization/get-full-organization?organizationId=" + home, cookie: cookie})
	require.Equal(t, http.StatusOK, a.StatusCode, a.text)
}
