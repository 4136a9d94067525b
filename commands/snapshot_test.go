package commands_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/events/store"
)

// A reader is a log that counts the records that are read.
type reader struct {
	*store.Store
	records int
	most    int // in one call
}

func (r *reader) Load(ctx context.Context, workspace, stream events.ID, version int) ([]events.Record, error) {
	list, err := r.Store.Load(ctx, workspace, stream, version)
	r.records += len(list)
	r.most = max(r.most, len(list))
	return list, err
}

// startCountingHandler returns a handler with an empty cache, and a log that counts its reads.
func (m *team) startCountingHandler() (*commands.Handler, *reader) {
	r := &reader{Store: m.log}
	return commands.New(r, m.clock.now), r
}

// toggle changes the viewer's role back and forth.
func (m *team) toggle(t *testing.T, h *commands.Handler, times int) {
	t.Helper()
	for i := range times {
		role := []events.Role{events.Maintainer, events.Viewer}[i%2]
		_, err := h.UpdateMember(t.Context(), commands.UpdateMember{Meta: m.owner.in(m.id), Member: m.viewer.member, Role: &role})
		require.NoError(t, err)
	}
}

// appendChanges appends that many changes, an even number, in one commit.
func (m *team) appendChanges(t *testing.T, times int) {
	t.Helper()
	var list []events.Event
	for i := range times {
		e := events.MemberRoleChanged{Member: m.viewer.member, User: m.viewer.user, Email: m.viewer.email, From: events.Viewer,
			To: events.Maintainer}
		if i%2 == 1 {
			e.From, e.To = e.To, e.From
		}
		list = append(list, e)
	}
	m.append(t, m.owner, list...)
}

// append stores events without a command.
func (m *team) append(t *testing.T, by person, list ...events.Event) {
	t.Helper()
	var version int
	require.NoError(t, m.db.QueryRow(t.Context(), `select max(version) from events where workspace_id = $1 and stream = $1`,
		m.id).Scan(&version))
	_, err := m.log.Append(t.Context(), &events.Commit{
		Workspace: m.id, Envelope: by.in(m.id).Envelope, At: m.clock.now(),
		Writes: []events.Write{{Stream: m.id, Version: version, Events: list}},
	})
	require.NoError(t, err)
}

func (m *team) snapshots(t *testing.T) (version int) {
	t.Helper()
	require.NoError(t, m.db.QueryRow(t.Context(), `select coalesce(max(version), 0) from snapshots where workspace_id = $1`,
		m.id).Scan(&version))
	return version
}

// What a process reads of a workspace does not grow with the length of its history.
func TestSnapshotIsLoadedAtStart(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.appendChanges(t, 480)
	first, _ := m.startCountingHandler()
	m.toggle(t, first, 4)
	require.Zero(t, m.snapshots(t))
	m.toggle(t, first, 20)
	require.Equal(t, 500, m.snapshots(t))

	cold, read := m.startCountingHandler()
	m.toggle(t, cold, 2)
	require.Less(t, read.records, 30)
	_, err := cold.UpdateMember(t.Context(),
		commands.UpdateMember{Meta: m.maintainer.in(m.id), Member: m.owner.member, Role: ptr(events.Viewer)})
	require.ErrorIs(t, err, aggregates.ErrMemberForbidden, "the rules are the same")

	m.appendChanges(t, 600)
	m.toggle(t, cold, 2)
	require.GreaterOrEqual(t, m.snapshots(t), 1000)
	cold, read = m.startCountingHandler()
	m.toggle(t, cold, 2)
	require.Less(t, read.records, 30)
}

// A process that reads a long stream for the first time saves a snapshot.
func TestLongStreamIsSnapshottedWhenRead(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.appendChanges(t, 600)
	require.Zero(t, m.snapshots(t))
	cold, read := m.startCountingHandler()
	m.toggle(t, cold, 2)
	require.Greater(t, read.records, 600)
	require.Greater(t, m.snapshots(t), 600)
}

// A stream of any length is folded in parts.
func TestLongStreamIsReadInParts(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.appendChanges(t, 2*events.LoadLimit+600)
	cold, read := m.startCountingHandler()
	m.toggle(t, cold, 2)
	require.Greater(t, read.records, 2*events.LoadLimit+600)
	require.Equal(t, events.LoadLimit, read.most)
	require.Greater(t, m.snapshots(t), 2*events.LoadLimit+600)
}

// An unusable snapshot, or one of another build, is ignored.
func TestUnusableSnapshotIsIgnored(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"not one":         `update snapshots set state = '[]'`,
		"another build's": `update snapshots set form = form + 1`,
	} {
		m := newTeam(t)
		m.appendChanges(t, 600)
		first, _ := m.startCountingHandler()
		m.toggle(t, first, 2)
		require.Positive(t, m.snapshots(t))
		_, err := m.db.Exec(t.Context(), sql)
		require.NoError(t, err, name)
		cold, read := m.startCountingHandler()
		m.toggle(t, cold, 2)
		require.Greater(t, read.records, 600, name)
		_, err = cold.RemoveMember(t.Context(), commands.RemoveMember{Meta: m.owner.in(m.id), Member: m.owner.member})
		require.Error(t, err, name)
	}
}

// Two processes that alternate do not rely on an outdated snapshot.
func TestOutdatedSnapshotIsCaughtUp(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.appendChanges(t, 520)
	first, _ := m.startCountingHandler()
	m.toggle(t, first, 2)
	require.Positive(t, m.snapshots(t))
	_, err := first.RemoveMember(t.Context(), commands.RemoveMember{Meta: m.owner.in(m.id), Member: m.maintainer.member})
	require.NoError(t, err)
	cold, _ := m.startCountingHandler()
	_, err = cold.UpdateMember(t.Context(),
		commands.UpdateMember{Meta: m.maintainer.in(m.id), Member: m.viewer.member, Role: ptr(events.Maintainer)})
	require.Error(t, err, "who was removed after the snapshot is no member")
}
