package styleguide

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/ui/asset"
	"svc/ui/page"
)

// A colour or a type that is added to the style is shown.
func TestEveryTokenIsShown(t *testing.T) {
	t.Parallel()
	colours, types := asset.Tokens()
	require.NotEmpty(t, colours)
	require.NotEmpty(t, types)
	var text strings.Builder
	require.NoError(t, view(&page.Visit{Now: time.Now()}, colours, types).Render(t.Context(), &text))
	style, err := os.ReadFile("../asset/css/50-styleguide.css")
	require.NoError(t, err)
	for _, name := range colours {
		require.Equal(t, len(themes), strings.Count(text.String(), `"var(`+name+`)"`), name)
	}
	for _, name := range types {
		require.Contains(t, string(style), ".types ."+name[2:]+" { font: var("+name+")", name)
		require.Contains(t, text.String(), `class="`+name[2:]+`"`)
	}
}
