package door

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections"
)

// The stream rechecks rights before it sends events that change what recheck reads: members, tokens, and whether there is
// the workspace.
func TestNounsThatChangeRights(t *testing.T) {
	changes := map[string]bool{}
	for _, v := range projections.All() {
		if slices.Contains([]string{"members", "service_tokens", "deleted_workspaces"}, v.Name()) {
			for _, kind := range events.Kinds() {
				noun := events.NounOf(kind).Name
				changes[noun] = changes[noun] || v.Folds(kind)
			}
		}
	}
	for _, noun := range events.NounsWhere(func(events.Noun) bool { return true }) {
		require.Equal(t, changes[noun], events.NounOf(noun).Rights, "does %s change rights?", noun)
	}
}
