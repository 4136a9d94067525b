package oauth

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGrantsAreBounded(t *testing.T) {
	t.Parallel()
	g := newGrants(time.Now)
	first := g.issue(code{})
	var last string
	for range maxGrants {
		last = g.issue(code{})
	}
	require.Equal(t, maxGrants, g.codes.Len())
	_, _, err := g.redeem("", first, "", "")
	require.ErrorIs(t, err, errCode)
	oldest, _, err := g.redeem("", last, "", "")
	require.NoError(t, err)
	for range maxGrants {
		_, _, err := g.redeem("", g.issue(code{}), "", "")
		require.NoError(t, err)
	}
	require.Equal(t, maxGrants, g.tokens.Len())
	_, ok := g.lookup(oldest)
	require.False(t, ok)
}
