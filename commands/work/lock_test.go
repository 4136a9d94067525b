package work

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/events"
)

// A command that had to wait for a fold which it only inspects does not keep it while it waits for
// others: two such commands would wait for each other.
func TestInspectedFoldIsUnlockedAfterWait(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	h, workspace := New(newLog(t), func() time.Time { return now }, unrecorded), events.NewID(now)
	o := Meta{Workspace: workspace, Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "system"}}}
	create(t, h, o)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // fail instead of waiting for ever
	t.Cleanup(cancel)
	busy := h.folds.get(foldKey{workspace, workspace, reflect.TypeFor[aggregates.Workspace]()})
	require.NoError(t, busy.lock(ctx))
	waited, unlocked := false, false
	_, err := h.Execute(ctx, o, "inspect", func(w *Unit) error {
		if err := Serialize[string](w, events.NewID(now)); err != nil {
			return err
		}
		err := Inspect(w, workspace, func(*aggregates.Workspace) error { return nil })
		if again, ok := errors.AsType[*restart](err); ok && again.lockedBy == busy {
			waited = true
			busy.unlock()
		} else if err == nil && busy.tryLock() {
			unlocked = true
			busy.unlock()
		}
		return err
	})
	require.NoError(t, err)
	require.True(t, waited)
	require.True(t, unlocked)
}
