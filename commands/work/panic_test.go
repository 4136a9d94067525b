package work

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/events"
	"svc/events/store"
	"svc/projections"
	"svc/test/pgtest"
)

// A panickingAggregate counts members, and panics while it applies a legacy one.
type panickingAggregate struct{ members int }

func (b *panickingAggregate) Apply(e events.Event, _ events.Actor) {
	if e, ok := e.(events.MemberJoined); ok {
		b.members++
		if e.Role == events.Legacy {
			panic("a legacy member")
		}
	}
}

// A panickingLog panics in Append.
type panickingLog struct {
	Log
	broken bool
}

func (l *panickingLog) Append(ctx context.Context, c *events.Commit) (events.Committed, error) {
	if l.broken {
		panic("a broken log")
	}
	return l.Log.Append(ctx, c)
}

// newLog returns the log of a new database.
func newLog(t *testing.T) *store.Store {
	t.Helper()
	db, err := pgxpool.New(t.Context(), pgtest.URL(t))
	require.NoError(t, err)
	t.Cleanup(db.Close)
	log := store.New(db, projections.Inline(), func(events.ID, int64) {})
	t.Cleanup(log.Close)
	return log
}

// create creates a workspace.
func create(t *testing.T, h *Executor, m Meta) {
	t.Helper()
	_, err := h.Execute(t.Context(), m, "create", On(m.Workspace, func(w *Unit, ws *aggregates.Workspace) ([]events.Event, error) {
		return ws.Create("Acme", "acme", events.MemberJoined{Member: events.NewID(w.Now), Email: "ann@acme.example"})
	}))
	require.NoError(t, err)
}

func unrecorded(any) (events.CommandDenied, bool) { return events.CommandDenied{}, false }

// addMember is the command of the test.
type addMember struct{}

// Wherever a command panics, it returns an error that says so, and the next command on the
// same streams finds them unlocked and folded correctly.
func TestPanicReleasesLocksAndClearsFolds(t *testing.T) {
	t.Parallel()
	log := newLog(t)
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	l := &panickingLog{Log: log}
	h := New(l, func() time.Time { return now }, unrecorded)
	workspace := events.NewID(now)
	o := Meta{Workspace: workspace, Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "system"}}}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // fail instead of waiting for a lock until the test is killed
	t.Cleanup(cancel)
	create(t, h, o)
	add := func(role events.Role) error {
		_, err := h.Execute(ctx, o, addMember{}, On(workspace, func(_ *Unit, ws *aggregates.Workspace) ([]events.Event, error) {
			return ws.Join(events.MemberJoined{Member: events.NewID(now), User: events.NewID(now), Email: "bob@acme.example", Role: role})
		}))
		return err
	}

	for name, ask := range map[string]func() error{
		"while it decides": func() error {
			_, err := h.Execute(ctx, o, addMember{},
				On(workspace, func(*Unit, *aggregates.Workspace) ([]events.Event, error) { panic("no decision") }))
			return err
		},
		"while it loads": func() error {
			_, err := h.Execute(ctx, o, addMember{}, func(w *Unit) error {
				_, err := Load[aggregates.Workspace](w, workspace)
				require.NoError(t, err)
				_, err = Load[panickingAggregate](w, workspace)
				return err
			})
			return err
		},
		"while it commits": func() error {
			l.broken = true
			defer func() { l.broken = false }()
			return add(events.Viewer)
		},
	} {
		require.NoError(t, add(events.Legacy))
		err := ask()
		require.ErrorContains(t, err, "work.addMember in "+workspace.String()+": panic: ", name)
		require.ErrorContains(t, err, "panic_test.go:", "%s: it says where", name)
		require.NoError(t, add(events.Viewer), name)
	}

	stream := events.NewID(now)
	_, err := h.Execute(ctx, o, addMember{}, func(w *Unit) error {
		_, err := Load[panickingAggregate](w, stream)
		return w.AddEvents(stream, []events.Event{events.MemberJoined{Member: events.NewID(now), User: stream, Role: events.Legacy}}, err)
	})
	require.ErrorContains(t, err, "panic: a legacy member", "after the append")
	f := h.folds.get(foldKey{workspace, stream, reflect.TypeFor[panickingAggregate]()})
	require.NoError(t, f.lock(ctx))
	require.Nil(t, f.state, "what was changed by half is forgotten")
}
