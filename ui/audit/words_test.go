package audit

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What can stand in a workspace's log is said in a sentence.
func TestSentences(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir("../../events/testdata")
	require.NoError(t, err)
	kinds := 0
	for _, file := range files {
		kind, isForm := strings.CutSuffix(file.Name(), ".json")
		parts := strings.Split(kind, ".")
		if !isForm || len(parts) < 2 {
			continue
		}
		kind = parts[0] + "." + parts[1]                                  // of some there are several forms
		if strings.HasPrefix(kind, "user.") || kind == "command.denied" { // in no workspace's log, and in it by what was tried
			continue
		}
		kinds++
		require.NotEmpty(t, sentences[kind][0], kind)
	}
	require.Greater(t, kinds, 50)
	require.Equal(t, "Tried to rotate a token", say("service_account.rotated", true))
	require.Equal(t, "Tried: moon landed", say("moon.landed", true))
	require.Equal(t, "Moon landed", say("moon.landed", false))
}
