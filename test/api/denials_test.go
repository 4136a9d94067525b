package api

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testDenials has commands refused: by the guard, for a token and a Viewer, and where possible by the
// command. Both record the same denial. Every route of access.txt that changes or exports something
// records one.
func testDenials(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t))
	names := newPlaceholders(s)
	names.put(noID, "<no id>")
	for _, c := range []struct {
		line, body string
		as         []string // refused by the guard; after "then" by the command
		want       string   // recorded action, target id and target name
	}{
		{"PATCH /api/v1/members/<member leo@acme>", `{"role":"Owner"}`, []string{"reader", "vera@acme", "then", "mia@acme"},
			"member.role_changed <member leo@acme>"},
		{"PATCH /api/v1/members/<member ada@acme>", `{"canApproveLoops":false}`, []string{"reader", "vera@acme", "then", "mia@acme"},
			"member.approve_loops_set <member ada@acme>"},
		{"PATCH /api/v1/members/<member ben@acme>", `{"role":"Viewer","canApproveLoops":false}`,
			[]string{"reader", "vera@acme", "then", "mia@acme"}, "member.role_changed <member ben@acme>"},
		{"PATCH /api/v1/members/<member max@acme>", `{"role":`, []string{"reader", "vera@acme"}, "member.role_changed <member max@acme>"},
		{"DELETE /api/v1/members/<member ada@acme>", "", []string{"reader", "vera@acme", "then", "mia@acme"}, "member.removed <member ada@acme>"},
		{"POST /api/v1/invitations", `{"email":"Nora@mail.example","role":"Owner"}`, []string{"reader", "vera@acme", "then", "mia@acme"},
			"invitation.sent  nora@mail.example"},
		{"POST /api/v1/invitations", `{"email":"no address"}`, []string{"reader", "vera@acme"}, "invitation.sent "},
		{"POST /api/v1/invitations/<no id>/resend", "", []string{"reader", "vera@acme"}, "invitation.resent <no id>"},
		{"DELETE /api/v1/invitations/<no id>", "", []string{"reader", "vera@acme"}, "invitation.revoked <no id>"},
		{"POST /api/v1/service-accounts", `{"name":"ci-bot","scopes":["api.read"]}`, []string{"reader", "vera@acme", "then", "ada@acme"},
			"service_account.created  service:ci-bot"},
		{"POST /api/v1/service-accounts/<no id>/rotate", "", []string{"reader", "vera@acme"}, "service_account.rotated <no id>"},
		{"POST /api/v1/service-accounts/<no id>/revoke", "", []string{"reader", "vera@acme"}, "service_account.revoked <no id>"},
		{"POST /api/v1/farm/enrollments", `{"name":"builder-1"}`, []string{"reader", "vera@acme"}, "enrollment.minted  builder-1"},
		{"POST /api/v1/farm/enrollments/<no id>/withdraw", "", []string{"reader", "vera@acme"}, "enrollment.withdrawn <no id>"},
		{"PUT /api/v1/farm/secrets/<no id>", `{"value":"any"}`, []string{"reader", "vera@acme"}, "farm_secret.set "},
		{"DELETE /api/v1/farm/secrets/<no id>", "", []string{"reader", "vera@acme"}, "farm_secret.removed "},
		{"POST /api/v1/farm/runners/<no id>/drain", `{"note":"a disk"}`, []string{"reader", "vera@acme"}, "runner.drain_requested <no id>"},
		{"POST /api/v1/farm/runners/<no id>/resume", "", []string{"reader", "vera@acme"}, "runner.drain_ended <no id>"},
		{"POST /api/v1/farm/runners/<no id>/revoke", "", []string{"reader", "vera@acme"}, "runner.revoked <no id>"},
		{"PATCH /api/v1/workspace", `{"name":"Ours"}`, []string{"reader", "mia@acme"}, "workspace.renamed <workspace acme>"},
		{"GET /api/v1/audit/export?format=csv", "", []string{"reader", "mia@acme"}, "audit.exported <workspace acme>"},
		{"POST /api/v1/backlog/queue", `{"repoId":"<repo acme/web>","title":"Mine"}`, []string{"reader", "vera@acme"}, "run.queued "},
		{"POST /api/v1/runs/<no id>/cancel", "", []string{"reader", "vera@acme"}, "run.cancelled <no id>"},
		{"POST /api/v1/farm/jobs", `{"name":"unit tests","steps":[{"run":"true"}]}`, []string{"reader", "vera@acme"},
			"job.submitted  unit tests"},
		{"POST /api/v1/farm/jobs", `{"action":"cancel","jobId":"<no id>"}`, []string{"reader", "leo@acme"}, "job.cancelled <no id>"},
		{"POST /api/v1/inbox/<no id>/answer", `{"action":"confirm"}`, []string{"reader"}, "decision.answered <no id>"},
	} {
		for _, as := range c.as {
			if as == "then" {
				continue
			}
			before := v.denials(t)
			a := v.ask(t, as, names.fill(c.line), names.fill(c.body))
			require.Contains(t, []int{403, 409}, a.status, "%s %s: %s", as, c.line, a.statusAndCode())
			require.Equal(t, append(before, names.fill(c.want)), v.denials(t), "%s %s", as, c.line)
		}
	}
	text, err := os.ReadFile("../testdata/access.txt")
	require.NoError(t, err)
	for i, r := range readAccessFile(t, string(text)) {
		as := []string{"farmer", "ci-bot"}[i%2] // in turn, because few denials of each are recorded
		if !strings.HasPrefix(r.want[as], "403 ") {
			as = "reader"
		}
		if !strings.HasPrefix(r.want[as], "403 ") {
			continue // it is a runner's, or refuses no token
		}
		method, path, _ := strings.Cut(r.line, " ")
		path, _, _ = strings.Cut(path, "?")
		before := v.denials(t)
		v.ask(t, as, names.fill(r.line), names.fill(r.body)).is(t, r.want[as])
		recorded := len(v.denials(t)) > len(before)
		require.Equal(t, method != "GET" || strings.HasSuffix(path, "/export"), recorded, "%s %s: the denial is recorded", as, r.line)
	}
}

// denials returns the denials recorded in workspace acme: action, target id and target name.
func (v *service) denials(t *testing.T) []string {
	t.Helper()
	return queryRows[string](t, v, `
		select concat(data ->> 'action', ' ', data ->> 'targetId', ' ' || (data ->> 'targetName'))
		from events where workspace_id = $1 and kind = 'command.denied' order by seq`, v.fixture.id(t, "workspace acme"))
}
