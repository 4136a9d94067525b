package api

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// noID is a valid id of no object.
const noID = "01a00000-0000-7000-8000-000000000000"

// testAccess sends a request to every route as every kind of caller, and compares the answers with
// test/testdata/access.txt.
func testAccess(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t))
	d := v.loadSpec(t)
	callers := v.callers(t)
	text, err := os.ReadFile("../testdata/access.txt")
	require.NoError(t, err)
	covered := map[string]bool{}
	names := newPlaceholders(s)
	names.put(noID, "<no id>")
	for _, r := range readAccessFile(t, string(text)) {
		method, _, _ := strings.Cut(r.line, " ")
		covered[method+" "+d.template(r.line)] = true
		t.Run(r.line, func(t *testing.T) {
			for i, who := range slices.Sorted(maps.Keys(callers)) {
				body := strings.ReplaceAll(names.fill(r.body), "<fresh>", fmt.Sprintf("fresh-%d", i))
				line := names.fill(r.line)
				a := v.ask(t, callers[who].as, line, body, callers[who].headers...)
				require.Equal(t, r.want[who], a.statusAndCode(), who)
				d.requireConforms(t, line, a)
				v.requireGuardBeforeValidation(t, callers[who], r, body, r.want[who])
			}
			require.Len(t, r.want, len(callers), "access.txt names an unknown caller")
		})
	}
	require.ElementsMatch(t, d.routes(), slices.Collect(maps.Keys(covered)), "the routes of the description and of access.txt")
}

// requireGuardBeforeValidation requires that a caller whom the guard refuses gets the same refusal for a
// malformed id: the guard decides before the id is validated.
func (v *service) requireGuardBeforeValidation(t *testing.T, c caller, r accessBlock, body, want string) {
	if !strings.Contains(r.line, "<no id>") || !strings.HasPrefix(want, "401") && !strings.HasPrefix(want, "403") {
		return
	}
	for _, malformed := range []string{"x", strings.Repeat("x", 65)} { // not an id; longer than any is
		line := strings.ReplaceAll(r.line, "<no id>", malformed)
		require.Equal(t, want, v.ask(t, c.as, line, body, c.headers...).statusAndCode(), "%s as %s", line, c.as)
	}
}

// routes lists the operations of the document, such as "GET /api/v1/runs/{id}".
func (s *spec) routes() (list []string) {
	for template, item := range s.paths {
		for method := range item.(map[string]any) {
			list = append(list, strings.ToUpper(method)+" "+template)
		}
	}
	return list
}

// A caller is credentials, as ask takes them, and additional headers.
type caller struct {
	as      string
	headers []string
}

// callers returns the callers that access.txt names.
func (v *service) callers(t *testing.T) map[string]caller {
	reader := v.fixture.tokens["reader"]
	homeless := "Cookie: " + cookieName + "=" + v.alteredSession(t, "greta", `active_workspace_id = null`)
	list := map[string]caller{
		// Authorization headers without a token.
		"basic":     {"nobody", []string{"Authorization: Basic YWRhOmRlbW9uc3RyYXRpb24="}},
		"empty":     {"nobody", []string{"Authorization: "}},
		"bare":      {"nobody", []string{"Authorization: Bearer"}},
		"two":       {"reader", []string{"Authorization: Bearer " + reader}},
		"spaced":    {"nobody", []string{"Authorization: Bearer " + reader + " " + reader}},
		"ada+basic": {"ada@acme", []string{"Authorization: Basic YWRhOmRlbW9uc3RyYXRpb24="}},
		// Invalid, rotated and revoked tokens.
		"broken":  {"token " + withLastCharChanged(reader), nil},
		"unknown": {"token tok_svc_000000000000000000000000000000002WiXVN", nil},
		"rotated": {"token " + v.endedToken(t, "rotate"), nil},
		"revoked": {"token " + v.endedToken(t, "revoke"), nil},
		// Forged and expired sessions, and sessions without an accessible workspace.
		"forged":           {"nobody", []string{"Cookie: " + cookieName + "=" + withLastCharChanged(v.fixture.sessions["ada"])}},
		"expired":          {"nobody", []string{"Cookie: " + cookieName + "=" + v.alteredSession(t, "ada", `expires_at = now()`)}},
		"homeless":         {"nobody", []string{homeless}},
		"homeless@nowhere": {"nobody", []string{homeless, "X-Svc-Tenant: nowhere"}},
		"evicted": {"nobody",
			[]string{"Cookie: " + cookieName + "=" + v.alteredSession(t, "greta", `active_workspace_id = '`+v.fixture.id(t, "workspace acme")+`'`)}},
		// A cross-site request of a browser.
		"ada-elsewhere": {"ada@acme", []string{"Sec-Fetch-Site: cross-site", "Origin: https://elsewhere.example"}},
	}
	for _, as := range []string{
		"nobody", "reader", "farmer", "ci-bot", "reader@acme", "reader@globex", "reader@nowhere",
		"vera@acme", "leo@acme", "mia@acme", "max@acme", "ada@acme", "ben@acme", "ada@id:acme",
		"greta@acme", "greta@id:acme", "greta@nowhere",
	} {
		list[as] = caller{as, nil}
	}
	return list
}

// withLastCharChanged returns text with a different last character.
func withLastCharChanged(text string) string {
	last := "a"
	if strings.HasSuffix(text, last) {
		last = "b"
	}
	return text[:len(text)-1] + last
}

// endedToken returns a token that was rotated or revoked; action is rotate or revoke.
func (v *service) endedToken(t *testing.T, action string) string {
	created := v.ask(t, "ada@acme", "POST /api/v1/service-accounts", `{"name":"was-`+action+`d","scopes":["api.read"]}`).is(t, "201")
	v.ask(t, "ada@acme", "POST /api/v1/service-accounts/"+created.text(t, "account.id")+"/"+action, "").is(t, "200")
	return created.text(t, "token")
}

// alteredSession signs a person in, updates the session in the database with the SQL assignment set, and
// returns the cookie's value.
func (v *service) alteredSession(t *testing.T, who, set string) string {
	cookie := v.signIn(t, who)
	db, err := pgx.Connect(t.Context(), v.database)
	require.NoError(t, err)
	defer db.Close(t.Context())
	tag, err := db.Exec(t.Context(), `update sessions set `+set+` where created_at = (select max(created_at) from sessions)`)
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected())
	return cookie
}

// An accessBlock is a block of access.txt: a request, and the expected answer by caller.
type accessBlock struct {
	line, body string
	want       map[string]string // status and code by caller
}

func readAccessFile(t *testing.T, text string) (list []accessBlock) {
	for block := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(block, "#") {
			continue
		}
		r := accessBlock{want: map[string]string{}}
		for line := range strings.SplitSeq(strings.TrimSpace(block), "\n") {
			want, who, ok := strings.Cut(line, ": ")
			switch {
			case r.line == "":
				r.line = line
			case !strings.HasPrefix(line, "  "):
				r.body = line
			default:
				require.True(t, ok, line)
				for name := range strings.FieldsSeq(who) {
					require.NotContains(t, r.want, name, "%s: %s is listed twice", r.line, name)
					r.want[name] = strings.TrimSpace(want)
				}
			}
		}
		list = append(list, r)
	}
	return list
}
