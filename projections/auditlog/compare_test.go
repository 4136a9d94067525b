package auditlog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections/fold"
	"svc/test/pgtest"
)

// A comparison keeps the names of a page, however many targets the log has.
func TestAuditComparisonKeepsFewNames(t *testing.T) {
	t.Parallel()
	const page = 1000
	db := pgtest.New(t)
	workspace := events.NewID(time.Now())
	c := View.Comparison(workspace, fold.Part{}).(*auditComparison)
	for seq := int64(0); seq < 5*page; {
		var records []events.Record
		for range page {
			seq++
			records = append(records, events.Record{
				Workspace: workspace, Seq: seq, Stream: events.NewID(time.Now()),
				Event: events.RunQueued{Repo: events.Repo{Name: "acme/web"}, IssueNumber: int(seq)},
			})
		}
		require.NoError(t, c.Prepare(t.Context(), db, records))
		for _, r := range records {
			require.NoError(t, c.Fold(r))
		}
		require.InDelta(t, page, len(c.names), blockSize)
	}
}
