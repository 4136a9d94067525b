package fold

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/events"
)

// CompareWithin is Compare with a bound of the rows in memory.
var CompareWithin = compareWithin

// ComparedIn compares what a transaction sees.
func ComparedIn(t *testing.T, tx pgx.Tx, views []View, workspace events.ID) []Difference {
	t.Helper()
	c := &comparing{db: tx, of: views, workspace: workspace, limit: comparedRows, pause: NoPause}
	c.atOneMoment = func(_ context.Context, do func(pgx.Tx) error) error { return do(tx) }
	found, err := c.run(t.Context())
	require.NoError(t, err)
	return found.Differences
}
