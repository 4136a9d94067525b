package api

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A storedTextField is a request field whose text is stored. %s stands for the text in line or body.
type storedTextField struct {
	as, line, body string
	field          string
	refusal        string
	format         string // of an accepted text, with %s for a word; empty means the word alone
}

const (
	invalidREST = "422 validation_failed"
	invalidAuth = "400 VALIDATION_ERROR"
)

// storedTextFields lists the fields. job is the id of a job that can be cancelled.
func (v *service) storedTextFields(t *testing.T, job string) []storedTextField {
	s := v.fixture
	queue := `{"repoId":"` + s.id(t, "repo acme/web") + `",`
	run, decision := s.id(t, "run 302"), s.id(t, "decision 302")
	drained, revoked := v.enrolRunner(t, "ada@acme"), v.enrolRunner(t, "ada@acme")
	acme := `{"organizationId":"` + s.id(t, "workspace acme") + `",`
	repo := "/api/v1/repos/" + v.connectRepo(t, "ada@id:acme", "acme/site")
	return []storedTextField{
		{"ada@id:acme", "POST /api/v1/invitations", `{"email":"%s"}`, "email", invalidREST, "%s@acme.example"},
		{"ada@id:acme", "PATCH /api/v1/workspace", `{"name":"%s"}`, "name", invalidREST, ""},
		{"ada@id:acme", "POST /api/v1/backlog/queue", queue + `"title":"%s"}`, "title", invalidREST, ""},
		{"ada@id:acme", "POST /api/v1/backlog/queue", queue + `"title":"One more","body":"%s"}`, "body", invalidREST, ""},
		{"ada@id:acme", "POST /api/v1/repos", `{"url":"https://git.example/acme/%s","kind":"git"}`, "url", invalidREST, ""},
		{"ada@id:acme", "POST /api/v1/repos", `{"url":"https://git.example/a.git","kind":"git","name":"acme/%s"}`, "name", invalidREST, ""},
		{"ada@id:acme", "PATCH " + repo, `{"branch":"%s"}`, "branch", invalidREST, ""},
		{"ada@id:acme", "PATCH " + repo, `{"label":"%s"}`, "label", invalidREST, ""},
		{"ada@id:acme", "POST " + repo + "/pause", `{"reason":"%s"}`, "reason", invalidREST, ""},
		{"ada@id:acme", "POST /api/v1/inbox/" + decision + "/answer", `{"action":"confirm","note":"%s"}`, "note", invalidREST, ""},
		{"ada@id:acme", "POST /api/v1/runs/" + run + "/cancel", `{"reason":"%s"}`, "reason", invalidREST, ""},
		{"ada@id:acme", "POST /api/v1/farm/enrollments", `{"name":"%s"}`, "name", invalidREST, ""},
		{"nobody", "POST " + registrationsPath, v.registrationBody(t, v.mintEnrollmentToken(t, "ada@acme"), "%s"), "name", invalidREST, ""},
		{"ada@id:acme", "POST /api/v1/farm/runners/" + drained + "/drain", `{"note":"%s"}`, "note", invalidREST, ""},
		{"ada@id:acme", "POST /api/v1/farm/runners/" + revoked + "/revoke", `{"note":"%s"}`, "note", invalidREST, ""},
		{"ada@id:acme", "GET /api/v1/audit/export?format=csv&actor=%s", "", "actor", invalidREST, ""},
		{"ada@id:acme", "GET /api/v1/audit/export?format=csv&action=%s", "", "action", invalidREST, ""},
		{"ada@id:acme", "GET /api/v1/audit/export?format=csv&target=%s", "", "target", invalidREST, ""},
		{"ada@id:acme", "GET /api/v1/audit/export?format=csv&q=%s", "", "q", invalidREST, ""},

		{"ada@id:acme", "POST /api/v1/farm/jobs", `{"name":"%s","steps":[{"run":"true"}]}`, "name", invalidREST, ""},
		{"ada@id:acme", "POST /api/v1/farm/jobs", `{"idempotencyKey":"%s","name":"a","steps":[{"run":"true"}]}`, "idempotencyKey", invalidREST,
			""},
		{"ada@id:acme", "POST /api/v1/farm/jobs", `{"action":"cancel","jobId":"` + job + `","reason":"%s"}`, "reason", invalidREST, ""},
		{"ada@id:acme", "POST /api/v1/farm/jobs", `{"name":"a","steps":[{"run":"%s"}]}`, "steps.0.run", invalidREST, ""},
		{"ada@id:acme", "POST /api/v1/farm/jobs", `{"name":"a","steps":[{"name":"%s","run":"true"}]}`, "steps.0.name", invalidREST, ""},
		{"ada@id:acme", "POST /api/v1/farm/jobs", `{"name":"a","steps":[{"run":"true","env":{"A":"%s"}}]}`, "steps.0.env", invalidREST, ""},
		{"ada@id:acme", "POST /api/v1/farm/jobs", `{"name":"a","steps":[{"run":"true"}],"requires":{"labels":["a=%s"]}}`, "requires.labels",
			invalidREST, ""},
		{"ada@id:acme", "POST /api/v1/farm/jobs", `{"name":"a","steps":[{"run":"true"}],"artifacts":[{"name":"a","paths":["%s"]}]}`,
			"artifacts.0.paths", invalidREST, ""},
		{"ada@id:acme", "POST /api/v1/farm/jobs", `{"name":"a","steps":[{"run":"true"}],"concurrency":{"key":"%s"}}`, "concurrency.key",
			invalidREST, ""},
		{"ada@id:acme", "POST /api/v1/farm/jobs", `{"name":"a","steps":[{"run":"true"}],"annotations":{"a":"%s"}}`, "annotations", invalidREST,
			""},

		{"ada", "POST /api/auth/organization/create", `{"slug":"kept-one","keepCurrentActiveOrganization":true,"name":"%s"}`, "name", invalidAuth,
			""},
		{"ada", "POST /api/auth/organization/create", `{"name":"Kept","keepCurrentActiveOrganization":true,"slug":"%s"}`, "slug", invalidAuth,
			""},
		{"ada", "POST /api/auth/organization/update", acme + `"data":{"name":"%s"}}`, "name", invalidAuth, ""},
		{"ada", "POST /api/auth/organization/update", acme + `"data":{"slug":"%s"}}`, "slug", invalidAuth, ""},
		{"ada", "POST /api/auth/organization/invite-member", acme + `"role":"viewer","email":"%s"}`, "", "400 INVALID_EMAIL", "%s@acme.example"},
		{"nobody", "POST /api/auth/sign-in/social", `{"provider":"github","callbackURL":"%s"}`, "", "403 INVALID_CALLBACK_URL", "/%s"},
		{"nobody", "POST /api/auth/sign-in/social", `{"provider":"github","errorCallbackURL":"%s"}`, "", "403 INVALID_ERROR_CALLBACK_URL", "/%s"},
		{"nobody", "POST /api/auth/sign-in/social", `{"provider":"github","newUserCallbackURL":"%s"}`, "", "403 INVALID_NEW_USER_CALLBACK_URL",
			"/%s"},
	}
}

// unstoredFields are text fields in the OpenAPI document that are not stored.
var unstoredFields = []string{
	"POST /api/v1/inbox/{id}/answer expectedHead",                        // only compared
	"POST " + registrationsPath + " token",                               // only its fingerprint is stored
	"POST " + registrationsPath + " csr", "POST " + renewalPath + " csr", // only the key's fingerprint is stored
	"PUT /api/v1/farm/secrets/{name} value",                                                                               // stored encrypted
	"POST /api/v1/repos credential", "POST /api/v1/repos readCredential", "POST /api/v1/repos/{id}/credential credential", // as well
	"DELETE /api/v1/repos/{id} name", "POST /api/v1/workspace/delete name", // only compared
}

// testStoredText shows that no stored text can contain a service token: each such field accepts a harmless
// word and refuses a token, also an escaped one. Stored request headers have tokens redacted.
func testStoredText(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t), "SVC_ENGINE_URL="+s.startCodeHostEngine(t))
	token := s.tokens["reader"]
	job := v.ask(t, "ada@id:acme", "POST /api/v1/farm/jobs", `{"name":"a","steps":[{"run":"true"}]}`).is(t, "201").text(t, "job.id")
	list := v.storedTextFields(t, job)
	for i, field := range list {
		format := field.format
		if format == "" {
			format = "%s"
		}
		for _, word := range []string{token, "x" + token + "y", token[:40], `\u0074` + token[1:]} {
			a := field.send(t, v, fmt.Sprintf(format, word))
			require.Equal(t, field.refusal, a.statusAndCode(), "%s %s: %s", field.line, field.field, a.body)
			if field.field != "" {
				require.Contains(t, a.at(t, "details"), field.field, field.line)
			}
		}
		harmless := fmt.Sprintf("harmless-%d", i)
		a := field.send(t, v, fmt.Sprintf(format, harmless))
		require.Less(t, a.status, 300, "%s %s: %s", field.line, field.field, a.body)
		require.True(t, v.isStored(t, harmless), "%s does not keep %s", field.line, field.field)
	}
	v.ask(t, "ada@id:acme", "PATCH /api/v1/workspace", `{"name":"Harmless"}`, "User-Agent: harmless-agent "+token,
		"X-Request-Id: "+token).is(t, "200")
	require.True(t, v.isStored(t, "harmless-agent tok_svc_[redacted]"))
	v.ask(t, "ada@id:acme", "PATCH /api/v1/workspace", `{"name":"Harm"}`, "Idempotency-Key: "+token).is(t, invalidREST)
	for _, word := range tokenFragments() {
		require.False(t, v.isStored(t, word), word)
	}

	known := slices.Clone(unstoredFields)
	for _, k := range list {
		line, _, _ := strings.Cut(v.loadSpec(t).templateLine(k.line), "?")
		known = append(known, line+" "+k.field)
	}
	for _, field := range v.textFields(t) {
		if !slices.Contains(unstoredFields, field) && !v.refusesToken(t, field, token) {
			require.Contains(t, known, field, "add it to storedTextFields or unstoredFields")
		}
	}
}

// refusesToken reports whether a request of access.txt that succeeds does not if a field, which textFields
// names, contains a token.
func (v *service) refusesToken(t *testing.T, field, token string) bool {
	t.Helper()
	at := strings.LastIndexByte(field, ' ')
	route, name := field[:at], field[at+1:]
	text, err := os.ReadFile("../testdata/access.txt")
	require.NoError(t, err)
	d, names := v.loadSpec(t), newPlaceholders(v.fixture)
	for _, r := range readAccessFile(t, string(text)) {
		if d.templateLine(r.line) != route || r.body == "" || !strings.HasPrefix(r.want["ada@id:acme"], "2") {
			continue
		}
		var body map[string]any
		require.NoError(t, json.Unmarshal([]byte(names.fill(r.body)), &body))
		body[name] = token
		sent, err := json.Marshal(body)
		require.NoError(t, err)
		v.ask(t, "ada@id:acme", names.fill(r.line), string(sent)).is(t, invalidREST, "%s must not contain a token", field)
		return true
	}
	return false
}

// templateLine returns method and path template of a request line.
func (s *spec) templateLine(line string) string {
	method, _, _ := strings.Cut(line, " ")
	return method + " " + s.template(line)
}

// send sends the request with a text in the field.
func (k storedTextField) send(t *testing.T, v *service, text string) answer {
	t.Helper()
	if k.body != "" {
		return v.ask(t, k.as, k.line, fmt.Sprintf(k.body, text))
	}
	text = strings.ReplaceAll(text, `\u00`, "%") // the escape of a query instead of JSON's
	if !strings.Contains(text, "%") {
		text = url.QueryEscape(text)
	}
	return v.ask(t, k.as, fmt.Sprintf(k.line, text), "")
}

// isStored reports whether a text is in an event, an idempotency key or the state of a sign-in.
func (v *service) isStored(t *testing.T, text string) bool {
	t.Helper()
	return queryRows[bool](t, v, `
		select exists (select from events where strpos(data::text, $1) > 0 or strpos(meta::text, $1) > 0)
			or exists (select from commands where strpos(key, $1) > 0) or exists (select from oauth_states s
				where strpos(s::text, $1) > 0)`, text)[0]
}

// textFields lists the free-text fields of requests that may be stored, as the OpenAPI document names them.
func (v *service) textFields(t *testing.T) (list []string) {
	t.Helper()
	doc := parseJSON(t, v.ask(t, "nobody", "GET /api/openapi.json", "").body)
	for _, route := range v.loadSpec(t).routes() {
		method, path, _ := strings.Cut(route, " ")
		operation := mustAt(t, doc, "paths", path, strings.ToLower(method))
		if method == "GET" && path != "/api/v1/audit/export" {
			continue
		}
		parameters, _ := at(operation, "parameters")
		all, _ := parameters.([]any)
		for _, p := range all {
			if mustAt(t, p, "in") == "query" && isText(mustAt(t, p, "schema")) {
				list = append(list, route+" "+mustAt(t, p, "name").(string))
			}
		}
		body, ok := at(operation, "requestBody", "content", "application/json", "schema")
		if !ok {
			continue
		}
		if ref, ok := at(body, "$ref"); ok {
			body = mustAt(t, doc, "components", "schemas", ref.(string)[strings.LastIndexByte(ref.(string), '/')+1:])
		}
		for name, schema := range mustAt(t, body, "properties").(map[string]any) {
			if isText(schema) {
				list = append(list, route+" "+name)
			}
		}
	}
	require.Greater(t, len(list), 5)
	return list
}

// isText reports whether a schema accepts free text, not only ids, times or listed values.
func isText(schema any) bool {
	s := schema.(map[string]any)
	for _, restricted := range []string{"enum", "pattern"} {
		if s[restricted] != nil {
			return false
		}
	}
	return fmt.Sprint(s["type"]) == "string" && s["format"] != "uuid" && s["format"] != "date-time"
}
