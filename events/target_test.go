package events_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// Readers that need only the target do not decode data unless the noun says that data has
// the target.
func TestTargetsAreWhereTheirNounsSay(t *testing.T) {
	r := events.Record{Stream: events.ID{15: 1}, Workspace: events.ID{15: 2}}
	elsewhere := map[string]bool{}
	for name, kind := range wantedForms(t) {
		r.Event, r.Data = stored(t, name, kind)
		named := r.Target()
		r.Event = events.Undecoded{Name: kind}
		if plain := r.Target(); named.Type != plain.Type || named.ID != plain.ID {
			elsewhere[events.NounOf(kind).Name] = true
		}
	}
	for _, noun := range events.NounsWhere(func(events.Noun) bool { return true }) {
		require.Equal(t, elsewhere[noun], events.NounOf(noun).NamesTarget, noun)
	}
}

// testdata/audit.txt shows each stored form as the audit log does: target and changes.
// -update adds lines for new kinds.
func TestAuditLogShowsEveryForm(t *testing.T) {
	r := events.Record{Stream: events.ID{15: 1}, Workspace: events.ID{15: 2}}
	var got strings.Builder
	names := wantedForms(t)
	for _, name := range sorted(names) {
		r.Event, r.Data = stored(t, name, names[name])
		target := r.Target()
		id := strings.NewReplacer(r.Stream.String(), "the stream", r.Workspace.String(), "the workspace").Replace(target.ID.String())
		fmt.Fprintf(&got, "%s\n  of: %s %q, %s\n", name, target.Type, target.Name, id)
		if action, denied := r.Action(); denied != "" {
			fmt.Fprintf(&got, "  denied: %s, %s\n", action, denied)
		}
		changes := r.Changes()
		require.NotNil(t, changes, "an empty list is [], not null")
		for _, c := range changes {
			from, err := json.Marshal(c.From)
			require.NoError(t, err)
			to, err := json.Marshal(c.To)
			require.NoError(t, err)
			fmt.Fprintf(&got, "  %s: %s -> %s\n", c.Field, from, to)
		}
	}
	golden := filepath.Join("testdata", auditText)
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String(), "go test ./events -update writes it")
}

func TestTargetOfUndecodedEventIsItsStream(t *testing.T) {
	r := events.Record{Stream: events.ID{15: 1}, Data: []byte(`{"a":1}`)}
	for kind, noun := range map[string]string{"member.left": "member", "decision.raised": "run", "run.paused": "run", "moon.landed": "moon"} {
		r.Event = events.Undecoded{Name: kind}
		require.Equal(t, events.Target{Type: noun, ID: r.Stream}, r.Target())
		require.Equal(t, []events.Change{}, r.Changes())
		action, denied := r.Action()
		require.Equal(t, kind, action)
		require.Empty(t, denied)
	}
}
