package store_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/fault"
	"svc/test/pgtest"
)

// A stream with an event that this service neither appended nor signed is not loaded, also while its log is locked.
func TestForeignEventsAreNotLoaded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql   string
		asked []int64 // events whose MAC cannot be checked
	}{
		"as appended":          {`select $1::uuid`, nil},
		"appended without MAC": {`update events set mac = '' where workspace_id = $1 and seq > 1`, []int64{2, 3}},
		"under another key":    {`update events set mac = sha256(mac) || substr(mac, 1, 8) where workspace_id = $1 and seq = 3`, []int64{3}},
		"changed":              {`update events set data = '{"facts":[]}' where workspace_id = $1 and seq = 2`, []int64{2}},
		"of another actor":     {`update events set meta = '{}' where workspace_id = $1 and seq = 2`, []int64{2}},
		"of another kind":      {`update events set kind = 'run.merged' where workspace_id = $1 and seq = 2`, []int64{2}},
		"damaged":              {`update events set data = '7' where workspace_id = $1 and seq = 2`, []int64{2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, workspace, stream := pgtest.New(t), newID(), newID()
			s, lines, signed := open(t, db), &bytes.Buffer{}, error(nil)
			var asked []int64
			s.Authenticate(ringOf(t, "k"))
			s.CheckLoads(ringOf(t, "k"), func(_ context.Context, list []events.Record) error {
				for _, r := range list {
					asked = append(asked, r.Seq)
				}
				return signed
			}, slog.New(slog.NewTextHandler(lines, nil)))
			first := commit(workspace, stream, 0, "a")
			first.Writes[0].Events = markedEvents("a", 3)
			append1(t, s, first)
			_, err := db.Exec(t.Context(), c.sql, workspace)
			require.NoError(t, err)
			load := func(from events.Streams) ([]events.Record, error) {
				asked = nil
				list, err := from.Load(t.Context(), workspace, stream, 0)
				require.Equal(t, c.asked, asked)
				return list, err
			}
			list, err := load(s)
			if name != "damaged" && name != "of another kind" {
				require.NoError(t, err)
				require.Equal(t, []int64{1, 2, 3}, seqs(list))
			}
			require.Empty(t, lines.String(), "they are signed")
			if c.asked == nil {
				return
			}
			signed = errors.New("the database does not answer")
			_, err = load(s)
			require.ErrorIs(t, err, signed)
			require.Empty(t, lines.String())
			signed = store.ErrForeign
			_, err = load(s)
			require.ErrorIs(t, err, fault.ErrUnavailable)
			require.Contains(t, lines.String(), `level=ERROR msg="event was not appended by this service: its stream is not used" workspace=`+
				workspace.String()+" stream="+stream.String())
			_, err = s.Exclusively(t.Context(), workspace, func(locked events.Streams) (*events.Commit, error) {
				_, err := load(locked)
				return nil, err
			})
			require.ErrorIs(t, err, fault.ErrUnavailable)
		})
	}
}

func seqs(list []events.Record) (numbers []int64) {
	for _, r := range list {
		numbers = append(numbers, r.Seq)
	}
	return numbers
}
