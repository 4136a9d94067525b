package api

import (
	"net/url"
	"strings"
	"testing"
)

// testMisplacedTokens sends a valid token where it does not belong. checkAnswer requires that no answer
// repeats it, and testSecrets that it is not stored or printed.
func testMisplacedTokens(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t))
	token := s.tokens["reader"]
	for _, b := range []bad{
		{as: "nobody", line: listOneRun + "&access_token=" + token, want: "401 unauthenticated"},
		{as: "nobody", line: listOneRun, headers: []string{"Cookie: " + cookieName + "=" + token}, want: "401 unauthenticated"},
		{as: "nobody", line: listOneRun, headers: []string{"X-Api-Key: " + token}, want: "401 unauthenticated"},
		{as: "nobody", line: listOneRun, headers: []string{"Authorization: " + token}, want: "401 unauthenticated"},
		{as: "nobody", line: listOneRun, headers: []string{"Authorization: Token " + token}, want: "401 unauthenticated"},
		{as: "nobody", line: listOneRun, headers: []string{"Authorization: Basic " + token}, want: "401 unauthenticated"},
		{as: "nobody", line: listOneRun, body: `{"token":"` + token + `"}`, want: "401 unauthenticated"},
		{as: "nobody", line: "GET /" + token, want: "404 not_found"},
		{as: "nobody", line: "GET /%74" + token[1:], want: "404 not_found"},
		{as: "nobody", line: "GET /api/auth/" + token, want: "404 NOT_FOUND"},
		{as: "nobody", line: "GET /api/docs/" + token, want: "404 not_found"},
		{as: "reader", line: "GET /api/v1/runs/" + token, want: "404 run_not_found"},
		{as: "ada@acme", line: "DELETE /api/v1/members/" + token, want: "404 member_not_found"},
		{as: "ada@acme", line: "POST /api/v1/service-accounts/" + token + "/revoke", want: "404 service_account_not_found"},
		{as: "reader", line: listOneRun + "&q=" + token, want: "200"},
		{as: "reader", line: listOneRun + "&repo=" + token, want: "422 validation_failed repo"},
		{as: "reader", line: listOneRun + "&" + token + "=1", want: "422 validation_failed"},
		{as: "reader", line: listOneRun + "&" + token + "=%00", want: "422 validation_failed"},
		{as: "ada@acme", line: "GET /api/v1/audit?actor=" + token, want: "200"},
		{as: "ada@acme", line: "GET /api/v1/members?q=" + token, want: "200"},
		{as: "ada", line: listOneRun, headers: []string{"X-Svc-Tenant: " + token}, want: "404 tenant_not_found"},
		{as: "reader", line: listOneRun, headers: []string{"X-Request-Id: " + token, "Referer: https://a.example/" + token}, want: "200"},
		{as: "reader", line: listOneRun, headers: []string{"X-Svc-Min-Position: " + token}, want: "422 validation_failed X-Svc-Min-Position"},
		{as: "ada@acme", line: createAccount, body: `{"name":"` + token + `","scopes":["api.read"]}`, want: "422 validation_failed name"},
		{as: "ada@acme", line: createAccount, body: `{"name":"a-bot","scopes":["` + token + `"]}`, want: "422 validation_failed scopes"},
		{as: "ada@acme", line: createAccount, body: `{"` + token + `":1}`, want: "422 validation_failed"},
		{as: "ada@acme", line: createAccount, body: token, want: "422 validation_failed body"},
		{as: "ada@acme", line: createAccount, body: `{}`, headers: []string{"Content-Type: " + token}, want: "415 unsupported_media_type"},
		{as: "ada@acme", line: createAccount, body: `{"name":"kept-bot","scopes":["api.read"]}`, headers: []string{"Idempotency-Key: " + token},
			want: "422 validation_failed Idempotency-Key"},
		{as: "nobody", line: "POST /api/auth/sign-in/email", body: `{"email":"` + token + `@acme.example","password":"` + token + `"}`,
			want: "400 INVALID_EMAIL"},
		{as: "nobody", line: "POST /api/auth/sign-in/email", body: token, want: "400 BAD_REQUEST"},
	} {
		v.requireRefused(t, b)
	}
	// User-Agent is stored with events and sessions.
	v.ask(t, "ada@acme", createAccount, `{"name":"seen-bot","scopes":["api.read"]}`, "User-Agent: curl "+token).is(t, "201")
	form := url.Values{"email": {s.people["ada"]}, "password": {password}}.Encode()
	v.ask(t, "nobody", "POST /api/auth/sign-in/email", form, "Content-Type: application/x-www-form-urlencoded",
		"User-Agent: "+strings.Repeat("x", 240)+token).is(t, "200")
}
