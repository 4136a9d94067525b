package runs

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

// shown is the page of a run as somebody sees it who asks for an address.
func shown(t *testing.T, address string, o one) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, address, nil)
	r.SetPathValue("workspace", "acme")
	v := &page.Visit{Request: r, Now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	v.Workspace.Slug, v.Workspace.You.Role = "acme", client.YouRoleViewer
	var out bytes.Buffer
	require.NoError(t, runView(v, o).Render(t.Context(), &out))
	return out.String()
}

// What came before the events that are shown is a link away, also without scripts.
func TestHistoryLeadsOn(t *testing.T) {
	t.Parallel()
	first := shown(t, "/w/acme/runs/7", one{Newest: true, Older: "-51"})
	require.Contains(t, first, `href="/w/acme/runs/7?cursor=-51#happened"`)
	require.NotContains(t, first, "Newest events")
	last := shown(t, "/w/acme/runs/7?cursor=-51", one{})
	require.Contains(t, last, `href="/w/acme/runs/7#happened"`)
	require.NotContains(t, last, "Older events")
	require.NotContains(t, shown(t, "/w/acme/runs/7", one{Newest: true}), "card-foot")
}

// A job that the farm knows leads to its page, and shows the end of its log there.
func TestJobsLeadToTheFarm(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 11, 58, 0, 0, time.UTC)
	var o one
	o.Run.Id = "7"
	o.Resources.Jobs = []client.RunJob{
		{Id: "j1", Name: "old", Status: client.RunJobStatusSucceeded, ComputeMs: 90_000},
		{Id: "j2", Name: "build and test", Status: client.RunJobStatusRequested, Farm: &client.JobAtFarm{
			State: "running", Attempt: 2, StartedAt: &at, Runner: &client.JobRunner{Name: "builder-1"}, LogBytes: 100_000,
		}},
		{Id: "j3", Name: "next", Status: client.RunJobStatusRequested, Farm: &client.JobAtFarm{State: "queued"}},
	}
	page := shown(t, "/w/acme/runs/7", o)
	require.NotContains(t, page, "/w/acme/farm/jobs/j1")
	require.Contains(t, page, `href="/w/acme/farm/jobs/j2?run=7"`)
	require.Contains(t, page, "running on builder-1")
	require.Contains(t, page, ">2 min</time>")
	require.Contains(t, page, `hx-get="/w/acme/farm/jobs/j2/lines?attempt=2&amp;cut=on&amp;from=93856"`)
	require.Contains(t, page, `href="/w/acme/farm/jobs/j3?run=7"`)
	require.NotContains(t, shown(t, "/w/acme/runs/7", one{}), "Build log")
}
