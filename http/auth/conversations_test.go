package auth_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every route and refusal has a recorded conversation in test/testdata, which test/api plays, or is in
// exempt with a reason.
func TestEveryRouteAndRefusalHasAConversation(t *testing.T) {
	var conversations strings.Builder
	files, err := filepath.Glob("../../test/testdata/*.http")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		conversations.Write(content)
	}
	text := conversations.String()

	for _, m := range find(t, "auth.go", `\{"([A-Z]+)", "(/[^"]*)"`) {
		path := regexp.QuoteMeta(m[2])
		path = strings.ReplaceAll(path, ":provider", `[a-z]+`)
		about := regexp.MustCompile(`(?m)^` + m[1] + ` /api/auth` + path + `(\?|$)`)
		require.True(t, about.MatchString(text), "no conversation about %s %s", m[1], m[2])
	}
	exempt := map[string]string{
		"EMAIL_PASSWORD_DISABLED": "the demonstration people's sign-in is on in the conversations; TestSignInIsOffInProduction",
		"SESSION_NOT_FRESH":       "no conversation can make a session older; TestListSessionsNeedsRecentSignIn",
	}
	for _, m := range find(t, "refusals.go", `fault\.New\(fault\.\w+, "(\w+)"`) {
		if exempt[m[1]] == "" {
			require.True(t, strings.Contains(text, `"code": "`+m[1]+`"`), "no conversation with %s", m[1])
		}
	}
}

func find(t *testing.T, file, form string) [][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	found := regexp.MustCompile(form).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, found)
	return found
}
