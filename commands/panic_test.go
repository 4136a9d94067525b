package commands

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

// Wherever a command panics, it returns an error that says so, and the next command on the
// same streams finds them unlocked and folded correctly.
func TestPanicReleasesLocksAndClearsFolds(t *testing.T) {
	t.Parallel()
	log := newLog(t)
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	l := &panickingLog{Log: log}
	h := New(l, func() time.Time { return now })
	workspace := events.NewID(now)
	o := Meta{Workspace: workspace, Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "system"}}}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // fail instead of waiting for a lock until the test is killed
	t.Cleanup(cancel)
	acme := CreateWorkspace{Meta: o, Member: events.NewID(now), Email: "ann@acme.example", Name: "Acme", Slug: "acme"}
	_, err := h.CreateWorkspace(ctx, acme)
	require.NoError(t, err)
	add := func(role events.Role) AddMember {
		return AddMember{Meta: o, Member: events.NewID(now), User: events.NewID(now), Email: "bob@acme.example", Role: role}
	}
	request := add(events.Viewer)

	for name, ask := range map[string]func() error{
		"while it decides": func() error {
			_, err := h.execute(ctx, o, request,
				onStream(workspace, func(context.Context, *work, *aggregates.Workspace) ([]events.Event, error) { panic("no decision") }))
			return err
		},
		"while it loads": func() error {
			_, err := h.execute(ctx, o, request, func(ctx context.Context, w *work) error {
				_, err := load[aggregates.Workspace](ctx, w, workspace)
				require.NoError(t, err)
				_, err = load[panickingAggregate](ctx, w, workspace)
				return err
			})
			return err
		},
		"while it commits": func() error {
			l.broken = true
			defer func() { l.broken = false }()
			_, err := h.AddMember(ctx, request)
			return err
		},
	} {
		_, err := h.AddMember(ctx, add(events.Legacy))
		require.NoError(t, err)
		err = ask()
		require.ErrorContains(t, err, "commands.AddMember in "+workspace.String()+": panic: ", name)
		require.ErrorContains(t, err, "panic_test.go:", "%s: it says where", name)
		_, err = h.AddMember(ctx, add(events.Viewer))
		require.NoError(t, err, name)
	}

	stream := events.NewID(now)
	_, err = h.execute(ctx, o, request, func(ctx context.Context, w *work) error {
		_, err := load[panickingAggregate](ctx, w, stream)
		return w.addEvents(stream, []events.Event{events.MemberJoined{Member: events.NewID(now), User: stream, Role: events.Legacy}}, err)
	})
	require.ErrorContains(t, err, "panic: a legacy member", "after the append")
	f := h.folds.get(foldKey{workspace, stream, reflect.TypeFor[panickingAggregate]()})
	require.NoError(t, f.lock(ctx))
	require.Nil(t, f.state, "what was changed by half is forgotten")
}
