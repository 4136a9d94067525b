package kit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUserAgent(t *testing.T) {
	t.Parallel()
	const webKit = " AppleWebKit/537.36 (KHTML, like Gecko)"
	for header, want := range map[string][3]string{
		"Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0":                  {"Firefox", "144", "Linux"},
		"Mozilla/5.0 (Windows NT 10.0)" + webKit + " Chrome/142.0.0.0 Safari/537.36":              {"Chrome", "142", "Windows"},
		"Mozilla/5.0 (Windows NT 10.0)" + webKit + " Chrome/142.0.0.0 Safari/537.36 Edg/141.0":    {"Edge", "141", "Windows"},
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)" + webKit + " Version/18.1 Safari/605.1": {"Safari", "18", "macOS"},
		"curl/8.5.0": {"curl", "8", ""},
		"curl/":      {"curl", "", ""},
		"svc-runner": {},
		"":           {},
	} {
		program, version, system := UserAgent(header)
		require.Equal(t, want, [3]string{program, version, system}, header)
	}
}
