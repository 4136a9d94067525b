package api

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A keptText is a field of a request whose text is kept. %s stands for the text in
// the line or the body.
type keptText struct {
	as, line, body string
	field          string
	refusal        string
	form           string // of a text that it takes, %s in it is a word; the word alone if empty
}

const (
	invalid422 = "422 validation_failed"
	invalid400 = "400 VALIDATION_ERROR"
)

func (v *service) keptTexts(t *testing.T, job string) []keptText {
	s := v.site
	queue := `{"repoId":"` + s.id(t, "repo acme/web") + `",`
	run, decision := s.id(t, "run 302"), s.id(t, "decision 302")
	drained, revoked := v.enrol(t, "ada@acme"), v.enrol(t, "ada@acme")
	acme := `{"organizationId":"` + s.id(t, "workspace acme") + `",`
	return []keptText{
		{"ada@id:acme", "POST /api/v1/invitations", `{"email":"%s"}`, "email", invalid422, "%s@acme.example"},
		{"ada@id:acme", "PATCH /api/v1/workspace", `{"name":"%s"}`, "name", invalid422, ""},
		{"ada@id:acme", "POST /api/v1/backlog/queue", queue + `"title":"%s"}`, "title", invalid422, ""},
		{"ada@id:acme", "POST /api/v1/backlog/queue", queue + `"title":"One more","body":"%s"}`, "body", invalid422, ""},
		{"ada@id:acme", "POST /api/v1/inbox/" + decision + "/answer", `{"action":"confirm","note":"%s"}`, "note", invalid422, ""},
		{"ada@id:acme", "POST /api/v1/runs/" + run + "/cancel", `{"reason":"%s"}`, "reason", invalid422, ""},
		{"ada@id:acme", "POST /api/v1/farm/enrollments", `{"name":"%s"}`, "name", invalid422, ""},
		{"nobody", "POST " + enrols, v.registration(t, v.mint(t, "ada@acme"), "%s"), "name", invalid422, ""},
		{"ada@id:acme", "POST /api/v1/farm/runners/" + drained + "/drain", `{"note":"%s"}`, "note", invalid422, ""},
		{"ada@id:acme", "POST /api/v1/farm/runners/" + revoked + "/revoke", `{"note":"%s"}`, "note", invalid422, ""},
		{"ada@id:acme", "GET /api/v1/audit/export?format=csv&actor=%s", "", "actor", invalid422, ""},
		{"ada@id:acme", "GET /api/v1/audit/export?format=csv&action=%s", "", "action", invalid422, ""},
		{"ada@id:acme", "GET /api/v1/audit/export?format=csv&target=%s", "", "target", invalid422, ""},
		{"ada@id:acme", "GET /api/v1/audit/export?format=csv&q=%s", "", "q", invalid422, ""},

		{"ada@id:acme", "POST /api/v1/farm/jobs", `{"name":"%s","steps":[{"run":"true"}]}`, "name", invalid422, ""},
		{"ada@id:acme", "POST /api/v1/farm/jobs", `{"idempotencyKey":"%s","name":"a","steps":[{"run":"true"}]}`, "idempotencyKey", invalid422,
			""},
		{"ada@id:acme", "POST /api/v1/farm/jobs", `{"action":"cancel","jobId":"` + job + `","reason":"%s"}`, "reason", invalid422, ""},
		{"ada@id:acme", "POST /api/v1/farm/jobs", `{"name":"a","steps":[{"run":"%s"}]}`, "steps.0.run", invalid422, ""},
		{"ada@id:acme", "POST /api/v1/farm/jobs", `{"name":"a","steps":[{"name":"%s","run":"true"}]}`, "steps.0.name", invalid422, ""},
		{"ada@id:acme", "POST /api/v1/farm/jobs", `{"name":"a","steps":[{"run":"true","env":{"A":"%s"}}]}`, "steps.0.env", invalid422, ""},
		{"ada@id:acme", "POST /api/v1/farm/jobs", `{"name":"a","steps":[{"run":"true"}],"requires":{"labels":["a=%s"]}}`, "requires.labels",
			invalid422, ""},
		{"ada@id:acme", "POST /api/v1/farm/jobs", `{"name":"a","steps":[{"run":"true"}],"artifacts":[{"name":"a","paths":["%s"]}]}`,
			"artifacts.0.paths", invalid422, ""},
		{"ada@id:acme", "POST /api/v1/farm/jobs", `{"name":"a","steps":[{"run":"true"}],"concurrency":{"key":"%s"}}`, "concurrency.key",
			invalid422, ""},
		{"ada@id:acme", "POST /api/v1/farm/jobs", `{"name":"a","steps":[{"run":"true"}],"annotations":{"a":"%s"}}`, "annotations", invalid422,
			""},

		{"ada", "POST /api/auth/organization/create", `{"slug":"kept-one","keepCurrentActiveOrganization":true,"name":"%s"}`, "name", invalid400,
			""},
		{"ada", "POST /api/auth/organization/create", `{"name":"Kept","keepCurrentActiveOrganization":true,"slug":"%s"}`, "slug", invalid400, ""},
		{"ada", "POST /api/auth/organization/update", acme + `"data":{"name":"%s"}}`, "name", invalid400, ""},
		{"ada", "POST /api/auth/organization/update", acme + `"data":{"slug":"%s"}}`, "slug", invalid400, ""},
		{"ada", "POST /api/auth/organization/invite-member", acme + `"role":"viewer","email":"%s"}`, "", "400 INVALID_EMAIL", "%s@acme.example"},
		{"nobody", "POST /api/auth/sign-in/social", `{"provider":"github","callbackURL":"%s"}`, "", "403 INVALID_CALLBACK_URL", "/%s"},
		{"nobody", "POST /api/auth/sign-in/social", `{"provider":"github","errorCallbackURL":"%s"}`, "", "403 INVALID_ERROR_CALLBACK_URL", "/%s"},
		{"nobody", "POST /api/auth/sign-in/social", `{"provider":"github","newUserCallbackURL":"%s"}`, "", "403 INVALID_NEW_USER_CALLBACK_URL",
			"/%s"},
	}
}

// notKept are texts that requests of the description carry and nothing keeps.
var notKept = []string{
	"POST /api/v1/inbox/{id}/answer expectedHead",        // it is compared
	"POST " + enrols + " token",                          // its fingerprint is
	"POST " + enrols + " csr", "POST " + renews + " csr", // of them the fingerprint of the key is
	"PUT /api/v1/farm/secrets/{name} value", // it is sealed
}

// testKeptText shows that no text which is kept may hold a service token: each
// such field of each route takes another word and refuses a token, as it is or
// with an escape. What is kept of the request itself has it taken out.
func testKeptText(t *testing.T, s *site) {
	v := s.serve(t, s.clone(t))
	token := s.tokens["reader"]
	job := v.ask(t, "ada@id:acme", "POST /api/v1/farm/jobs", `{"name":"a","steps":[{"run":"true"}]}`).is(t, "201").text(t, "job.id")
	list := v.keptTexts(t, job)
	for i, k := range list {
		form := k.form
		if form == "" {
			form = "%s"
		}
		for _, word := range []string{token, "x" + token + "y", token[:40], `\u0074` + token[1:]} {
			a := k.send(t, v, fmt.Sprintf(form, word))
			require.Equal(t, k.refusal, a.verdict(), "%s %s: %s", k.line, k.field, a.body)
			if k.field != "" {
				require.Contains(t, a.at(t, "details"), k.field, k.line)
			}
		}
		harmless := fmt.Sprintf("harmless-%d", i)
		a := k.send(t, v, fmt.Sprintf(form, harmless))
		require.Less(t, a.status, 300, "%s %s: %s", k.line, k.field, a.body)
		require.True(t, v.keeps(t, harmless), "%s does not keep %s", k.line, k.field)
	}
	v.ask(t, "ada@id:acme", "PATCH /api/v1/workspace", `{"name":"Harmless"}`, "User-Agent: harmless-agent "+token,
		"X-Request-Id: "+token).is(t, "200")
	require.True(t, v.keeps(t, "harmless-agent tok_svc_[redacted]"))
	v.ask(t, "ada@id:acme", "PATCH /api/v1/workspace", `{"name":"Harm"}`, "Idempotency-Key: "+token).is(t, invalid422)
	for _, word := range anyToken() {
		require.False(t, v.keeps(t, word), word)
	}

	known := slices.Clone(notKept)
	for _, k := range list {
		line, _, _ := strings.Cut(v.loadSpec(t).templateLine(k.line), "?")
		known = append(known, line+" "+k.field)
	}
	for _, field := range v.textFields(t) {
		require.Contains(t, known, field, "a new text: is it kept?")
	}
}

// templateLine is a request's line with the template of its path.
func (s *spec) templateLine(line string) string {
	method, _, _ := strings.Cut(line, " ")
	return method + " " + s.template(line)
}

func (k keptText) send(t *testing.T, v *service, text string) answer {
	t.Helper()
	if k.body != "" {
		return v.ask(t, k.as, k.line, fmt.Sprintf(k.body, text))
	}
	text = strings.ReplaceAll(text, `\u00`, "%") // as a query escapes it
	if !strings.Contains(text, "%") {
		text = url.QueryEscape(text)
	}
	return v.ask(t, k.as, fmt.Sprintf(k.line, text), "")
}

// keeps reports whether a text is in an event or beside a sign-in.
func (v *service) keeps(t *testing.T, text string) bool {
	t.Helper()
	return rows[bool](t, v, `
		select exists (select from events where strpos(data::text, $1) > 0 or strpos(meta::text, $1) > 0)
			or exists (select from commands where strpos(key, $1) > 0) or exists (select from oauth_states s
				where strpos(s::text, $1) > 0)`, text)[0]
}

// textFields lists the fields of the description in which a request that may be
// kept has text of its sender's choice.
func (v *service) textFields(t *testing.T) (list []string) {
	t.Helper()
	doc := parsed(t, v.ask(t, "nobody", "GET /api/openapi.json", "").body)
	for _, route := range v.loadSpec(t).routes() {
		method, path, _ := strings.Cut(route, " ")
		operation := must(t, doc, "paths", path, strings.ToLower(method))
		if method == "GET" && path != "/api/v1/audit/export" {
			continue
		}
		parameters, _ := at(operation, "parameters")
		all, _ := parameters.([]any)
		for _, p := range all {
			if must(t, p, "in") == "query" && isText(must(t, p, "schema")) {
				list = append(list, route+" "+must(t, p, "name").(string))
			}
		}
		body, ok := at(operation, "requestBody", "content", "application/json", "schema")
		if !ok {
			continue
		}
		if ref, ok := at(body, "$ref"); ok {
			body = must(t, doc, "components", "schemas", ref.(string)[strings.LastIndexByte(ref.(string), '/')+1:])
		}
		for name, schema := range must(t, body, "properties").(map[string]any) {
			if isText(schema) {
				list = append(list, route+" "+name)
			}
		}
	}
	require.Greater(t, len(list), 5)
	return list
}

// isText tells text of any kind from what has to be an id, a time or one of a list.
func isText(schema any) bool {
	s := schema.(map[string]any)
	for _, restricted := range []string{"enum", "pattern"} {
		if s[restricted] != nil {
			return false
		}
	}
	return fmt.Sprint(s["type"]) == "string" && s["format"] != "uuid" && s["format"] != "date-time"
}
