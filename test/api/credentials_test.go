package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// credentials returns the headers that authenticate a caller:
//
//	nobody            none
//	ada               Ada's session
//	ada@acme          Ada's session, and the workspace by slug
//	ada@id:acme       Ada's session, and the workspace by id
//	reader            the token of that service account; @ as for people
//	token tok_svc_…   that token; @ as for people
func (s *fixture) credentials(t *testing.T, as string) http.Header {
	t.Helper()
	h := http.Header{}
	who, tenant, hasTenant := strings.Cut(as, "@")
	if slug, ok := strings.CutPrefix(tenant, "id:"); ok {
		tenant = s.id(t, "workspace "+slug)
	}
	if hasTenant {
		h.Set("X-Svc-Tenant", tenant)
	}
	token, isToken := strings.CutPrefix(who, "token ")
	switch {
	case isToken:
		h.Set("Authorization", "Bearer "+token)
	case s.sessions[who] != "":
		h.Set("Cookie", cookieName+"="+s.sessions[who])
	case s.tokens[who] != "":
		h.Set("Authorization", "Bearer "+s.tokens[who])
	default:
		require.Equal(t, "nobody", who)
	}
	return h
}

const cookieName = "better-auth.session_token"

// signIn signs a person in by first name and returns the value of the session cookie.
func (v *service) signIn(t *testing.T, firstName string) string {
	t.Helper()
	body := fmt.Sprintf(`{"email":%q,"password":%q}`, v.fixture.people[firstName], password)
	a := v.ask(t, "nobody", "POST /api/auth/sign-in/email", body).is(t, "200")
	cookies := (&http.Response{Header: a.header}).Cookies()
	require.Len(t, cookies, 1)
	require.Equal(t, cookieName, cookies[0].Name)
	return cookies[0].Value
}
