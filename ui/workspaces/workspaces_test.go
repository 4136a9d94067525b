package workspaces

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
)

// Whoever opens the list finds what they last used at the top, and their personal workspace, unless they used it, at the end.
func TestLastUsedFirst(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	earlier := now.Add(-time.Hour)
	list := []client.OwnWorkspace{
		{Slug: "personal"}, {Slug: "earlier", LastActiveAt: &earlier}, {Slug: "joined"}, {Slug: "now", LastActiveAt: &now},
	}
	sortByLastUse(list)
	var slugs []string
	for _, w := range list {
		slugs = append(slugs, w.Slug)
	}
	require.Equal(t, []string{"now", "earlier", "joined", "personal"}, slugs)
}
