package auditlog_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections"
	"svc/projections/auditlog"
	"svc/test/world"
)

// Lists of the audit log keep only what they show of large events, and pages of an export have only a few
// large events, whether the records are indexed or not.
func TestAuditListsKeepSummariesOfLargeEvents(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	const count, limit, size = 30, 20, 240 << 10
	workspace := world.NewID()
	spec := events.JobSpec{Name: "large", Steps: []events.JobStep{{Run: strings.Repeat("x", size)}}}
	for range count {
		w.Record(t, world.System, workspace, world.NewID(), events.JobSubmitted{Spec: spec, ExpiresAt: w.Clock.Now().Add(time.Hour)})
	}
	audit := auditlog.Audit{DB: w.DB}
	check := func(t *testing.T) {
		for _, f := range []auditlog.AuditFilter{{}, {Action: "job.*"}, {Target: "large"}, {Q: "LARGE"}} {
			page, err := audit.Page(t.Context(), auditlog.AuditQuery{Workspace: workspace, Limit: limit, AuditFilter: f})
			require.NoError(t, err)
			later, err := audit.PageAfter(t.Context(), workspace, f, 0, limit)
			require.NoError(t, err)
			require.Len(t, page.Records, limit)
			require.Len(t, later.Records, limit)
			for _, r := range append(page.Records, later.Records...) {
				require.Empty(t, r.Data)
				_, whole := r.Event.(events.JobSubmitted)
				require.False(t, whole)
				require.Equal(t, []string{"job.submitted", "large"}, []string{r.Action, r.Target.Name})
				require.Equal(t, events.Change{Field: "name", To: "large"}, r.Changes[1])
			}
			var seq int64
			for pages := 1; ; pages++ {
				rows, err := audit.RowsAfter(t.Context(), workspace, f, seq, count, 500)
				require.NoError(t, err)
				if len(rows) == 0 {
					require.Greater(t, pages, count*size/(2<<20))
					break
				}
				bytes := 0
				for i := range rows {
					seq++
					r := rows[i].Record()
					require.Equal(t, seq, r.Seq)
					require.Equal(t, "large", r.Target.Name)
					require.Greater(t, len(r.Data), size)
					bytes += rows[i].Bytes()
				}
				require.Less(t, bytes, 1<<20+2*size)
			}
			require.Equal(t, int64(count), seq)
		}
	}
	t.Run("the tail", check)
	world.Rebuild(t, w.DB, world.View(t, "audit"))
	_, err := w.DB.Exec(t.Context(), `
		insert into checkpoints (workspace_id, view, seq) values ($1, 'audit', $2)
		on conflict (workspace_id, view) do update set seq = excluded.seq`, workspace, count)
	require.NoError(t, err)
	t.Run("the index", check)

	one := w.Record(t, world.System, workspace, world.NewID(), events.JobSubmitted{Spec: spec})[0]
	found, ok, err := audit.Get(t.Context(), workspace, one.ID)
	require.NoError(t, err)
	require.True(t, ok)
	require.Greater(t, len(found.Data), size, "one record is shown as it is stored")

	steps, err := projections.History{DB: w.DB}.Steps(t.Context(), workspace, 0, count)
	require.NoError(t, err)
	require.Len(t, steps, count)
	for _, r := range steps {
		require.Empty(t, r.Data)
		require.Equal(t, "job.submitted", r.Action)
	}
}
