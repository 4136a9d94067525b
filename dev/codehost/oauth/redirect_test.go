package oauth

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The first table is that of GitHub's manual.
func TestRedirectAllowed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		callback, asked string
		want            bool
	}{
		{"http://example.com/path", "http://example.com/path", true},
		{"http://example.com/path", "http://example.com/path/subdir/other", true},
		{"http://example.com/path", "http://oauth.example.com/path", true},
		{"http://example.com/path", "http://oauth.example.com/path/subdir/other", true},
		{"http://example.com/path", "http://example.com/bar", false},
		{"http://example.com/path", "http://example.com/", false},
		{"http://example.com/path", "http://example.com:8080/path", false},
		{"http://example.com/path", "http://oauth.example.com:8080/path", false},
		{"http://example.com/path", "http://example.org", false},

		{"http://example.com/path", "https://example.com/path", false},
		{"http://example.com/path", "http://notexample.com/path", false},
		{"http://example.com/path", "http://example.com/pathology", false},
		{"http://example.com/path", "http://example.com/path/../bar", false},
		{"http://example.com/path", "http://example.com/path/%2e%2e/bar", false},
		{"http://example.com/path", `http://example.com/path/..\bar`, false},
		{"http://example.com/path", "http://me@example.com/path", false},
		{"http://example.com/path", "http://example.com/path#there", false},
		{"http://example.com/path", "//example.com/path", false},
		{"http://example.com/path", "http://EXAMPLE.com/path?a=b", true},
		{"http://example.com", "http://example.com/anything/", true},
		{"http://127.0.0.1/path", "http://127.0.0.1:1234/path", true},
		{"http://localhost:3000/path", "http://localhost:1234/path", true},
		{"http://[::1]/path", "http://[::1]:1234/path", true},
		{"http://127.0.0.1/path", "http://localhost/path", false},
		{"http://127.0.0.1/path", "http://127.0.0.2/path", false},
	} {
		callback, err := parseRedirect(c.callback)
		require.NoError(t, err)
		u, err := parseRedirect(c.asked)
		require.Equal(t, c.want, err == nil && redirectAllowed(callback, u), "%s for %s", c.asked, c.callback)
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"read:user", "user:email"}, scopesOf("read:user, user:email read:user <b> "))
	require.Equal(t, []string{}, scopesOf(""))
}
