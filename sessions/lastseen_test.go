package sessions

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"svc/events"
	"svc/test/leak"
	"svc/test/pgtest"
)

// written runs l until everything recorded so far is written, and then stops it.
func written(t *testing.T, l *LastSeen) {
	ctx, stop := context.WithCancel(testContext(t))
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx)
	}()
	stop()
	select {
	case <-done:
	case <-time.After(time.Minute):
		require.Fail(t, "it does not stop")
	}
}

// seen returns when somebody was last seen, zero if never.
func seen(t *testing.T, l *LastSeen, table, column string, workspace events.ID) (at time.Time) {
	err := l.db.QueryRow(testContext(t), `
		select coalesce(max(`+column+`), '0001-01-01 00:00:00+00') from `+table+` where workspace_id = $1`, workspace).Scan(&at)
	require.NoError(t, err)
	return at.UTC()
}

func memberSeen(t *testing.T, l *LastSeen, workspace events.ID) time.Time {
	return seen(t, l, "member_activity", "last_active_at", workspace)
}

func accountSeen(t *testing.T, l *LastSeen, workspace events.ID) time.Time {
	return seen(t, l, "service_account_usage", "last_used_at", workspace)
}

func TestLastSeenIsWrittenOnceAMinute(t *testing.T) {
	t.Parallel()
	l := NewLastSeen(pgtest.New(t), slog.New(slog.DiscardHandler))
	workspace, user := events.NewID(noon), events.NewID(noon)
	note := func(after time.Duration) time.Time {
		l.Member(workspace, user, noon.Add(after))
		written(t, l)
		return memberSeen(t, l, workspace)
	}
	require.Equal(t, noon, note(0))
	require.Equal(t, noon, note(time.Second))
	require.Equal(t, noon, note(time.Minute-time.Millisecond))
	require.Equal(t, noon.Add(time.Minute), note(time.Minute))
	require.Equal(t, noon.Add(time.Minute), note(90*time.Second))
	require.Equal(t, noon.Add(time.Hour), note(time.Hour))
	require.Equal(t, noon.Add(time.Hour), note(time.Minute), "time does not run backwards")
}

func TestLastSeenNotesEverybodyByThemselves(t *testing.T) {
	t.Parallel()
	l := NewLastSeen(pgtest.New(t), slog.New(slog.DiscardHandler))
	acme, globex, zoe, yan, bot := events.NewID(noon), events.NewID(noon), events.NewID(noon), events.NewID(noon), events.NewID(noon)
	l.Member(acme, zoe, noon)
	l.Member(acme, yan, noon.Add(time.Second))
	l.Member(globex, zoe, noon.Add(2*time.Second))
	l.ServiceAccount(acme, bot, noon.Add(3*time.Second))
	l.ServiceAccount(acme, bot, noon.Add(4*time.Second))
	written(t, l)
	require.Equal(t, noon.Add(time.Second), memberSeen(t, l, acme))
	require.Equal(t, noon.Add(2*time.Second), memberSeen(t, l, globex))
	require.Equal(t, noon.Add(3*time.Second), accountSeen(t, l, acme))
	require.Zero(t, accountSeen(t, l, globex))

	l.ServiceAccount(acme, bot, noon.Add(time.Hour))
	written(t, l)
	require.Equal(t, noon.Add(time.Hour), accountSeen(t, l, acme))
}

// Each replica records for itself; a later time that another one wrote stays.
func TestLastSeenNeverGoesBack(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	here, there := NewLastSeen(db, slog.New(slog.DiscardHandler)), NewLastSeen(db, slog.New(slog.DiscardHandler))
	acme, zoe, bot := events.NewID(noon), events.NewID(noon), events.NewID(noon)
	for _, note := range []struct {
		by *LastSeen
		at time.Time
	}{{here, noon.Add(time.Hour)}, {there, noon}} {
		note.by.Member(acme, zoe, note.at)
		note.by.ServiceAccount(acme, bot, note.at)
		written(t, note.by)
	}
	require.Equal(t, noon.Add(time.Hour), memberSeen(t, here, acme))
	require.Equal(t, noon.Add(time.Hour), accountSeen(t, here, acme))
}

// Requests never block: a use that does not fit in the queue is recorded by a later
// request.
func TestLastSeenDoesNotWait(t *testing.T) {
	t.Parallel()
	l := NewLastSeen(pgtest.New(t), slog.New(slog.DiscardHandler))
	crowd, late := events.NewID(noon), events.NewID(noon)
	for range queueSize {
		l.Member(crowd, events.NewID(noon), noon)
	}
	someone := events.NewID(noon)
	l.Member(late, someone, noon) // nothing reads the queue
	l.uses = make(chan use, queueSize)
	l.Member(late, someone, noon.Add(time.Second))
	written(t, l)
	require.Equal(t, noon.Add(time.Second), memberSeen(t, l, late))
}

func TestLastSeenIsWrittenBehindTheRequest(t *testing.T) {
	t.Parallel()
	l := NewLastSeen(pgtest.New(t), slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(testContext(t))
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx)
	}()
	acme, zoe := events.NewID(noon), events.NewID(noon)
	l.Member(acme, zoe, noon)
	require.Eventually(t, func() bool { return memberSeen(t, l, acme).Equal(noon) }, time.Minute, 10*time.Millisecond)
	stop()
	<-done
}

// Not parallel: it counts goroutines.
func TestLastSeenDrainsWhenItStops(t *testing.T) {
	db := pgtest.New(t)
	require.NoError(t, db.Ping(testContext(t)))
	l := NewLastSeen(db, slog.New(slog.DiscardHandler))
	before := goleak.IgnoreCurrent()
	acme := events.NewID(noon)
	for range 20 {
		l.Member(acme, events.NewID(noon), noon)
	}
	written(t, l)
	var n int
	require.NoError(t, db.QueryRow(testContext(t), `select count(*) from member_activity`).Scan(&n))
	require.Equal(t, 20, n)
	leak.None(t, before)
}

func TestLastSeenThatCannotBeWrittenIsLogged(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Close()
	var log bytes.Buffer
	l := NewLastSeen(db, slog.New(slog.NewTextHandler(&log, nil)))
	acme, zoe := events.NewID(noon), events.NewID(noon)
	l.Member(acme, zoe, noon)
	written(t, l)
	require.Contains(t, log.String(), "level=WARN")
	require.Contains(t, log.String(), acme.String())
	require.Contains(t, log.String(), zoe.String())
}
