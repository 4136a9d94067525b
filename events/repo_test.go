package events

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// The audit log shows only the settings that somebody changed.
func TestChangedSettings(t *testing.T) {
	from := RepoSettings{Branch: "main", Implementer: Implementer{Kind: ImplementerPatch}, RequiredJobs: []RequiredJob{}, MaxActive: 5}
	to := from
	to.Branch, to.ApproverNotQueue, to.Implementer = "trunk", true, Implementer{Kind: ImplementerCommand, Run: "./agent.sh"}
	r := Record{Event: RepoSettingsChanged{From: from, To: to}}
	require.Equal(t, []Change{
		{"branch", json.RawMessage(`"main"`), json.RawMessage(`"trunk"`)},
		{"implementer", json.RawMessage(`{"kind":"patch"}`), json.RawMessage(`{"kind":"command","run":"./agent.sh"}`)},
		{"approverNotQueuer", nil, json.RawMessage(`true`)},
	}, r.Changes())
	r.Event = RepoSettingsChanged{From: to, To: from}
	require.Equal(t, Change{"approverNotQueuer", json.RawMessage(`true`), nil}, r.Changes()[2])
	r.Event = RepoSettingsChanged{From: to, To: to}
	require.Empty(t, r.Changes())
}
