package input_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"svc/input"
)

func TestSearchText(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "  ": "", "acme/web": "acme/web", "Fix  THE\tLogin ": "fix the login", "run/7-x": "run/7-x",
		"ПРИВЕТ": "привет", "ÉCOLE": "ecole", "Zoë": "zoe", "Łódź": "lodz", "Straße": "strasse", "STRAẞE": "strasse",
		"ΣΊΣΥΦΟΣ": "σισυφοσ", "σίσυφος": "σισυφοσ",
		"İstanbul": "istanbul", "Ørsted": "orsted", "ÆRØ": "aero", "ﬁle": "file", "Ｆｕｌｌ": "full", "日本語": "日本語",
	} {
		require.Equal(t, want, input.SearchText(text), text)
	}
}

func TestSearchTextIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := input.SearchText(rapid.String().Draw(t, "text"))
		require.Equal(t, text, input.SearchText(text))
	})
}
