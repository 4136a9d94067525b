package dashboard

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
	"svc/ui/page"
)

// The state of each step follows from what the service tells, and from nothing that the page has stored.
func TestFirstSteps(t *testing.T) {
	t.Parallel()
	const connected = `{"items":[{"id":"7","name":"acme/web","status":"active","active":1,"terminal":0}]}`
	const ended = `{"items":[{"id":"7","name":"acme/web","status":"active","active":0,"terminal":3}]}`
	const past, failed = `{"items":[{"status":"disconnected"}]}`, `{"items":[{"status":"failed"}]}`
	for name, c := range map[string]struct {
		answers map[string]string
		done    []bool // nil if no steps are shown
	}{
		"a new workspace":         {nil, []bool{false, false, false, false, false}},
		"a paused repository":     {map[string]string{"/repos": `{"items":[{"status":"paused"}]}`}, []bool{true, false, false, false, false}},
		"a repository of old":     {map[string]string{"/repos": past}, []bool{false, false, false, false, false}},
		"a run":                   {map[string]string{"/repos": connected}, []bool{true, false, false, true, false}},
		"a runner":                {map[string]string{"/farm/runners": `{"total":1}`}, []bool{false, true, false, false, false}},
		"a second member":         {map[string]string{"/members": `{"total":2}`}, []bool{false, false, true, false, false}},
		"an invitation":           {map[string]string{"/invitations": `{"total":1}`}, []bool{false, false, true, false, false}},
		"a run that failed":       {map[string]string{"/repos": ended, "/runs": failed}, []bool{true, false, false, true, false}},
		"a merged run":            {map[string]string{"/repos": ended, "/runs": `{"items":[{"status":"failed"},{"status":"merged"}]}`}, nil},
		"hundreds of runs of old": {map[string]string{"/repos": `{"items":[{"status":"active","terminal":101}]}`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d pageData
			d.Farm.On = true
			require.NoError(t, d.loadSteps(visit(t, client.YouRoleOwner, c.answers)))
			var done []bool
			for _, s := range d.steps {
				done = append(done, s.done)
			}
			require.Equal(t, c.done, done)
		})
	}
}

// A workspace that merged something lately is not asked for more than its dashboard.
func TestNoFirstStepsAfterAMerge(t *testing.T) {
	t.Parallel()
	d := pageData{Dashboard: client.Dashboard{Recent: []client.Run{{Status: client.RunStatusFailed}, {Status: client.RunStatusMerged}}}}
	require.NoError(t, d.loadSteps(&page.Visit{}), "nothing is requested")
	require.Empty(t, d.steps)
}

// Each step leads on for whoever may take it, and names who may for others.
func TestFirstStepsByRole(t *testing.T) {
	t.Parallel()
	links := []string{
		"/w/acme/settings/repositories/new", "/w/acme/farm/enroll", "/w/acme/members#invite-email", "/w/acme/backlog", "/w/acme/needs",
	}
	shown := func(role client.YouRole, approves, farm bool) string {
		v := visit(t, role, nil)
		v.Workspace.You.CanApproveLoops = approves
		var out bytes.Buffer
		require.NoError(t, firstSteps(steps(v, setUp{}, farm)).Render(t.Context(), &out))
		return out.String()
	}
	owner := shown(client.YouRoleOwner, true, true)
	for _, link := range links {
		require.Contains(t, owner, `href="`+link+`"`)
	}
	require.NotContains(t, owner, "Only ")
	viewer := shown(client.YouRoleViewer, false, true)
	require.NotContains(t, viewer, "<a ")
	for _, who := range []string{
		"Only an Owner or Maintainer can connect a repository.", "Only an Owner or Maintainer can add a runner.",
		"Only an Owner or Maintainer can invite people.", "Only an Owner or Maintainer can queue an issue.",
		"Only people who may approve loops can approve a merge.",
	} {
		require.Contains(t, viewer, who)
	}
	require.Contains(t, shown(client.YouRoleMember, false, true), `href="/w/acme/backlog"`, "the legacy role may queue")
	require.Contains(t, shown(client.YouRoleOwner, true, false), "An operator has to set up the build farm first.")
}

// visit returns a visit at a service that answers with these texts by path, and with nothing to other requests.
func visit(t *testing.T, role client.YouRole, answers map[string]string) *page.Visit {
	t.Helper()
	rest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.URL.Path[len("/api/v1"):]]
		if !ok {
			text = `{"items":[],"total":0}`
		}
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(rest.Close)
	r := httptest.NewRequest(http.MethodGet, "/w/acme/dashboard", nil)
	r.SetPathValue("workspace", "acme")
	v := &page.Visit{Request: r, API: client.NewService(rest.URL).NewSession(r, "acme"), Now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	v.Workspace.Slug, v.Workspace.You.Role = "acme", role
	return v
}
