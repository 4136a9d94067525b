package store_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/fault"
	"svc/test/pgtest"
)

func TestPermitRefusesWritesAndSnapshots(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	refused := false
	s.Permit(func(context.Context) error {
		if refused {
			return fault.ErrUnavailable
		}
		return nil
	})
	s.EnableSnapshots(ringOf(t, "right-key-right-key-right-key-right-key"), slog.New(slog.DiscardHandler))
	workspace, stream := newID(), newID()
	_, err := s.Append(t.Context(), commit(workspace, stream, 0, "permitted"))
	require.NoError(t, err)
	shot := events.Snapshot{Form: 1, Version: 1, Seq: 1, State: []byte(`{}`)}
	require.NoError(t, s.SaveSnapshot(t.Context(), workspace, stream, shot))

	refused = true
	_, err = s.Append(t.Context(), commit(workspace, stream, 1, "refused"))
	require.ErrorIs(t, err, fault.ErrUnavailable)
	_, err = s.Exclusively(t.Context(), workspace, func(events.Streams) (*events.Commit, error) {
		t.Error("asked to decide")
		return nil, nil
	})
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.ErrorIs(t, s.SaveSnapshot(t.Context(), workspace, stream, shot), fault.ErrUnavailable)
	_, err = s.Snapshot(t.Context(), workspace, stream, 1)
	require.ErrorIs(t, err, fault.ErrUnavailable)
	records, err := s.Load(t.Context(), workspace, stream, 0)
	require.NoError(t, err, "reads go on")
	require.Len(t, records, 1)

	refused = false
	found, err := s.Snapshot(t.Context(), workspace, stream, 1)
	require.NoError(t, err)
	require.NotNil(t, found)
}
