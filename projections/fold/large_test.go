//go:build !race

package fold_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/projections"
	"svc/projections/fold"
	"svc/test/world"
)

const largeKiB = 160 // of a specification

// submitLarge records n jobs with large specifications in a log.
func submitLarge(t *testing.T, w *world.World, workspace events.ID, n int) {
	t.Helper()
	spec := events.JobSpec{Name: "large", Steps: []events.JobStep{{Name: "large", Run: strings.Repeat("echo it; ", largeKiB<<10/9)}}}
	for range n {
		w.Record(t, world.System, workspace, world.NewID(), events.JobSubmitted{Spec: spec, ExpiresAt: w.Clock.Now().Add(time.Hour)})
	}
}

// Views are followed, rebuilt and compared correctly if a page holds only a few events.
func TestViewsFoldLargeEvents(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	const count = 150 // more than a block of the audit index
	large, small := world.NewID(), world.NewID()
	submitLarge(t, w, large, count)
	w.QueueRun(t, small)
	w.CaughtUp(t)
	page, err := store.Page{Logs: store.After(large, 0), Limit: count, Decode: store.Lenient}.Read(t.Context(), w.DB)
	require.NoError(t, err)
	require.Less(t, len(page), count/5, "events of a page")

	for _, name := range []string{"audit", "job_specs", "jobs", "runs"} {
		live := world.Dump(t, w.DB, name)
		world.Rebuild(t, w.DB, world.View(t, name))
		require.Equal(t, live, world.Dump(t, w.DB, name), name)
	}
	for _, limit := range []int{20_000, 2000} {
		c, err := fold.CompareWithin(t.Context(), w.DB, projections.All(), large, limit, fold.NoPause)
		require.NoError(t, err)
		require.Empty(t, c.Differences)
		require.GreaterOrEqual(t, c.Rows, 2*count)
	}
}

// In the size of a comparison, a large row counts as several.
func TestComparisonSizeCountsLargeRows(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace := world.NewID()
	submitLarge(t, w, workspace, 3)
	page, err := store.Page{Logs: store.After(workspace, 0), Limit: 3, Decode: store.Lenient}.Read(t.Context(), w.DB)
	require.NoError(t, err)
	for name, want := range map[string]int{"jobs": 3, "job_specs": 3 * largeKiB / 4} {
		c := world.View(t, name).Comparison(workspace, fold.AllKeys)
		for _, r := range page {
			require.NoError(t, c.Fold(r))
		}
		size, largest := c.Size()
		require.InDelta(t, want, size, 6, name)
		require.InDelta(t, want/3, largest, 2, name)
	}
}

// insertEvents inserts the events of a log as somebody does who can write to the database.
func insertEvents(t *testing.T, w *world.World, n int, kind, data string) (workspace events.ID) {
	t.Helper()
	workspace = world.NewID()
	_, err := w.DB.Exec(t.Context(), `insert into logs values ($1, $2, now())`, workspace, n)
	require.NoError(t, err)
	_, err = w.DB.Exec(t.Context(), `insert into events (workspace_id, seq, id, stream, version, kind, schema, at, meta, data)
		select $1, i, gen_random_uuid(), gen_random_uuid(), 1, $3, 1, now(), '{}', $4 from generate_series(1, $2::int) i`,
		workspace, n, kind, data)
	require.NoError(t, err)
	return workspace
}

// One row that does not fit in memory, in however many parts the others are compared, makes no comparison endless.
func TestViewWithHugeRowIsSkipped(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace := insertEvents(t, w, 1, "job.submitted", `{"spec":{"steps":[{"run":"`+strings.Repeat("x", 1<<20)+`"}]}}`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := fold.CompareWithin(ctx, w.DB, projections.All(), workspace, 100, fold.NoPause)
	require.NoError(t, err)
	require.Equal(t, []string{"job_specs: a row is larger than 200 KiB"}, c.Skipped)
	require.NotEmpty(t, c.Differences, "the other views are compared")
}

// A log with so many rows that comparing them would take weeks is not compared.
func TestLogOfTooManyRowsIsNotCompared(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace := insertEvents(t, w, 1000, "job.submitted", `{}`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := fold.CompareWithin(ctx, w.DB, projections.All(), workspace, 2, fold.NoPause)
	require.ErrorContains(t, err, "too many rows")
}
