package seed_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/dev/seed"
)

// checkout writes the files of a demonstration repository to a folder, and runs its test.
func checkout(t *testing.T, r seed.Repository) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range r.Files {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, text, 0o755))
	}
	out, err := selfTest(t, folder)
	require.NoError(t, err, "%s: %s", r.Name, out)
	return folder
}

// selfTest runs test.sh of a repository, which needs no more than a shell.
func selfTest(t *testing.T, folder string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(folder, "test.sh"))
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// patchOf returns the patch in the body of an issue, or "".
func patchOf(i seed.Issue) string {
	_, rest, _ := strings.Cut(i.Body, "\n```diff\n")
	patch, _, _ := strings.Cut(rest, "```")
	return patch
}

// fails are the titles of issues whose patches do not pass the test.
var fails = map[string]bool{
	"The about page links to a team page that is missing": true, "Two services on one port": true, "Greet in Italian": true,
	"An hour is a length, too": true, "Link to the page about expenses": true,
}

func TestPatchesOfIssuesApply(t *testing.T) {
	t.Parallel()
	plain := map[string]int{}
	for _, r := range seed.Repositories() {
		number := 2001
		for _, i := range seed.Issues() {
			if i.Repo != r.Name {
				continue
			}
			require.Equal(t, number, i.Number, i.Title)
			number++
			require.NotEmpty(t, i.Title)
			require.NotEmpty(t, strings.TrimSpace(i.Body), i.Title)
			require.NotEmpty(t, i.Labels[0], i.Title)
			patch := patchOf(i)
			if patch == "" {
				plain[r.Name]++
				continue
			}
			folder := checkout(t, r)
			cmd := exec.CommandContext(t.Context(), "git", "apply", "--verbose", "-")
			cmd.Dir, cmd.Stdin = folder, strings.NewReader(patch)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s: %s", i.Title, out)
			text, err := selfTest(t, folder)
			require.Equal(t, fails[i.Title], err != nil, "%s: %s", i.Title, text)
		}
		require.Greater(t, number, 2002, r.Name)
		require.Positive(t, plain[r.Name], r.Name)
	}
}

// Whoever tries the demonstration queues the issues of a connected repository in any order.
func TestPatchesOfConnectedRepositoriesApplyTogether(t *testing.T) {
	t.Parallel()
	for _, r := range seed.Repositories() {
		if !slices.Contains([]string{"acme/handbook", "acme/hello", "acme/units"}, r.Name) {
			continue
		}
		issues := slices.DeleteFunc(seed.Issues(), func(i seed.Issue) bool { return i.Repo != r.Name || patchOf(i) == "" || fails[i.Title] })
		for range 2 {
			folder := checkout(t, r)
			for _, i := range issues {
				cmd := exec.CommandContext(t.Context(), "git", "apply", "-")
				cmd.Dir, cmd.Stdin = folder, strings.NewReader(patchOf(i))
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s: %s", i.Title, out)
				text, err := selfTest(t, folder)
				require.NoError(t, err, "%s: %s", i.Title, text)
			}
			slices.Reverse(issues)
		}
	}
}
