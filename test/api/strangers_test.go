package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testStrangers shows that what belongs to another workspace is answered
// exactly like what does not exist: nobody can find out that it does.
func testStrangers(t *testing.T, s *site) {
	v := s.serve(t, s.clone(t))
	made := v.ask(t, "greta@globex", "POST /api/v1/service-accounts", `{"name":"spy","scopes":["api.read"]}`).is(t, "201")
	invited := v.ask(t, "greta@globex", "POST /api/v1/invitations", `{"email":"ivy@globex.example"}`).is(t, "201")
	theirs := map[string]string{ // by the noun of the path
		"invitations":      invited.text(t, "id"),
		"audit":            v.ask(t, "greta@globex", "GET /api/v1/audit?limit=1", "").text(t, "items.0.id"),
		"runs":             v.ask(t, "greta@globex", "GET /api/v1/runs?status=terminal&limit=1", "").text(t, "items.0.id"),
		"members":          s.id(t, "member greta@globex"),
		"inbox":            v.ask(t, "greta@globex", "GET /api/v1/inbox", "").text(t, "items.0.id"),
		"service-accounts": made.text(t, "account.id"),
		"farm/enrollments": v.ask(t, "greta@globex", "POST /api/v1/farm/enrollments", `{}`).is(t, "201").text(t, "enrollmentId"),
		"farm/runners":     v.enrol(t, "greta@globex"),
		"farm/jobs": v.ask(t, "greta@globex", "POST /api/v1/farm/jobs",
			`{"name":"theirs","steps":[{"name":"test","run":"true"}]}`).is(t, "201").text(t, "job.id"),
	}

	t.Run("what a parameter names", func(t *testing.T) {
		for line, id := range map[string]string{
			"GET /api/v1/runs?status=active&repo=":   s.id(t, "repo globex/site"),
			"GET /api/v1/runs?status=terminal&repo=": s.id(t, "repo globex/site"),
			"GET /api/v1/audit?target=":              theirs["service-accounts"],
			"GET /api/v1/audit?actor=":               s.id(t, "user greta"),
		} {
			v.requireSame(t, "ada@acme", "ada@acme", line+id, line+noID, "")
		}
	})

	t.Run("what a path names", func(t *testing.T) {
		for _, route := range v.loadSpec(t).routes() {
			method, template, _ := strings.Cut(strings.ReplaceAll(route, "{artifactId}", noID), " ")
			before, after, ok := strings.Cut(template, "{id}")
			if !ok || ofMachines(method, template) {
				continue
			}
			noun := strings.Trim(strings.TrimPrefix(before, "/api/v1"), "/")
			require.Contains(t, theirs, noun, route)
			for _, as := range []string{"ada@acme", "mia@acme", "reader"} {
				body := ""
				switch {
				case method == http.MethodPatch:
					body = `{"role":"Viewer"}`
				case noun == "inbox":
					body = `{"action":"confirm"}`
				}
				v.requireSame(t, as, as, method+" "+before+theirs[noun]+after, method+" "+before+noID+after, body)
			}
		}
	})

	t.Run("a workspace that they name", func(t *testing.T) {
		spy := "token " + made.text(t, "token")
		for _, route := range v.loadSpec(t).routes() {
			line := strings.NewReplacer("{id}", noID, "{artifactId}", noID).Replace(route)
			if strings.HasSuffix(line, "/runs") {
				line += "?status=active"
			}
			for _, who := range []string{"greta", spy, "reader", "farmer", "ada", "nobody"} {
				there := "globex"
				if who == "greta" || who == spy {
					there = "acme"
				}
				v.requireSame(t, who+"@"+there, who+"@nowhere", line, line, "{}")
				v.requireSame(t, who+"@id:"+there, who+"@"+noID, line, line, "{}")
			}
		}
	})
}

// requireSame asks for what is not the caller's and for what is not there.
func (v *service) requireSame(t *testing.T, as, asOther, line, lineOther, body string) {
	t.Helper()
	a, other := v.ask(t, as, line, body), v.ask(t, asOther, lineOther, body)
	for _, h := range []http.Header{a.header, other.header} {
		h.Del("X-Request-Id")
		h.Del("Date")
	}
	require.Equal(t, other, a, "%s %s", as, line)
	if a.status < 400 { // a list: it has nothing in it
		require.Empty(t, a.at(t, "items"), line)
	}
}
