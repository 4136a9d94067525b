package fold

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/events"
)

// CompareWithin is Compare with a limit on the rows in memory.
var CompareWithin = compareWithin

// AllKeys is the part that has all keys.
var AllKeys = Part{}

// ComparedIn compares within a transaction, so that it sees uncommitted changes.
func ComparedIn(t *testing.T, tx pgx.Tx, views []View, workspace events.ID) []Difference {
	t.Helper()
	c := &comparer{db: tx, targets: views, workspace: workspace, limit: maxComparedRows, pause: NoPause}
	c.inSnapshot = func(_ context.Context, do func(pgx.Tx) error) error { return do(tx) }
	found, err := c.run(t.Context())
	require.NoError(t, err)
	return found.Differences
}
