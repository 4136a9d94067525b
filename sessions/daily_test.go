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

func TestDailyDeletesOldCounts(t *testing.T) {
	t.Parallel()
	d := Daily{DB: pgtest.New(t)}
	first := noon.Truncate(24 * time.Hour)
	day := func(n int) time.Time { return first.AddDate(0, 0, n) }
	zoe := events.NewID(noon)
	take := func(who events.ID, n int) {
		ok, err := d.Take(testContext(t), who, "letters", day(n), 1)
		require.NoError(t, err)
		require.True(t, ok)
	}
	rows := func(n int) (count int) {
		require.NoError(t, d.DB.QueryRow(testContext(t), `select count(*) from daily_counts where day = $1`, day(n)).Scan(&count))
		return count
	}

	take(zoe, 0)
	for range dailyPruned + 2 {
		take(events.NewID(noon), 0)
	}
	take(events.NewID(noon), 1)
	take(events.NewID(noon), dailyKept)
	require.Equal(t, dailyPruned+3, rows(0), "not yet old")

	take(events.NewID(noon), dailyKept+1)
	require.Equal(t, 3, rows(0), "no more at once than the bound")
	take(zoe, dailyKept+1)
	require.Zero(t, rows(0), "also if the subject's own count is old")
	require.Equal(t, 1, rows(1), "a day that still matters")
	require.Equal(t, 1, rows(dailyKept))
	require.Equal(t, 2, rows(dailyKept+1))
}

// A row that another transaction holds delays nobody.
func TestDailySkipsLockedCounts(t *testing.T) {
	t.Parallel()
	d := Daily{DB: pgtest.New(t)}
	day := noon.Truncate(24 * time.Hour)
	_, err := d.Take(testContext(t), events.NewID(noon), "letters", day, 1)
	require.NoError(t, err)
	tx, err := d.DB.Begin(testContext(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(testContext(t))) }()
	_, err = tx.Exec(testContext(t), `select from daily_counts for update`)
	require.NoError(t, err)

	ok, err := d.Take(testContext(t), events.NewID(noon), "letters", day.AddDate(0, 0, 7), 1)
	require.NoError(t, err)
	require.True(t, ok)
}
