package aggregates

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// story is the stream of a workspace.
func story() []events.Event {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	return []events.Event{
		events.WorkspaceCreated{Name: "Acme", Slug: "acme"},
		events.MemberJoined{Member: id(1), User: id(11), Email: "ann@acme.example", Role: events.Owner},
		events.InvitationSent{Invitation: id(21), Email: "bob@acme.example", Role: events.Viewer, ExpiresAt: at},
		events.InvitationSent{Invitation: id(22), Email: "cy@acme.example", Role: events.Owner, ExpiresAt: at},
		events.InvitationSent{Invitation: id(23), Email: "di@acme.example", Role: events.Viewer, ExpiresAt: at},
		events.InvitationSent{Invitation: id(25), Email: "gus@acme.example", Role: events.Viewer, ExpiresAt: at.Add(-time.Hour)},
		events.InvitationAccepted{Invitation: id(21), Email: "bob@acme.example", User: id(12)},
		events.MemberJoined{Member: id(2), User: id(12), Email: "bob@acme.example", Role: events.Viewer},
		events.InvitationRejected{Invitation: id(22), Email: "cy@acme.example", User: id(13)},
		caused{events.InvitationResent{Invitation: id(23), Email: "di@acme.example", ExpiresAt: at.Add(time.Hour)}, id(12)},
		events.MemberRoleChanged{Member: id(2), User: id(12), Email: "bob@acme.example", From: events.Viewer, To: events.Owner},
		events.MemberApproveLoopsSet{Member: id(2), User: id(12), Email: "bob@acme.example", To: true},
		events.MemberProfileChanged{Member: id(1), User: id(11), Email: "ann@home.example", Name: "Ann"},
		events.WorkspaceRenamed{FromName: "Acme", FromSlug: "acme", Name: "Acme & Co", Slug: "acme-co"},
		events.InvitationSent{Invitation: id(24), Email: "ed@acme.example", Role: events.Viewer, ExpiresAt: at},
		events.InvitationRevoked{Invitation: id(24), Email: "ed@acme.example"},
		events.MemberJoined{Member: id(3), User: id(14), Email: "flo@acme.example", Role: events.Viewer},
		events.MemberLeft{Member: id(3), User: id(14), Email: "flo@acme.example"},
		events.MemberJoined{Member: id(4), User: id(14), Email: "flo@acme.example", Role: events.Viewer},
		events.MemberRemoved{Member: id(1), User: id(11), Email: "ann@acme.example"},
		events.WorkspaceDeleted{Name: "Acme & Co", Slug: "acme-co", PurgeAt: at.Add(events.RestorableFor)},
	}
}

// everything returns the story followed by the stored form of each kind that it lacks,
// about a member and an invitation that exist in stored forms too.
func everything(t *testing.T) []events.Event {
	list, told, folders := story(), map[string]bool{}, foldersOfNouns(t)
	for _, e := range list {
		told[e.Kind()] = true
	}
	list = append(list, stored(t, "member.joined"), stored(t, "invitation.sent"))
	for _, kind := range events.Kinds() {
		if folders[events.NounOf(kind).Name] == "Workspace" && !told[kind] {
			list = append(list, stored(t, kind))
		}
	}
	return list
}

func stored(t *testing.T, kind string) events.Event {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "events", "testdata", kind+".json"))
	require.NoError(t, err)
	e, err := events.Decode(kind, events.Schema(kind), data)
	require.NoError(t, err)
	return e
}

// A process that starts with a snapshot, taken at any moment, gets the same state as one
// that folds the whole stream.
func TestSnapshotIsComplete(t *testing.T) {
	list := everything(t)
	for n := range len(list) + 1 {
		var whole, before, after Workspace
		for _, e := range list[:n] {
			apply(&whole, e)
			apply(&before, e)
		}
		text, err := before.Snapshot()
		require.NoError(t, err)
		require.NoError(t, after.Restore(text))
		require.Equal(t, whole, after, "after %d events", n)
		for _, e := range list[n:] {
			apply(&whole, e)
			apply(&after, e)
		}
		require.Equal(t, whole, after, "%d events and the rest", n)
	}
}

// Snapshots outlive builds. A build in which they mean something else, or which folds
// events differently, increases [Workspace.Form] and writes this file again.
func TestSnapshotForm(t *testing.T) {
	var w Workspace
	for _, e := range story() {
		apply(&w, e)
	}
	text, err := w.Snapshot()
	require.NoError(t, err)
	want, err := os.ReadFile(filepath.Join("testdata", "workspace.5.json"))
	require.NoError(t, err)
	require.Equal(t, 5, w.Form())
	require.JSONEq(t, string(want), string(text), string(text))
}

func TestMalformedSnapshotIsRefused(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{"members":{"x":{}}}`, `{"members":["x"]}`, `{"members":["x x Viewer - a@x"]}`,
		`{"members":["019a0000-0000-0000-0000-000000000002 019a0000-0000-0000-0000-00000000000c Owner perhaps a@x"]}`} {
		require.Error(t, new(Workspace).Restore([]byte(text)), text)
	}
}
