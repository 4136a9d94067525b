package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testTenantIsolation shows that requests for another workspace's objects are answered exactly like
// requests for objects that do not exist.
func testTenantIsolation(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t), "SVC_ENGINE_URL="+s.startCodeHostEngine(t))
	created := v.ask(t, "greta@globex", "POST /api/v1/service-accounts", `{"name":"spy","scopes":["api.read"]}`).is(t, "201")
	invited := v.ask(t, "greta@globex", "POST /api/v1/invitations", `{"email":"ivy@globex.example"}`).is(t, "201")
	foreign := map[string]string{ // ids by the noun in the path
		"invitations":      invited.text(t, "id"),
		"audit":            v.ask(t, "greta@globex", "GET /api/v1/audit?limit=1", "").text(t, "items.0.id"),
		"runs":             v.ask(t, "greta@globex", "GET /api/v1/runs?status=terminal&limit=1", "").text(t, "items.0.id"),
		"members":          s.id(t, "member greta@globex"),
		"inbox":            v.ask(t, "greta@globex", "GET /api/v1/inbox", "").text(t, "items.0.id"),
		"service-accounts": created.text(t, "account.id"),
		"farm/enrollments": v.ask(t, "greta@globex", "POST /api/v1/farm/enrollments", `{}`).is(t, "201").text(t, "enrollmentId"),
		"repos":            v.connectRepo(t, "greta@globex", "globex/site"),
		"farm/runners":     v.enrolRunner(t, "greta@globex"),
		"farm/jobs": v.ask(t, "greta@globex", "POST /api/v1/farm/jobs",
			`{"name":"theirs","steps":[{"name":"test","run":"true"}]}`).is(t, "201").text(t, "job.id"),
	}

	t.Run("ids in queries", func(t *testing.T) {
		for line, id := range map[string]string{
			"GET /api/v1/runs?status=active&repo=":   s.id(t, "repo globex/site"),
			"GET /api/v1/runs?status=terminal&repo=": s.id(t, "repo globex/site"),
			"GET /api/v1/audit?target=":              foreign["service-accounts"],
			"GET /api/v1/backlog?repo=":              foreign["repos"],
			"GET /api/v1/audit?actor=":               s.id(t, "user greta"),
		} {
			v.requireSameAnswer(t, "ada@acme", "ada@acme", line+id, line+noID, "")
		}
	})

	t.Run("ids in paths", func(t *testing.T) {
		for _, route := range v.loadSpec(t).routes() {
			method, template, _ := strings.Cut(strings.ReplaceAll(route, "{artifactId}", noID), " ")
			before, after, ok := strings.Cut(template, "{id}")
			if !ok || isRunnerRoute(method, template) {
				continue
			}
			noun := strings.Trim(strings.TrimPrefix(before, "/api/v1"), "/")
			require.Contains(t, foreign, noun, route)
			for _, as := range []string{"ada@acme", "mia@acme", "reader"} {
				body := ""
				switch {
				case noun == "repos" && method == http.MethodPatch:
					body = `{"maxActive":3}`
				case noun == "repos" && method == http.MethodPost:
					body = map[string]string{"pause": `{"reason":"Freeze."}`, "credential": `{"which":"read","credential":""}`}[strings.Trim(after, "/")]
				case noun == "repos" && method == http.MethodDelete:
					after = "?name=globex/site"
				case method == http.MethodPatch:
					body = `{"role":"Viewer"}`
				case noun == "inbox":
					body = `{"action":"confirm"}`
				}
				v.requireSameAnswer(t, as, as, method+" "+before+foreign[noun]+after, method+" "+before+noID+after, body)
			}
		}
	})

	t.Run("workspaces in headers", func(t *testing.T) {
		spy := "token " + created.text(t, "token")
		for _, route := range v.loadSpec(t).routes() {
			line := strings.NewReplacer("{id}", noID, "{artifactId}", noID).Replace(route)
			if strings.HasSuffix(line, "/runs") {
				line += "?status=active"
			}
			for _, who := range []string{"greta", spy, "reader", "farmer", "ada", "nobody"} {
				tenant := "globex" // not the caller's
				if who == "greta" || who == spy {
					tenant = "acme"
				}
				v.requireSameAnswer(t, who+"@"+tenant, who+"@nowhere", line, line, "{}")
				v.requireSameAnswer(t, who+"@id:"+tenant, who+"@"+noID, line, line, "{}")
			}
		}
	})
}

// requireSameAnswer sends two requests and requires the same answer, except for X-Request-Id and Date. A
// list must be empty.
func (v *service) requireSameAnswer(t *testing.T, as, asOther, line, lineOther, body string) {
	t.Helper()
	a, other := v.ask(t, as, line, body), v.ask(t, asOther, lineOther, body)
	for _, h := range []http.Header{a.header, other.header} {
		h.Del("X-Request-Id")
		h.Del("Date")
	}
	require.Equal(t, other, a, "%s %s", as, line)
	if a.status < 400 { // a list
		require.Empty(t, a.at(t, "items"), line)
	}
}
