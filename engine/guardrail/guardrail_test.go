package guardrail

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/engine/client"
	"svc/engine/git"
	"svc/test/githost"
	"svc/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// inspect checks the files that a commit changes in a repository with others.
func inspect(t *testing.T, policy client.Policy, before, after githost.Files) client.InspectResult {
	t.Helper()
	h := githost.Start(t)
	repo := h.Create(t, "acme/web")
	base := repo.Commit(t, "main", "before", before)
	head := repo.Commit(t, "main", "after", after)
	m, err := git.Open(t.TempDir())
	require.NoError(t, err)
	defer m.Close()
	var result client.InspectResult
	err = m.Work(t.Context(), "r1", git.Remote{URL: repo.URL, Token: githost.Token}, func(r *git.Repository) error {
		if err := r.Commit(t.Context(), head); err != nil {
			return err
		}
		result, err = Inspect(t.Context(), r, base, head, policy)
		return err
	})
	require.NoError(t, err)
	return result
}

func found(t *testing.T, r client.InspectResult, check string) client.Guardrail {
	t.Helper()
	for _, g := range r.Checks {
		if g.Check == check {
			return g
		}
	}
	require.Fail(t, "no such check", check)
	return client.Guardrail{}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	before := githost.Files{
		"README.md": "one\n", "Makefile": "all:\n", "src/a.go": "package a\n", "src/run.sh": "echo\n", ".github/workflows/ci.yml": "on: push\n",
		"src/a_test.go": "package a\n\nfunc TestOne(t *testing.T) {\n\trequire.Equal(t, 1, one())\n}\n\n" +
			"func TestTwo(t *testing.T) {\n\tuse()\n}\n",
		"web/b.spec.ts": "it('adds', () => {\n  expect(add(1, 1)).toBe(2)\n})\n",
	}
	const commit = "0123456789012345678901234567890123456789"
	for name, c := range map[string]struct {
		after         githost.Files
		check, status string
		path, rule    string // of the first finding
	}{
		"ordinary": {githost.Files{"src/a.go": "package a\n\nvar b int\n"}, Protected, pass, "", ""},
		"workflow": {githost.Files{".github/workflows/ci.yml": "on: pull_request\n"}, Protected, block,
			".github/workflows/ci.yml", ".github/**"},
		"workflow deleted": {githost.Files{".github/workflows/ci.yml": githost.Gone}, Protected, block,
			".github/workflows/ci.yml", ".github/**"},
		"workflow moved": {githost.Files{".github/workflows/ci.yml": githost.Gone, "ci.yml": "on: push\n"}, Protected, block,
			".github/workflows/ci.yml", ".github/**"},
		"workflow in case":   {githost.Files{".GitHub/workflows/x.yml": "on: push\n"}, Protected, block, ".GitHub/workflows/x.yml", ".github/**"},
		"workflow unseen":    {githost.Files{".git\u200bhub/x.yml": "on: push\n"}, Protected, block, ".git\u200bhub/x.yml", ".github/**"},
		"workflow full":      {githost.Files{".ｇithub/x.yml": "on: push\n"}, Protected, block, ".ｇithub/x.yml", ".github/**"},
		"migration":          {githost.Files{"db/migrations/1.sql": "drop\n"}, Protected, block, "db/migrations/1.sql", "**/migrations/**"},
		"licence":            {githost.Files{"LICENSE.txt": "mine\n"}, Protected, block, "LICENSE.txt", "LICENSE*"},
		"attributes":         {githost.Files{"src/.gitattributes": "* -diff\n"}, Protected, block, "src/.gitattributes", "**/.gitattributes"},
		"policy":             {githost.Files{".svc/loop.yaml": "version: 1\n"}, Protected, block, ".svc/loop.yaml", ".svc/**"},
		"own pattern":        {githost.Files{"deploy/prod/x": "1\n"}, Protected, block, "deploy/prod/x", "deploy/"},
		"own pattern, exact": {githost.Files{"Makefile": "none:\n"}, Protected, block, "Makefile", "Makefile"},
		"submodule":          {githost.Files{"160000 vendor": commit}, Submodule, block, "vendor", "submodule"},
		"link inside":        {githost.Files{"120000 src/link": "a.go"}, Symlink, note, "src/link", "symbolic link"},
		"link outside": {githost.Files{"120000 src/link": "../../etc"}, Symlink, block, "src/link",
			"symbolic link that leaves the repository"},
		"link absolute":     {githost.Files{"120000 link": "/etc/passwd"}, Symlink, block, "link", "symbolic link that leaves the repository"},
		"link to git":       {githost.Files{"120000 src/link": "../.Git/config"}, Symlink, block, "src/link", "symbolic link into .git"},
		"link to workflows": {githost.Files{"120000 link": ".github"}, Symlink, block, "link", "symbolic link into a protected path"},
		"became executable": {githost.Files{"100755 src/run.sh": "echo\n"}, Executable, note, "src/run.sh", "became executable"},
		"large binary":      {githost.Files{"x.bin": strings.Repeat("\x00x", 600<<10)}, Binary, block, "x.bin", "binary file of 1200 KiB"},
		"small binary":      {githost.Files{"x.bin": "\x00x"}, Binary, pass, "", ""},
		"key":               {githost.Files{"src/k.go": "-----BEGIN RSA PRIVATE KEY-----\n"}, Secrets, block, "src/k.go", "private key"},
		"AWS":               {githost.Files{"src/k.go": "x = \"AKIAABCDEFGHIJKLMNOP\"\n"}, Secrets, block, "src/k.go", "AWS access key"},
		"GitHub":            {githost.Files{"src/k.go": "ghp_" + strings.Repeat("a", 36) + "\n"}, Secrets, block, "src/k.go", "GitHub token"},
		"our own":           {githost.Files{"src/k.go": "tok_svc_abcdefgh12345678\n"}, Secrets, block, "src/k.go", "service token"},
		"name of key":       {githost.Files{"deploy.d/id_rsa": "x\n"}, Secrets, block, "deploy.d/id_rsa", "file for secrets"},
		"no secret":         {githost.Files{"src/k.go": "// AKIA is a prefix, and so is ghp_\n"}, Secrets, pass, "", ""},
		"name in case":      {githost.Files{"readme.md": "x\n"}, Names, block, "readme.md", "case_fold: README.md"},
		"folder in case":    {githost.Files{"SRC/b.go": "x\n"}, Names, block, "SRC/b.go", "case_fold: src"},
		"name by width":     {githost.Files{"README．md": "x\n"}, Names, block, "README．md", "unicode_fold: README.md"},
		"two new names":     {githost.Files{"x/A": "1\n", "x/a": "1\n"}, Names, block, "x/A", "case_fold: x/a"},
		"test deleted":      {githost.Files{"src/a_test.go": githost.Gone}, Tests, block, "src/a_test.go", "tests were deleted"},
		"test moved": {githost.Files{"web/b.spec.ts": githost.Gone, "web/c.spec.ts": before["web/b.spec.ts"]}, Tests, note,
			"web/b.spec.ts", "tests were moved"},
		"test skipped": {githost.Files{
			"src/a_test.go": strings.Replace(before["src/a_test.go"], "\tuse()\n", "\tt.Skip(\"later\")\n\tuse()\n", 1),
		}, Tests, block, "src/a_test.go", "tests are skipped"},
		"test.skip": {githost.Files{"web/b.spec.ts": strings.Replace(before["web/b.spec.ts"], "it(", "it.skip(", 1)}, Tests, block,
			"web/b.spec.ts", "tests are skipped"},
		"one test fewer": {githost.Files{"src/a_test.go": strings.Split(before["src/a_test.go"], "func TestTwo")[0]}, Tests, block,
			"src/a_test.go", "tests were deleted from the file"},
		"expectation": {githost.Files{"web/b.spec.ts": strings.Replace(before["web/b.spec.ts"], "toBe(2)", "toBe(3)", 1)}, Tests, note,
			"web/b.spec.ts", "only expectations were changed"},
		"test added": {githost.Files{"src/c_test.go": "package a\n\nfunc TestThree(t *testing.T) {}\n"}, Tests, pass, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := inspect(t, client.Policy{ProtectedPaths: []string{"deploy/", "Makefile"}}, before, c.after)
			g := found(t, r, c.check)
			require.Equal(t, c.status, g.Status, "%+v", g)
			require.Equal(t, c.status == block, r.Status == "blocked" && r.ChangeKey != "", "%+v", r.Checks)
			if c.path == "" {
				require.Empty(t, g.Findings)
				return
			}
			require.Equal(t, client.Finding{Path: c.path, Rule: c.rule}, g.Findings[0])
		})
	}
}

// Tests that are bent to pass are found.
func TestR30TestsBentToPass(t *testing.T) {
	t.Parallel()
	before := githost.Files{"a_test.go": "package a\n\nfunc TestA(t *testing.T) {\n\trequire.Equal(t, 1, a())\n}\n", "a.go": "package a\n"}
	deleted := inspect(t, client.Policy{MayAllowOnce: true}, before, githost.Files{"a_test.go": githost.Gone})
	require.Equal(t, "blocked", deleted.Status)
	require.False(t, deleted.MayAllow, "people may allow protected paths only")
	bent := inspect(t, client.Policy{}, before, githost.Files{"a_test.go": strings.Replace(before["a_test.go"], "1", "2", 1)})
	require.Equal(t, "clean", bent.Status)
	require.Equal(t, note, found(t, bent, Tests).Status)
}

func TestAllowanceCoversWhatItNames(t *testing.T) {
	t.Parallel()
	policy := client.Policy{MayAllowOnce: true}
	before := githost.Files{"a": "1\n"}
	one := inspect(t, policy, before, githost.Files{".github/x": "1\n"})
	require.True(t, one.MayAllow)
	same := inspect(t, policy, before, githost.Files{".github/x": "1\n", "other": "1\n"})
	require.Equal(t, one.ChangeKey, same.ChangeKey)
	other := inspect(t, policy, before, githost.Files{".github/x": "2\n"})
	require.NotEqual(t, one.ChangeKey, other.ChangeKey)
	mode := inspect(t, policy, before, githost.Files{"100755 .github/x": "1\n"})
	require.NotEqual(t, one.ChangeKey, mode.ChangeKey)
	require.False(t, inspect(t, client.Policy{}, before, githost.Files{".github/x": "1\n"}).MayAllow)
	require.False(t, inspect(t, policy, before, githost.Files{".github/x": "1\n", "160000 m": strings.Repeat("1", 40)}).MayAllow)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	before := githost.Files{"a": "1\n"}
	after := githost.Files{"a": "2\n", "b": "1\n2\n3\n"}
	r := inspect(t, client.Policy{MaxFiles: 2, MaxLines: 5}, before, after)
	require.Equal(t, "clean", r.Status)
	require.Equal(t, "2 of 2 files", found(t, r, MaxFiles).Note)
	require.Equal(t, "5 of 5 lines", found(t, r, MaxLines).Note)
	require.Equal(t, block, found(t, inspect(t, client.Policy{MaxFiles: 1}, before, after), MaxFiles).Status)
	require.Equal(t, block, found(t, inspect(t, client.Policy{MaxLines: 4}, before, after), MaxLines).Status)
	require.Equal(t, "5 lines", found(t, inspect(t, client.Policy{}, before, after), MaxLines).Note)
}
