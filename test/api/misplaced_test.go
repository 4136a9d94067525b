package api

import (
	"net/url"
	"strings"
	"testing"
)

// testMisplaced sends a good token in every place where it does not belong. No
// answer repeats it, as of all answers is checked, and nothing keeps it, as is
// looked for when all is over.
func testMisplaced(t *testing.T, s *site) {
	v := s.serve(t, s.clone(t))
	token := s.tokens["reader"]
	for _, b := range []bad{
		{as: "nobody", line: aRead + "&access_token=" + token, want: "401 unauthenticated"},
		{as: "nobody", line: aRead, headers: []string{"Cookie: " + cookieName + "=" + token}, want: "401 unauthenticated"},
		{as: "nobody", line: aRead, headers: []string{"X-Api-Key: " + token}, want: "401 unauthenticated"},
		{as: "nobody", line: aRead, headers: []string{"Authorization: " + token}, want: "401 unauthenticated"},
		{as: "nobody", line: aRead, headers: []string{"Authorization: Token " + token}, want: "401 unauthenticated"},
		{as: "nobody", line: aRead, headers: []string{"Authorization: Basic " + token}, want: "401 unauthenticated"},
		{as: "nobody", line: aRead, body: `{"token":"` + token + `"}`, want: "401 unauthenticated"},
		{as: "nobody", line: "GET /" + token, want: "404 not_found"},
		{as: "nobody", line: "GET /%74" + token[1:], want: "404 not_found"},
		{as: "nobody", line: "GET /api/auth/" + token, want: "404 NOT_FOUND"},
		{as: "nobody", line: "GET /api/docs/" + token, want: "404 not_found"},
		{as: "reader", line: "GET /api/v1/runs/" + token, want: "404 run_not_found"},
		{as: "ada@acme", line: "DELETE /api/v1/members/" + token, want: "404 member_not_found"},
		{as: "ada@acme", line: "POST /api/v1/service-accounts/" + token + "/revoke", want: "404 service_account_not_found"},
		{as: "reader", line: aRead + "&q=" + token, want: "200"},
		{as: "reader", line: aRead + "&repo=" + token, want: "422 validation_failed repo"},
		{as: "reader", line: aRead + "&" + token + "=1", want: "422 validation_failed"},
		{as: "reader", line: aRead + "&" + token + "=%00", want: "422 validation_failed"},
		{as: "ada@acme", line: "GET /api/v1/audit?actor=" + token, want: "200"},
		{as: "ada@acme", line: "GET /api/v1/members?q=" + token, want: "200"},
		{as: "ada", line: aRead, headers: []string{"X-Svc-Tenant: " + token}, want: "404 tenant_not_found"},
		{as: "reader", line: aRead, headers: []string{"X-Request-Id: " + token, "Referer: https://a.example/" + token}, want: "200"},
		{as: "reader", line: aRead, headers: []string{"X-Svc-Min-Position: " + token}, want: "422 validation_failed X-Svc-Min-Position"},
		{as: "ada@acme", line: accounts, body: `{"name":"` + token + `","scopes":["api.read"]}`, want: "422 validation_failed name"},
		{as: "ada@acme", line: accounts, body: `{"name":"a-bot","scopes":["` + token + `"]}`, want: "422 validation_failed scopes"},
		{as: "ada@acme", line: accounts, body: `{"` + token + `":1}`, want: "422 validation_failed"},
		{as: "ada@acme", line: accounts, body: token, want: "422 validation_failed body"},
		{as: "ada@acme", line: accounts, body: `{}`, headers: []string{"Content-Type: " + token}, want: "415 unsupported_media_type"},
		{as: "ada@acme", line: accounts, body: `{"name":"kept-bot","scopes":["api.read"]}`, headers: []string{"Idempotency-Key: " + token},
			want: "422 validation_failed Idempotency-Key"},
		{as: "nobody", line: "POST /api/auth/sign-in/email", body: `{"email":"` + token + `@acme.example","password":"` + token + `"}`,
			want: "400 INVALID_EMAIL"},
		{as: "nobody", line: "POST /api/auth/sign-in/email", body: token, want: "400 BAD_REQUEST"},
	} {
		v.requireBad(t, b)
	}
	// What a caller says of itself is kept with what it does.
	v.ask(t, "ada@acme", accounts, `{"name":"seen-bot","scopes":["api.read"]}`, "User-Agent: curl "+token).is(t, "201")
	form := url.Values{"email": {s.people["ada"]}, "password": {password}}.Encode()
	v.ask(t, "nobody", "POST /api/auth/sign-in/email", form, "Content-Type: application/x-www-form-urlencoded",
		"User-Agent: "+strings.Repeat("x", 240)+token).is(t, "200")
}
