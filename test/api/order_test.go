package api

import "testing"

// testOrderOfRefusals shows which refusal wins where several apply: each request has one mistake less than
// the one before it, and gets the refusal for the next mistake.
func testOrderOfRefusals(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t))
	const (
		rotate = createAccount + "/" + noID + "/rotate?color=red"
		member = "PATCH /api/v1/members/" + noID
		wrong  = `{"role":"king"}`
		run    = "GET /api/v1/runs/" + noID
		badKey = "Idempotency-Key: key\xff"
	)
	lastOwner := "PATCH /api/v1/members/" + s.id(t, "member greta@globex")
	for name, list := range map[string][]bad{
		"write with a token": {
			{as: "token tok_svc_0@nowhere", line: rotate, body: "{", headers: []string{badKey}, want: "422 validation_failed Idempotency-Key"},
			{as: "token tok_svc_0@nowhere", line: rotate, body: "{", want: "401 service_token_invalid"},
			{as: "reader@nowhere", line: rotate, body: "{", want: "403 service_principal_refused"},
		},
		"read with a token": {
			{as: "nobody", line: run + "?color=red", headers: []string{"X-Svc-Tenant: nowhere", "X-Svc-Tenant: a"},
				want: "422 validation_failed X-Svc-Tenant"},
			{as: "nobody", line: run + "?color=red", headers: []string{"X-Svc-Tenant: nowhere"}, want: "401 unauthenticated"},
			{as: "farmer@nowhere", line: run + "?color=red", want: "404 tenant_not_found"},
			{as: "farmer", line: run + "?color=red", want: "403 service_scope_missing"},
			{as: "reader", line: run + "?color=red", want: "422 validation_failed color"},
			{as: "reader", line: run, want: "404 run_not_found"},
		},
		"write with a session": {
			{as: "nobody", line: member, body: wrong, headers: []string{"X-Svc-Tenant: nowhere", "Content-Type: text/plain"},
				want: "415 unsupported_media_type"},
			{as: "nobody", line: member, body: wrong, headers: []string{"X-Svc-Tenant: nowhere"}, want: "401 unauthenticated"},
			{as: "vera@nowhere", line: member, body: wrong, headers: []string{"Sec-Fetch-Site: cross-site"}, want: "403 cross_origin_refused"},
			{as: "vera@nowhere", line: member, body: wrong, want: "404 tenant_not_found"},
			{as: "vera@acme", line: member, body: wrong, want: "403 role_required"},
			{as: "greta@globex", line: member, body: wrong, want: "422 validation_failed role"},
			{as: "greta@globex", line: member, body: `{"role":"Viewer"}`, want: "404 member_not_found"},
			{as: "greta@globex", line: lastOwner, body: `{"role":"Viewer"}`, want: "409 last_owner"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, b := range list {
				v.requireRefused(t, b)
			}
		})
	}
}
