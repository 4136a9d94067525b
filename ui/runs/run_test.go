package runs

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
	"svc/ui/page"
)

// renderRun renders the page of a run at an address for a Viewer.
func renderRun(t *testing.T, address string, d runData) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, address, nil)
	r.SetPathValue("workspace", "acme")
	v := &page.Visit{Request: r, Now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	v.Workspace.Slug, v.Workspace.You.Role = "acme", client.YouRoleViewer
	var out bytes.Buffer
	require.NoError(t, runView(v, d).Render(t.Context(), &out))
	return out.String()
}

// Pages of the history are links, also without scripts.
func TestHistoryIsPaged(t *testing.T) {
	t.Parallel()
	first := renderRun(t, "/w/acme/runs/7", runData{IsNewest: true, OlderCursor: "-51"})
	require.Contains(t, first, `href="/w/acme/runs/7?cursor=-51#happened"`)
	require.NotContains(t, first, "Newest events")
	last := renderRun(t, "/w/acme/runs/7?cursor=-51", runData{})
	require.Contains(t, last, `href="/w/acme/runs/7#happened"`)
	require.NotContains(t, last, "Older events")
	require.NotContains(t, renderRun(t, "/w/acme/runs/7", runData{IsNewest: true}), "card-foot")
}

// A job on the farm links to its page, and the end of its log is shown.
func TestJobsLinkToTheFarm(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 11, 58, 0, 0, time.UTC)
	var d runData
	d.Run.Id = "7"
	d.Resources.Jobs = []client.RunJob{
		{Id: "j1", Name: "old", Status: client.RunJobStatusSucceeded, ComputeMs: 90_000},
		{Id: "j2", Name: "build and test", Status: client.RunJobStatusRequested, Farm: &client.JobAtFarm{
			State: "running", Attempt: 2, StartedAt: &at, Runner: &client.JobRunner{Name: "builder-1"}, Log: client.JobLog{Bytes: 100_000},
		}},
		{Id: "j3", Name: "next", Status: client.RunJobStatusRequested, Farm: &client.JobAtFarm{State: "queued"}},
	}
	page := renderRun(t, "/w/acme/runs/7", d)
	require.NotContains(t, page, "/w/acme/farm/jobs/j1")
	require.Contains(t, page, `href="/w/acme/farm/jobs/j2?run=7"`)
	require.Contains(t, page, "running on builder-1")
	require.Contains(t, page, ">2 min</time>")
	require.Contains(t, page, `hx-get="/w/acme/farm/jobs/j2/lines?attempt=2&amp;cut=on&amp;from=93856"`)
	require.Contains(t, page, `href="/w/acme/farm/jobs/j3?run=7"`)
	require.NotContains(t, renderRun(t, "/w/acme/runs/7", runData{}), "Build log")
}

// The card of a log says as the job's page does that its end is missing.
func TestCutLogSaysSo(t *testing.T) {
	t.Parallel()
	const size = `>lost, <span id="log-size">2.0 KiB</span>` // kept up to date by the lines of a log that grows
	for _, c := range []struct {
		log   client.JobLog
		state string
		cut   bool
	}{
		{client.JobLog{Bytes: 2048}, size + "<", false},
		{client.JobLog{Bytes: 2048, Integrity: "verified"}, size + "<", false},
		{client.JobLog{Bytes: 2048, Integrity: "incomplete"}, size + ", incomplete<", false},
		{client.JobLog{Bytes: 2048, Truncated: true}, size + ", cut at its limit<", true},
		{client.JobLog{Bytes: 2048, Truncated: true, Integrity: "incomplete"}, size + ", incomplete (cut at its limit)<", true},
	} {
		var d runData
		d.Resources.Jobs = []client.RunJob{{Id: "j1", Farm: &client.JobAtFarm{State: "lost", Attempt: 1, Log: c.log}}}
		page := renderRun(t, "/w/acme/runs/7", d)
		require.Contains(t, page, c.state)
		require.Equal(t, c.cut, strings.Contains(page, "What the job wrote after that was not stored."), c.state)
	}
}
