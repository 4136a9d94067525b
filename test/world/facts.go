package world

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/projections"
	"svc/projections/fold"
)

// QueueRun queues a run for an issue and returns the run's id.
func (w *World) QueueRun(t *testing.T, workspace events.ID) events.ID {
	t.Helper()
	run := NewID()
	_, err := w.Commands.QueueRun(t.Context(), commands.QueueRun{
		Meta: Meta(workspace, System), Run: run, Repo: events.Repo{ID: NewID(), Name: "acme/web"}, IssueNumber: 1, IssueTitle: "Count",
	})
	require.NoError(t, err)
	return run
}

// RecordRandomCosts records n random costs of a run, one command each, and returns their sum in cents.
// It calls answered after each command, and stops at the first error.
func RecordRandomCosts(t *testing.T, h *commands.Handler, workspace, run events.ID, n int, answered func()) (sum int64) {
	for range n {
		cents := rand.Int64N(1_000_000)
		_, err := h.RecordRun(t.Context(), commands.RecordRun{
			Meta: Meta(workspace, System), Run: run, Facts: []events.Event{Cost(cents)},
		})
		if !assert.NoError(t, err) {
			return sum
		}
		sum += cents
		answered()
	}
	return sum
}

// RequireRebuilt requires that rebuilding the views runs and audit changes no row.
func RequireRebuilt(t *testing.T, db *pgxpool.Pool) {
	t.Helper()
	for _, v := range []string{"runs", "audit"} {
		live := Dump(t, db, v)
		require.True(t, len(live) > 0 || v == "audit", "audit has no row until a block of events is full")
		Rebuild(t, db, View(t, v))
		require.Equal(t, live, Dump(t, db, v), v)
	}
}

// Record appends events to a stream at its current version.
func (w *World) Record(t *testing.T, by events.Actor, workspace, stream events.ID, list ...events.Event) []events.Record {
	t.Helper()
	return w.RecordAt(t, w.Clock.Now(), by, workspace, stream, list...)
}

// RecordAt is Record at a time.
func (w *World) RecordAt(t *testing.T, at time.Time, by events.Actor, workspace, stream events.ID, list ...events.Event) []events.Record {
	t.Helper()
	have, err := w.Log.Load(t.Context(), workspace, stream, 0)
	require.NoError(t, err)
	done, err := w.Log.Append(t.Context(), &events.Commit{
		Workspace: workspace, At: at, Envelope: events.Envelope{Actor: by, Origin: events.FromSystem},
		Writes: []events.Write{{Stream: stream, Version: len(have), Events: list}},
	})
	require.NoError(t, err)
	return done.Records
}

// RecordCosts records n costs of one cent for a run, which appends n events to its log.
func (w *World) RecordCosts(t *testing.T, workspace, run events.ID, n int) {
	t.Helper()
	for range n {
		_, err := w.Commands.RecordRun(context.WithoutCancel(t.Context()), commands.RecordRun{
			Meta: Meta(workspace, System), Run: run, Facts: []events.Event{Cost(1)},
		})
		require.NoError(t, err)
	}
}

// Compare compares all views with what the log of a workspace folds to. It requires that no view is skipped.
func Compare(t *testing.T, db *pgxpool.Pool, workspace events.ID) fold.CompareResult {
	t.Helper()
	c, err := fold.Compare(t.Context(), db, projections.All(), workspace, fold.NoPause)
	require.NoError(t, err)
	require.Empty(t, c.Skipped)
	return c
}
