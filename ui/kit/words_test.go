package kit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoles(t *testing.T) {
	t.Parallel()
	require.Equal(t, "an Owner", An(Role("Owner")))
	require.Equal(t, "a Viewer", An(Role("member")))
	require.Equal(t, "a ", An(""))
}

func TestTitle(t *testing.T) {
	t.Parallel()
	for _, title := range []string{"", " ", "\u200b\u200b\u200b", "\u3164", "\u202e"} {
		require.Equal(t, "(no title)", Title(title), "%q", title)
	}
	for _, title := range []string{"a", "\u200ba", "❤️", "…"} {
		require.Equal(t, title, Title(title))
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{"": "", "timed_out": "Timed out", "é_b": "É b", "\xff": "\uFFFD"} {
		require.Equal(t, want, Words(word))
	}
}

// A run has a sign of its own for each of its stages and ends.
func TestEveryRunHasASign(t *testing.T) {
	t.Parallel()
	signs := iconNames()
	seen := map[string]bool{}
	for _, stage := range []string{"Queued", "Analyze", "Plan", "Implementing", "Build farm", "Self-review", "Merge", "Unknown"} {
		require.Contains(t, signs, RunIcon("coding", stage))
		require.False(t, seen[StageIcon(stage)], stage)
		seen[StageIcon(stage)] = true
	}
	for _, status := range []string{"merged", "failed", "cancelled", "rejected", "needs_input", "awaiting_approval"} {
		require.Contains(t, signs, RunIcon(status, "Merge"))
	}
}
