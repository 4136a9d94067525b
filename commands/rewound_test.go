package commands_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
)

// rewind deletes what a log has gained since a position, as restoring a backup does.
func (m *team) rewind(t *testing.T, position int64) {
	t.Helper()
	for _, sql := range []string{
		`delete from events where workspace_id = $1 and seq > $2`,
		`update logs set head = $2 where workspace_id = $1`,
	} {
		_, err := m.db.Exec(t.Context(), sql, m.id, position)
		require.NoError(t, err)
	}
}

// startHandler returns a handler with an empty cache, and its log output.
func (m *team) startHandler() (*commands.Handler, *bytes.Buffer) {
	h, logs := commands.New(m.log, m.clock.now), &bytes.Buffer{}
	h.LogTo(slog.New(slog.NewTextHandler(logs, nil)))
	return h, logs
}

// Commands continue to work, without a restart, after the log was restored from a backup.
func TestRewoundLogIsReadAgain(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	h, logs := m.startHandler()
	before := m.head(t, m.id)
	m.toggle(t, h, 5) // the viewer is a Maintainer now
	require.Empty(t, logs.String())
	m.rewind(t, before)

	_, err := h.UpdateMember(t.Context(), commands.UpdateMember{Meta: m.owner.in(m.id), Member: m.viewer.member, ApproveLoops: ptr(true)})
	require.NoError(t, err)
	m.requireAdded(t, m.id, before,
		events.MemberApproveLoopsSet{Member: m.viewer.member, User: m.viewer.user, Email: m.viewer.email, To: true})
	require.Equal(t, 1, strings.Count(logs.String(), "level=ERROR"), logs)
	require.Contains(t, logs.String(), m.id.String())
	m.toggle(t, h, 1)
	require.Equal(t, 1, strings.Count(logs.String(), "level=ERROR"), "it is logs once")
}

// A log that was rewound and has grown again has other events at positions that this
// process has read.
func TestRewoundAndGrownLogIsReadAgain(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	h, logs := m.startHandler()
	before := m.head(t, m.id)
	m.toggle(t, h, 4)
	m.rewind(t, before)
	other, _ := m.startHandler()
	m.toggle(t, other, 3) // a Maintainer as well
	_, err := other.RemoveMember(t.Context(), commands.RemoveMember{Meta: m.owner.in(m.id), Member: m.old.member})
	require.NoError(t, err)
	_, err = other.RemoveMember(t.Context(), commands.RemoveMember{Meta: m.owner.in(m.id), Member: m.maintainer.member})
	require.NoError(t, err)

	_, err = h.UpdateMember(t.Context(), commands.UpdateMember{Meta: m.maintainer.in(m.id), Member: m.viewer.member, Role: ptr(events.Viewer)})
	require.Error(t, err, "who was removed since is no member")
	require.Contains(t, logs.String(), "level=ERROR")
	_, err = h.UpdateMember(t.Context(), commands.UpdateMember{Meta: m.owner.in(m.id), Member: m.viewer.member, Role: ptr(events.Viewer)})
	require.NoError(t, err)
}

// A snapshot of events that the log no longer has is dropped, although it is genuine.
func TestSnapshotAheadOfLogIsDropped(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	before := m.head(t, m.id)
	m.appendChanges(t, 600)
	first, _ := m.startCountingHandler()
	m.toggle(t, first, 2)
	require.Greater(t, m.snapshots(t), 600)
	m.rewind(t, before)

	cold, logs := m.startHandler()
	m.toggle(t, cold, 2)
	require.Contains(t, logs.String(), "level=ERROR")
	require.Zero(t, m.snapshots(t))
}

// Somebody who can write to the database but has no key cannot become an Owner by a forged
// snapshot.
func TestForgedSnapshotIsIgnored(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.appendChanges(t, 600)
	first, _ := m.startCountingHandler()
	m.toggle(t, first, 2)
	require.Greater(t, m.snapshots(t), 600)
	_, err := m.db.Exec(t.Context(),
		`update snapshots set state = replace(state::text, '"Maintainer"', '"Owner"')::json where workspace_id = $1`, m.id)
	require.NoError(t, err)
	var forged bool
	require.NoError(t, m.db.QueryRow(t.Context(), `select state::text not like '%"Maintainer"%' from snapshots where workspace_id = $1`,
		m.id).Scan(&forged))
	require.True(t, forged)

	cold, _ := m.startCountingHandler()
	_, err = cold.UpdateMember(t.Context(),
		commands.UpdateMember{Meta: m.maintainer.in(m.id), Member: m.owner.member, Role: ptr(events.Viewer)})
	require.Error(t, err)
	require.Equal(t, events.Owner, m.roles(t, m.id)[m.owner.user])
}
