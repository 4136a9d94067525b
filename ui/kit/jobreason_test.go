package kit

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every reason that the runner's, the gateway's and the job's code name has words.
func TestJobReasonsHaveWords(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile(`(?:\b[Rr]eason|\bdecline|ArtifactMissing|\b[Rr]eason[A-Z]|\bdecline[A-Z])\w* *(?:=|:=|:) *"([a-z_]+)"`)
	seen := 0
	for _, pattern := range []string{"farm/runner/*.go", "farm/runner/*/*.go", "farm/dispatch/*.go", "aggregates/job.go", "events/job*.go"} {
		files, err := filepath.Glob("../../" + pattern)
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, found := range named.FindAllStringSubmatch(string(text), -1) {
				seen++
				require.NotEqual(t, found[1], JobReason(found[1]), "%s names it without words", file)
			}
		}
	}
	require.Greater(t, seen, 15)
	require.Equal(t, "not needed any more", JobReason("not needed any more"))
}
