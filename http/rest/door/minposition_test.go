package door

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/http/rest/schema"
	"svc/projections/fold"
	"svc/test/world"
)

// A request that requires no position is answered at once if its view is far behind.
func TestReadWithoutPositionIsNotRepeated(t *testing.T) {
	t.Parallel()
	d := New(Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	reads := 0
	_, err := readReached(as(t, someone(world.NewID())), d, func() (*schema.Position, error) {
		reads++
		return nil, fold.ErrNotCaughtUp
	})
	require.ErrorIs(t, err, fold.ErrNotCaughtUp)
	require.Equal(t, 1, reads)
}
