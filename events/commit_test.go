package events_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// A longStream is a stream of so many records, which can be read up to one of them.
type longStream struct{ records, readable int }

var errUnreadable = errors.New("unreadable")

func (s longStream) Load(_ context.Context, _, _ events.ID, version int) (list []events.Record, err error) {
	for version < s.records && len(list) < events.LoadLimit {
		if version++; version > s.readable {
			return nil, errUnreadable
		}
		list = append(list, events.Record{Version: version})
	}
	return list, nil
}

func (s longStream) First(context.Context, events.ID, events.ID) ([]events.Record, error) {
	return nil, nil
}

func TestReadStream(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stream longStream
		want   int
		err    error
	}{
		{longStream{0, 0}, 0, nil},
		{longStream{1, 1}, 1, nil},
		{longStream{events.LoadLimit, events.LoadLimit}, events.LoadLimit, nil},
		{longStream{2*events.LoadLimit + 1, 2*events.LoadLimit + 1}, 2*events.LoadLimit + 1, nil},
		{longStream{2 * events.LoadLimit, events.LoadLimit}, events.LoadLimit, errUnreadable},
	} {
		read := 0
		var last error
		for r, err := range events.ReadStream(t.Context(), c.stream, events.ID{}, events.ID{}) {
			require.NoError(t, last, "an error is the last")
			if last = err; err == nil {
				read++
				require.Equal(t, read, r.Version)
			}
		}
		require.Equal(t, c.want, read)
		require.ErrorIs(t, last, c.err)
	}
}
