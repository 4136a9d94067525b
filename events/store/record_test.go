package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"svc/events"
	"svc/test/pgtest"
)

// rich returns a commit that sets every field: two streams, a complete envelope, and texts
// that JSON, HTML and SQL treat specially.
func rich(workspace events.ID) *events.Commit {
	member, user, run, file := newID(), newID(), newID(), events.FileChange{Path: "a'b\"c\\d.go", Added: 3}
	return &events.Commit{
		Workspace: workspace,
		At:        epoch.Add(123456789 * time.Nanosecond).In(time.FixedZone("far", 5*3600)),
		Envelope: events.Envelope{
			Actor:  events.Actor{Type: events.ByService, ID: newID(), Name: "service:ci-<bot>&\u2028"},
			Origin: events.FromAPI, IP: "2001:db8::1", UserAgent: "curl/8 \"quoted\" \x7f", RequestID: "r-1", TokenTail: "x9Qa",
		},
		Writes: []events.Write{
			{Stream: workspace, Events: []events.Event{
				events.WorkspaceCreated{Name: "Ñandú 🐘 <b>&amp;</b>", Slug: "nandu"},
				events.MemberJoined{Member: member, User: user, Email: "o'hara@acme.example", Role: events.Owner},
				events.MemberApproveLoopsSet{Member: member, User: user, Email: "", From: true, To: false},
			}},
			{Stream: run, Events: []events.Event{
				events.RunFactsRecorded{Facts: []string{"", "nul \x00, tab \t, line \n", strings.Repeat("long ", 50_000)}},
				events.RunCommitsPushed{Head: "h", Base: "b", Files: []events.FileChange{file}},
				events.RunCommitsPushed{Files: nil},
				events.RunGuardrailsChecked{Checks: []events.Guardrail{{Check: "c", Findings: []events.GuardrailFinding{{Path: "p", Rule: "r"}}}}},
				events.RunCostRecorded{Cents: -1 << 62, Quantity: 1<<63 - 1},
				events.ServiceAccountStaleTokenUsed{Account: run, UsedAt: epoch.Add(987654321 * time.Nanosecond)},
			}},
		},
	}
}

func TestReadReturnsWhatWasAppended(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	w := newID()
	append1(t, s, commit(w, newID(), 0, "before"))
	c := rich(w)
	done := append1(t, s, c)
	require.EqualValues(t, 10, done.Head)

	want := done.Records
	require.Equal(t, want, log(t, db, w)[1:], "by the log")
	for i, stream := range []events.ID{c.Writes[0].Stream, c.Writes[1].Stream} {
		list, err := s.Load(t.Context(), w, stream, 0)
		require.NoError(t, err)
		require.Equal(t, want[3*i:3+6*i], list, "by the stream")
	}

	i := 0
	for _, write := range c.Writes {
		for n, e := range write.Events {
			r := want[i]
			require.Equal(t, w, r.Workspace)
			require.EqualValues(t, 2+i, r.Seq)
			require.Equal(t, write.Stream, r.Stream)
			require.Equal(t, n+1, r.Version)
			require.Equal(t, events.Schema(e.Kind()), r.Schema)
			require.Equal(t, epoch.Add(123456*time.Microsecond), r.At, "UTC, whole microseconds")
			require.Equal(t, c.Envelope, r.Envelope)
			require.Equal(t, e, r.Event)
			data, err := events.Encode(e)
			require.NoError(t, err)
			require.Equal(t, string(data), string(r.Data))
			require.False(t, r.ID.IsZero())
			i++
		}
	}
}

func TestStoredBytesAreThoseThatWereEncoded(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	w := newID()
	for _, r := range append1(t, s, rich(w)).Records {
		data, err := events.Encode(r.Event)
		require.NoError(t, err)
		var stored, kind string
		err = db.QueryRow(t.Context(), `select data::text, kind from events where workspace_id = $1 and seq = $2`, w, r.Seq).Scan(&stored, &kind)
		require.NoError(t, err)
		require.Equal(t, string(data), stored)
		require.Equal(t, r.Event.Kind(), kind)
	}
}

func TestLoadContinuesAfterAVersion(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.New(t))
	w, stream := newID(), newID()
	c := commit(w, stream, 0, "")
	c.Writes[0].Events = markedEvents("x", 3)
	append1(t, s, c)
	append1(t, s, commit(w, newID(), 0, "of another stream"))
	append1(t, s, commit(w, stream, 3, "y"))
	for version, want := range [][]string{{"x/0", "x/1", "x/2", "y/0"}, {"x/1", "x/2", "y/0"}, {"x/2", "y/0"}, {"y/0"}, {}, {}} {
		list, err := s.Load(t.Context(), w, stream, version)
		require.NoError(t, err)
		require.Equal(t, want, marks(list))
	}
}

// The clock jumps back, as it may seem to when another machine's clock is slow.
func TestTimeInALogNeverRunsBackwards(t *testing.T) {
	t.Parallel()
	db, stores := replicas(t)
	w, other, stream := newID(), newID(), newID()
	at := func(d time.Duration, workspace events.ID, version int) *events.Commit {
		c := commit(workspace, stream, version, "")
		c.At = epoch.Add(d)
		return c
	}
	var got []time.Duration
	for i, jump := range []time.Duration{0, time.Hour, -time.Hour, 30 * time.Minute, 2 * time.Hour, -1000 * time.Hour} {
		done := append1(t, stores[i%2], at(jump, w, i))
		got = append(got, done.Records[0].At.Sub(epoch))
	}
	require.Equal(t, []time.Duration{0, time.Hour, time.Hour, time.Hour, 2 * time.Hour, 2 * time.Hour}, got)
	require.Equal(t, epoch.Add(-time.Hour), append1(t, stores[0], at(-time.Hour, other, 0)).Records[0].At, "each log has its own time")

	for i, r := range log(t, db, w) {
		require.Equal(t, epoch.Add(got[i]), r.At)
	}
	var last time.Time
	require.NoError(t, db.QueryRow(t.Context(), `select last_at from logs where workspace_id = $1`, w).Scan(&last))
	require.True(t, last.Equal(epoch.Add(2*time.Hour)))
}

// An event of a replica whose clock is ahead is believed, also if it is committed while the next append, which
// does not see it, waits for the head row.
func TestTimeNeverRunsBackwardsBehindAConcurrentAppend(t *testing.T) {
	t.Parallel()
	db, stores := replicas(t)
	w, stream := newID(), newID()
	append1(t, stores[0], commit(w, stream, 0, ""))
	ahead, err := db.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = ahead.Rollback(context.Background()) }()
	for _, sql := range []string{
		`update logs set head = 2, last_at = last_at + interval '1 hour' where workspace_id = $1`,
		`insert into events select workspace_id, 2, gen_random_uuid(), stream, version + 1, kind, schema, at + interval '1 hour', meta, data
			from events where workspace_id = $1`,
	} {
		_, err := ahead.Exec(t.Context(), sql, w)
		require.NoError(t, err)
	}
	var behind events.Committed
	var group errgroup.Group
	group.Go(func() (err error) {
		behind, err = stores[1].Append(t.Context(), commit(w, newID(), 0, ""))
		return err
	})
	require.Eventually(t, func() bool {
		var blocked bool
		err := db.QueryRow(t.Context(), `
			select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`).Scan(&blocked)
		return err == nil && blocked
	}, limit, time.Millisecond)
	require.NoError(t, ahead.Commit(t.Context()))
	require.NoError(t, group.Wait())
	require.Equal(t, epoch.Add(time.Hour), behind.Records[0].At)
}

// A head row whose time was changed by hand neither dates the events that follow nor stops them.
func TestWrongTimeOfALogIsNotBelieved(t *testing.T) {
	t.Parallel()
	db, stores := replicas(t)
	for i, wrong := range []string{"2031-01-01", "infinity", "-infinity"} {
		w, stream := newID(), newID()
		at := func(d time.Duration, version int) time.Time {
			c := commit(w, stream, version, "")
			c.At = epoch.Add(d)
			return append1(t, stores[i%2], c).Records[0].At
		}
		at(time.Hour, 0)
		_, err := db.Exec(t.Context(), `update logs set last_at = $2::text::timestamptz where workspace_id = $1`, w, wrong)
		require.NoError(t, err)
		require.Equal(t, epoch.Add(2*time.Hour), at(2*time.Hour, 1), wrong)
		require.Equal(t, epoch.Add(2*time.Hour), at(0, 2), "the clock is behind the newest event")
	}
}

func TestEventOfNewerBuildIsAnError(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"its kind":   `update events set kind = 'run.teleported'`,
		"its schema": `update events set schema = 2`,
		"its form":   `update events set data = '{"facts": 3}'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			s := open(t, db)
			w, stream := newID(), newID()
			append1(t, s, commit(w, stream, 0, "x"))
			_, err := db.Exec(t.Context(), change)
			require.NoError(t, err)
			_, err = s.Load(t.Context(), w, stream, 0)
			require.ErrorContains(t, err, "decode")
		})
	}
}
