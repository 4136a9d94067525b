package store_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"svc/events/store"
	"svc/test/pgtest"
)

// Times that no process writes are read as the nearest one that Go and JSON can hold, in both formats of the
// protocol, as values, pointers and arrays.
func TestTimesAreBounded(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.Empty(t), store.BoundTimes)
	first, last := time.Time{}, time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"infinity": last, "-infinity": first, "294276-12-31 23:59:59+00": last, "9999-12-31 00:00:00.000001+00": last,
		"4713-01-01 00:00:00+00 BC": first, "0001-12-31 23:59:59+00 BC": first, "0001-01-01 00:00:00+00": first,
		"2026-11-20 12:00:00.000001+00": epoch.Add(time.Microsecond), "9999-12-30 23:59:59+00": last.Add(-time.Second),
	} {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
			var one time.Time
			var two, none *time.Time
			var list []time.Time
			var exact pgtype.Timestamptz
			require.NoError(t, db.QueryRow(t.Context(), `
				select t, t, null::timestamptz, array[t, t], t from (select $1::text::timestamptz) as t (t)`, mode, text).
				Scan(&one, &two, &none, &list, &exact), text)
			require.Nil(t, none)
			for _, got := range append(list, one, *two) {
				require.True(t, want.Equal(got), "%s: %s", text, got)
				_, err := json.Marshal(got.In(time.FixedZone("far", 14*3600)))
				require.NoError(t, err)
			}
			require.Equal(t, text == "infinity", exact.InfinityModifier == pgtype.Infinity)
			require.Equal(t, text == "-infinity", exact.InfinityModifier == pgtype.NegativeInfinity)

			var same bool
			require.NoError(t, db.QueryRow(t.Context(), `select $1::timestamptz = $2::text::timestamptz`, mode, epoch, epoch.Format(time.RFC3339)).
				Scan(&same))
			require.True(t, same, "what is written is not changed")
		}
	}
}
