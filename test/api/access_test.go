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

// noID is the id of nothing.
const noID = "01a00000-0000-7000-8000-000000000000"

// testAccess holds every route and every kind of caller against testdata/access.txt.
func testAccess(t *testing.T, s *site) {
	v := s.serve(t, s.clone(t))
	d := v.loadSpec(t)
	callers := v.callers(t)
	text, err := os.ReadFile("../testdata/access.txt")
	require.NoError(t, err)
	covered := map[string]bool{}
	names := newPlaceholders(s)
	names.put(noID, "<no id>")
	for _, r := range readAccess(t, string(text)) {
		method, _, _ := strings.Cut(r.line, " ")
		covered[method+" "+d.template(r.line)] = true
		t.Run(r.line, func(t *testing.T) {
			for i, who := range slices.Sorted(maps.Keys(callers)) {
				body := strings.ReplaceAll(names.fill(r.body), "<fresh>", fmt.Sprintf("fresh-%d", i))
				line := names.fill(r.line)
				a := v.ask(t, callers[who].as, line, body, callers[who].headers...)
				require.Equal(t, r.verdicts[who], a.verdict(), who)
				d.requireFits(t, line, a)
				v.requireRefusedFirst(t, callers[who], r, body, r.verdicts[who])
			}
			require.Len(t, r.verdicts, len(callers), "a caller that there is not")
		})
	}
	require.ElementsMatch(t, d.routes(), slices.Collect(maps.Keys(covered)), "the routes of the description and of access.txt")
}

// requireRefusedFirst checks that a caller whom the guard refuses with an id of nothing is refused the same
// with a malformed id: the guard decides before the id is validated.
func (v *service) requireRefusedFirst(t *testing.T, c caller, r access, body, verdict string) {
	if !strings.Contains(r.line, "<no id>") || !strings.HasPrefix(verdict, "401") && !strings.HasPrefix(verdict, "403") {
		return
	}
	for _, malformed := range []string{"x", strings.Repeat("x", 65)} { // not an id; longer than any is
		line := strings.ReplaceAll(r.line, "<no id>", malformed)
		require.Equal(t, verdict, v.ask(t, c.as, line, body, c.headers...).verdict(), "%s as %s", line, c.as)
	}
}

// routes lists what the description names, such as "GET /api/v1/runs/{id}".
func (s *spec) routes() (list []string) {
	for template, item := range s.paths {
		for method := range item.(map[string]any) {
			list = append(list, strings.ToUpper(method)+" "+template)
		}
	}
	return list
}

// A caller is somebody and the headers that they add.
type caller struct {
	as      string
	headers []string
}

func (v *service) callers(t *testing.T) map[string]caller {
	reader := v.site.tokens["reader"]
	homeless := "Cookie: " + cookieName + "=" + v.session(t, "greta", `active_workspace_id = null`)
	list := map[string]caller{
		// What is not read as a token.
		"basic":     {"nobody", []string{"Authorization: Basic YWRhOmRlbW9uc3RyYXRpb24="}},
		"empty":     {"nobody", []string{"Authorization: "}},
		"bare":      {"nobody", []string{"Authorization: Bearer"}},
		"two":       {"reader", []string{"Authorization: Bearer " + reader}},
		"spaced":    {"nobody", []string{"Authorization: Bearer " + reader + " " + reader}},
		"ada+basic": {"ada@acme", []string{"Authorization: Basic YWRhOmRlbW9uc3RyYXRpb24="}},
		// Tokens that are none, or no longer.
		"broken":  {"token " + flipped(reader), nil},
		"unknown": {"token tok_svc_000000000000000000000000000000002WiXVN", nil},
		"rotated": {"token " + v.stale(t, "rotate"), nil},
		"revoked": {"token " + v.stale(t, "revoke"), nil},
		// Sessions that are none, or no longer, or lead to no workspace.
		"forged":           {"nobody", []string{"Cookie: " + cookieName + "=" + flipped(v.site.sessions["ada"])}},
		"expired":          {"nobody", []string{"Cookie: " + cookieName + "=" + v.session(t, "ada", `expires_at = now()`)}},
		"homeless":         {"nobody", []string{homeless}},
		"homeless@nowhere": {"nobody", []string{homeless, "X-Svc-Tenant: nowhere"}},
		"evicted": {"nobody",
			[]string{"Cookie: " + cookieName + "=" + v.session(t, "greta", `active_workspace_id = '`+v.site.id(t, "workspace acme")+`'`)}},
		// A browser that another site has sent.
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

// flipped returns text with another last character.
func flipped(text string) string {
	last := "a"
	if strings.HasSuffix(text, last) {
		last = "b"
	}
	return text[:len(text)-1] + last
}

// stale returns a token that was rotated or revoked.
func (v *service) stale(t *testing.T, how string) string {
	made := v.ask(t, "ada@acme", "POST /api/v1/service-accounts", `{"name":"was-`+how+`d","scopes":["api.read"]}`).is(t, "201")
	v.ask(t, "ada@acme", "POST /api/v1/service-accounts/"+made.text(t, "account.id")+"/"+how, "").is(t, "200")
	return made.text(t, "token")
}

// session signs a person in once more, alters the session in the database, and
// returns its cookie.
func (v *service) session(t *testing.T, who, set string) string {
	cookie := v.signIn(t, who)
	db, err := pgx.Connect(t.Context(), v.database)
	require.NoError(t, err)
	defer db.Close(t.Context())
	tag, err := db.Exec(t.Context(), `update sessions set `+set+` where created_at = (select max(created_at) from sessions)`)
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected())
	return cookie
}

// An access is a block of access.txt.
type access struct {
	line, body string
	verdicts   map[string]string // by caller
}

func readAccess(t *testing.T, text string) (list []access) {
	for block := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(block, "#") {
			continue
		}
		r := access{verdicts: map[string]string{}}
		for line := range strings.SplitSeq(strings.TrimSpace(block), "\n") {
			verdict, who, ok := strings.Cut(line, ": ")
			switch {
			case r.line == "":
				r.line = line
			case !strings.HasPrefix(line, "  "):
				r.body = line
			default:
				require.True(t, ok, line)
				for name := range strings.FieldsSeq(who) {
					require.NotContains(t, r.verdicts, name, "%s: %s is there twice", r.line, name)
					r.verdicts[name] = strings.TrimSpace(verdict)
				}
			}
		}
		list = append(list, r)
	}
	return list
}
