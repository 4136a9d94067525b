package sessions

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/test/pgtest"
)

func TestDaily(t *testing.T) {
	t.Parallel()
	d := Daily{DB: pgtest.New(t)}
	today, tomorrow := noon.Truncate(24*time.Hour), noon.Add(24*time.Hour).Truncate(24*time.Hour)
	zoe, yan := events.NewID(noon), events.NewID(noon)
	take := func(who events.ID, what string, day time.Time) bool {
		ok, err := d.Take(testContext(t), who, what, day, 2)
		require.NoError(t, err)
		return ok
	}
	giveBack := func(day time.Time) { require.NoError(t, d.GiveBack(testContext(t), zoe, "letters", day)) }

	require.True(t, take(zoe, "letters", today))
	require.True(t, take(zoe, "letters", today))
	require.False(t, take(zoe, "letters", today))
	require.True(t, take(zoe, "parcels", today), "another thing")
	require.True(t, take(yan, "letters", today), "another person")
	giveBack(today)
	require.True(t, take(zoe, "letters", today))
	require.False(t, take(zoe, "letters", today))

	require.True(t, take(zoe, "letters", tomorrow))
	giveBack(today) // that day is over
	require.True(t, take(zoe, "letters", today), "by a clock that is behind")
	require.False(t, take(zoe, "letters", tomorrow))
	require.False(t, take(zoe, "letters", today))
	for range 3 {
		giveBack(tomorrow)
	}
	require.True(t, take(zoe, "letters", tomorrow))
	require.True(t, take(zoe, "letters", tomorrow))
	require.False(t, take(zoe, "letters", tomorrow), "no more is given back than was taken")

	var rows int
	require.NoError(t, d.DB.QueryRow(testContext(t), `select count(*) from daily_counts`).Scan(&rows))
	require.Equal(t, 3, rows, "one of each person and thing")
}
