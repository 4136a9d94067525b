package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// credentials returns the headers by which somebody is known:
//
//	nobody            none
//	ada               her session
//	ada@acme          her session, in the workspace of that slug
//	ada@id:acme       the same, the workspace named by id
//	reader            that service account's token; @ as for people
//	token tok_svc_…   that token; @ as for people
func (s *site) credentials(t *testing.T, as string) http.Header {
	t.Helper()
	h := http.Header{}
	who, tenant, in := strings.Cut(as, "@")
	if slug, ok := strings.CutPrefix(tenant, "id:"); ok {
		tenant = s.id(t, "workspace "+slug)
	}
	if in {
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

// signIn signs a person in and returns the value of their cookie.
func (v *service) signIn(t *testing.T, first string) string {
	t.Helper()
	body := fmt.Sprintf(`{"email":%q,"password":%q}`, v.site.people[first], password)
	a := v.ask(t, "nobody", "POST /api/auth/sign-in/email", body).is(t, "200")
	cookies := (&http.Response{Header: a.header}).Cookies()
	require.Len(t, cookies, 1)
	require.Equal(t, cookieName, cookies[0].Name)
	return cookies[0].Value
}
