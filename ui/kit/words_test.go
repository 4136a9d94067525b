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
