package input_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/input"
)

// Names are legal exactly if git says so, but those that are too long, or have characters that nobody sees.
func TestRefsAreAsGitHasThem(t *testing.T) {
	legal := func(ref string) bool {
		return exec.CommandContext(t.Context(), "git", "check-ref-format", ref).Run() == nil
	}
	for _, name := range []string{
		"main", "feature/#123-fix", "café", "привет", "a/b/c", "a@b", "@", "a..b", "a//b", "/a", "a/", "foo.lock", "foo.lock/bar",
		"foo.lockb",
		".a", "a/.b", "a.", "a./b", "a b", "a~1", "a^", "a:b", "a?", "a*", "a[0]", `a\b`, "a@{1}", "a{1}", "-a", "a/b.lock/c", "a[b",
		"a\x00", "release/1.x", "dependabot/npm/@types", "a\tb", "a\x7f", "", "<b>x</b>",
		"!\"#$%&'()+,;=`|",
	} {
		ref := "refs/heads/" + name
		require.Equal(t, legal(ref), input.RefRule(ref) == "", "%q: %s", ref, input.RefRule(ref))
		if git := exec.CommandContext(t.Context(), "git", "check-ref-format", "--branch", name).Run() == nil; name != "@" {
			require.Equal(t, git, input.BranchRule(name) == "", "%q: %s", name, input.BranchRule(name))
		}
	}
	for text, rule := range map[string]string{
		"heads/main":                             "begin with refs/, such as refs/heads/main",
		"refs/heads/a//b":                        "not end with a slash, or contain two in a row",
		"refs/heads/foo.lock":                    "not have a part that ends with .lock",
		"refs/heads/a\u202eb":                    "be of characters that one can see",
		"refs/heads/a\xff":                       "be of characters that one can see",
		"refs/heads/" + strings.Repeat("a", 300): "have 245 bytes at most",
	} {
		require.Equal(t, rule, input.RefRule(text), "%q", text)
	}
	require.Equal(t, "be the name of a branch, such as main", input.BranchRule("HEAD"))
}
