package sessions

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/test/pgtest"
)

// Sessions last seven days, to the second, by the process's own clock. In the synctest
// bubble a week passes at once.
func TestSevenDaysGoBy(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	synctest.Test(t, func(t *testing.T) {
		db, err := pgxpool.New(t.Context(), address) // a separate pool: a connection belongs to one bubble
		require.NoError(t, err)
		defer db.Close()
		user, workspace := register(t, db, "zoe", "zoe@acme.example")
		s := &Store{DB: db, Secret: []byte("a secret of thirty-two characters"), Now: time.Now, Log: slog.Default()}
		begin := func() (cookie string) {
			session, err := s.Start(t.Context(), user, workspace, "192.0.2.7", "Firefox")
			require.NoError(t, err)
			return s.Cookie(session).Value
		}
		find := func(cookie string) (renewed, ok bool) {
			_, renewed, ok, err := s.Find(t.Context(), cookie)
			require.NoError(t, err)
			return renewed, ok
		}

		left, late, used := begin(), begin(), begin()
		time.Sleep(day)
		renewed, ok := find(used)
		require.True(t, ok && !renewed, "its first day is not over yet")
		time.Sleep(time.Second)
		renewed, ok = find(used)
		require.True(t, ok && renewed, "it has seven days again")

		time.Sleep(6*day - 2*time.Second)
		renewed, ok = find(late)
		require.True(t, ok && renewed, "the last second of its seven days")
		time.Sleep(time.Second)
		_, ok = find(left)
		require.False(t, ok, "its seven days are over")

		time.Sleep(day)
		_, ok = find(used)
		require.True(t, ok)
		time.Sleep(7*day - time.Second)
		_, ok = find(used)
		require.True(t, ok)
		time.Sleep(7 * day)
		_, ok = find(used)
		require.False(t, ok)
	})
}
