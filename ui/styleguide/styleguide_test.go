package styleguide

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/ui/asset"
	"svc/ui/page"
)

// Each colour and type of the style sheet is shown.
func TestEveryTokenIsShown(t *testing.T) {
	t.Parallel()
	colours, types := asset.Tokens()
	require.NotEmpty(t, colours)
	require.NotEmpty(t, types)
	var text strings.Builder
	require.NoError(t, view(&page.Visit{Now: time.Now()}, "/states.css", colours, types).Render(t.Context(), &text))
	style, err := os.ReadFile("../asset/css/50-styleguide.css")
	require.NoError(t, err)
	for _, name := range colours {
		require.Equal(t, len(themes), strings.Count(text.String(), `"var(`+name+`)"`), name)
	}
	for _, name := range types {
		require.Contains(t, string(style), "#kit .types ."+name[2:]+" { font: var("+name+")", name)
		require.Contains(t, text.String(), `class="`+name[2:]+`"`)
	}
}

// Each component with a hover or focus style is shown in that state.
func TestEveryStateIsShown(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	require.NoError(t, statesCard("light").Render(t.Context(), &text))
	kit, err := os.ReadFile("../asset/css/30-kit.css")
	require.NoError(t, err)
	found := regexp.MustCompile(`\.([a-z-]+)(?:\.[a-z]+)*:(?:hover|focus-visible)`).FindAllStringSubmatch(string(kit), -1)
	require.NotEmpty(t, found)
	for _, m := range found {
		require.Regexp(t, `class="([a-z-]+ )*`+m[1]+`( [a-z-]+)* hovered"`, text.String(), m[1])
	}
}

// The style sheet of this page applies to no other page, although all pages load it.
func TestStyleAppliesToThisPageAlone(t *testing.T) {
	t.Parallel()
	style, err := os.ReadFile("../asset/css/50-styleguide.css")
	require.NoError(t, err)
	for line := range strings.Lines(string(style)) {
		selector, _, ok := strings.Cut(line, " {")
		if ok && !strings.HasPrefix(selector, "@layer") {
			require.True(t, strings.HasPrefix(selector, "  #kit "), selector)
		}
	}
}
