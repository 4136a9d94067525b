package api

import (
	"fmt"
	"strings"
)

// badBodies returns requests with invalid bodies. leo is the request line that changes a member, repo an id.
func badBodies(leo, repo string) (list []bad) {
	const invalid = "422 validation_failed"
	for body, want := range map[string]string{
		"":       invalid + " body",
		" ":      invalid + " body",
		"null":   invalid + " body",
		"[]":     invalid + " body",
		`"text"`: invalid + " body",
		"7":      invalid + " body",
		"true":   invalid + " body",
		"{":      invalid + " body",
		"{}{}":   invalid + " body",
		`{"name":"a-bot","scopes":["api.read"]} x`:                                        invalid + " body",
		`{'name':'a-bot'}`:                                                                invalid + " body",
		"\xef\xbb\xbf{}":                                                                  invalid + " body", // a byte order mark
		"{}":                                                                              invalid + " name",
		`{"name":"a-bot"}`:                                                                invalid + " scopes",
		`{"name":null,"scopes":null}`:                                                     invalid + " name",
		`{"name":7,"scopes":["api.read"]}`:                                                invalid + " name",
		`{"name":["a-bot"],"scopes":["api.read"]}`:                                        invalid + " name",
		`{"name":"a-bot","scopes":"api.read"}`:                                            invalid + " scopes",
		`{"name":"a-bot","scopes":{}}`:                                                    invalid + " scopes",
		`{"name":"a-bot","scopes":[]}`:                                                    invalid + " scopes",
		`{"name":"a-bot","scopes":[7]}`:                                                   invalid + " scopes",
		`{"name":"a-bot","scopes":[null]}`:                                                invalid + " scopes",
		`{"name":"a-bot","scopes":["api.read","x"]}`:                                      invalid + " scopes",
		`{"name":"a-bot","scopes":["API.READ"]}`:                                          invalid + " scopes",
		`{"name":"a-bot","scopes":["api.read"],"color":"red"}`:                            invalid + " color",
		`{"name":"a-bot","scopes":["api.read"],"token":"x"}`:                              invalid + " token",
		`{"NAME":"a-bot","scopes":["api.read"]}`:                                          invalid,
		`{"name":"ok-bot","name":7,"scopes":["api.read"]}`:                                invalid + " name",
		`{"name":"ok-bot","name":"9","scopes":["api.read"]}`:                              invalid + " name",
		`{"scopes":["api.read"],"scopes":["api.read"],"name":"a-bot"}`:                    invalid + " scopes",
		`{"name":"a-bot","scopes":["api.read"],"n\u0061me":"a-bot"}`:                      invalid + " name",
		`{"name":"a","scopes":["api.read"]}`:                                              invalid + " name",
		`{"name":"A-bot","scopes":["api.read"]}`:                                          invalid + " name",
		`{"name":"a_bot","scopes":["api.read"]}`:                                          invalid + " name",
		`{"name":"-bot","scopes":["api.read"]}`:                                           invalid + " name",
		`{"name":"a-bot\n","scopes":["api.read"]}`:                                        invalid + " name",
		`{"name":" a-bot","scopes":["api.read"]}`:                                         invalid + " name",
		`{"name":"böt","scopes":["api.read"]}`:                                            invalid + " name",
		`{"name":"` + strings.Repeat("a", 41) + `","scopes":["api.read"]}`:                invalid + " name",
		`{"name":"` + strings.Repeat("a", 201) + `","scopes":["api.read"]}`:               invalid + " name",
		`{"name":"a-\u0000bot","scopes":["api.read"]}`:                                    invalid,
		"{\"name\":\"a-\x00bot\",\"scopes\":[\"api.read\"]}":                              invalid,
		"{\"name\":\"a-\xffbot\",\"scopes\":[\"api.read\"]}":                              invalid,
		`{"name":"a-\ud800bot","scopes":["api.read"]}`:                                    invalid + " body",
		strings.Repeat(`{"name":`, 2000):                                                  invalid + " body",
		strings.Repeat(`[`, 8000) + strings.Repeat(`]`, 8000):                             invalid + " body",
		strings.Repeat(`[`, 8192) + strings.Repeat(`]`, 8193):                             "413 body_too_large",
		`{"name":"a-bot","scopes":[` + strings.Repeat(`"api.read",`, 10) + `"api.read"]}`: invalid + " scopes",
	} {
		list = append(list, bad{as: asOwner, line: createAccount, body: body, want: want})
	}
	// As many mistakes as a body and a query can have: the time for them must not grow with their square.
	// A body with hundreds of unknown fields is refused as a whole.
	const account = `"name":"a-bot","scopes":["api.read"]}`
	list = append(list,
		bad{as: asOwner, line: createAccount, body: "{" + repeatNumbered(150, `"f%d":0,`) + account, want: invalid},
		bad{as: asOwner, line: createAccount, body: "{" + repeatNumbered(1500, `"f%d":0,`) + account, want: invalid + " body"},
		bad{as: asOwner, line: "GET /api/v1/runs?status=active&" + repeatNumbered(9_000, "p%d&"), want: invalid},
	)
	for body, want := range map[string]string{
		`{}`:                                   invalid + " body",
		`{"role":null}`:                        invalid + " role",
		`{"role":null,"canApproveLoops":true}`: invalid + " role",
		`{"role":"Viewer","canApproveLoops":null}`: invalid + " canApproveLoops",
		`{"role":7}`:                              invalid + " role",
		`{"role":""}`:                             invalid + " role",
		`{"role":"member"}`:                       invalid + " role",
		`{"role":" Viewer"}`:                      invalid + " role",
		`{"role":["Viewer"]}`:                     invalid + " role",
		`{"role":"Viewer","role":"king"}`:         invalid + " role",
		`{"role":"Owner","role":"Viewer"}`:        invalid + " role",
		`{"canApproveLoops":"true"}`:              invalid + " canApproveLoops",
		`{"canApproveLoops":1}`:                   invalid + " canApproveLoops",
		`{"canApproveLoops":null}`:                invalid + " canApproveLoops",
		`{"role":"Viewer","email":"x@y.example"}`: invalid + " email",
	} {
		list = append(list, bad{as: asOwner, line: leo, body: body, want: want})
	}
	for body, want := range map[string]string{
		`{"name":null}`:                               invalid + " name",
		`{"name":null,"slug":"acme-2"}`:               invalid + " name",
		`{"slug":null,"name":"Acme 2"}`:               invalid + " slug",
		`{"name":""}`:                                 invalid + " name",
		`{"name":"` + strings.Repeat("ö", 101) + `"}`: invalid + " name",
		`{"slug":"Acme"}`:                             invalid + " slug",
		`{"slug":"a"}`:                                invalid + " slug",
		`{"slug":"acme-"}`:                            invalid + " slug",
		`{"slug":"` + noID + `"}`:                     invalid + " slug",
		`{"slug":"globex"}`:                           "409 slug_taken",
	} {
		list = append(list, bad{as: asOwner, line: "PATCH /api/v1/workspace", body: body, want: want})
	}
	for _, b := range []struct{ line, body, field string }{ // null and empty are not treated as absent
		{"POST /api/v1/invitations", `{"email":"kim@example.com","role":""}`, "role"},
		{"POST /api/v1/invitations", `{"email":"kim@example.com","role":null}`, "role"},
		{"POST /api/v1/invitations", `{"email":"kim@example.com","role": null }`, "role"},
		{"POST /api/v1/invitations", `{"email":null}`, "email"},
		{"POST /api/v1/invitations", `{"email":""}`, "email"},
		{"POST /api/v1/backlog/queue", `{"repoId":"` + repo + `","issueNumber":null,"title":"Sort labels"}`, "issueNumber"},
		{"POST /api/v1/backlog/queue", `{"repoId":"` + repo + `","issueNumber":0,"title":"Sort labels"}`, "issueNumber"},
		{"POST /api/v1/backlog/queue", `{"repoId":"` + repo + `","title":"Sort labels","body":null}`, "body"},
		{"POST /api/v1/backlog/queue", `{"repoId":"` + repo + `","issueNumber":9001,"title":null}`, "title"},
		{"POST /api/v1/backlog/queue", `{"repoId":null,"issueNumber":9001}`, "repoId"},
		{"POST /api/v1/runs/" + noID + "/cancel", `{"reason":null}`, "reason"},
		{"POST /api/v1/runs/" + noID + "/cancel", `null`, "body"},
		{"POST /api/v1/inbox/" + noID + "/answer", `{"action":null}`, "action"},
		{"POST /api/v1/inbox/" + noID + "/answer", `{"action":""}`, "action"},
		{"POST /api/v1/inbox/" + noID + "/answer", `{"action":"confirm","note":null}`, "note"},
		{"POST /api/v1/inbox/" + noID + "/answer", `{"action":"confirm","expectedHead":null}`, "expectedHead"},
	} {
		list = append(list, bad{as: asOwner, line: b.line, body: b.body, want: invalid + " " + b.field})
	}
	for body, want := range map[string]string{
		"":            "400 VALIDATION_ERROR body",
		"null":        "400 VALIDATION_ERROR body",
		" ":           "400 BAD_REQUEST",
		"[]":          "400 VALIDATION_ERROR body",
		`{"email":7}`: "400 VALIDATION_ERROR email",
		`{}`:          "400 VALIDATION_ERROR email",
		"{\"email\":\"a\\u0000@b.example\",\"password\":\"x\"}":                     "400 VALIDATION_ERROR body",
		`{"email":"ada@acme.example","password":"` + strings.Repeat("x", 73) + `"}`: "401 INVALID_EMAIL_OR_PASSWORD",
		`{"email":"Ada <ada@acme.example>","password":"x"}`:                         "400 INVALID_EMAIL",
		"{\"email\":\"ada\xff@acme.example\",\"password\":\"x\"}":                   "400 VALIDATION_ERROR body",
	} {
		list = append(list, bad{as: "nobody", line: "POST /api/auth/sign-in/email", body: body, want: want})
	}
	return list
}

// repeatNumbered formats each number below n, and returns the concatenation.
func repeatNumbered(n int, format string) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, format, i)
	}
	return text.String()
}
