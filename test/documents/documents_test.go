// Package documents holds what the documents say against the code.
package documents

import (
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(text)
}

// imports returns which packages of ours each package imports. Programs and tests
// are left out: programs wire everything together.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...")
	list.Dir = root
	var complaints strings.Builder
	list.Stderr = &complaints
	out, err := list.Output()
	require.NoError(t, err, complaints.String())
	found := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		name := strings.TrimPrefix(words[0], "svc/")
		if strings.HasPrefix(name, "cmd/") || name == "test" || strings.HasPrefix(name, "test/") {
			continue
		}
		found[name] = []string{}
		for _, w := range words[1:] {
			if of, ours := strings.CutPrefix(w, "svc/"); ours {
				found[name] = append(found[name], of)
			}
		}
		slices.Sort(found[name])
	}
	return found
}

// pages joins the packages of the web app's pages into one row. What one of them
// imports they all may.
func pages(found map[string][]string) {
	of := func(name string) bool {
		base, ok := strings.CutPrefix(name, "ui/")
		return ok && !slices.Contains([]string{"asset", "client", "kit", "live", "page"}, base)
	}
	all := map[string]bool{}
	for name, list := range found {
		if of(name) {
			for _, to := range list {
				all[to] = true
			}
			delete(found, name)
			continue
		}
		if slices.ContainsFunc(list, of) {
			found[name] = append([]string{"ui/*"}, slices.DeleteFunc(list, of)...)
			slices.Sort(found[name])
		}
	}
	found["ui/*"] = slices.Sorted(maps.Keys(all))
}

var tableRow = regexp.MustCompile("(?m)^\\| `([a-z/*]+)` \\| [^|]+ \\| ([^|]+) \\|$")

// foundation are the packages that most others import, and that import none but each
// other: the table leaves them out. Which package may import them is a rule of the linter.
var foundation = []string{"atomicfile", "config", "events", "fault", "filelock", "input", "lru", "http/middleware", "http/reply"}

func TestPackageTableMatchesTheImports(t *testing.T) {
	t.Parallel()
	listed := map[string][]string{}
	for _, row := range tableRow.FindAllStringSubmatch(read(t, "ARCHITECTURE.md"), -1) {
		listed[row[1]] = []string{}
		if row[2] != "none" {
			listed[row[1]] = strings.Split(row[2], ", ")
		}
	}
	found := imports(t)
	for name, list := range found {
		found[name] = slices.DeleteFunc(list, func(to string) bool { return slices.Contains(foundation, to) })
	}
	pages(found)
	require.Equal(t, found, listed)
}

var ruleFiles = regexp.MustCompile(`"\$\{base-path\}/([^"]+)"`)

// What a package may import is a rule of depguard's, so a new package has one too.
func TestEveryPackageHasARuleOfWhatItImports(t *testing.T) {
	t.Parallel()
	var dirs []string // patterns of folders
	for _, m := range ruleFiles.FindAllStringSubmatch(read(t, ".golangci.yml"), -1) {
		dirs = append(dirs, strings.TrimSuffix(strings.TrimSuffix(m[1], "/*.go"), "/**"))
	}
	for name := range imports(t) {
		ruled := slices.ContainsFunc(dirs, func(dir string) bool {
			ok, err := path.Match(dir, name)
			require.NoError(t, err)
			return ok
		})
		require.True(t, ruled, "%s has no rule under depguard in .golangci.yml", name)
	}
}

// Only a short page is read.
func TestPagesAreShort(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]int{"ARCHITECTURE.md": 14500, "README.md": 7000} {
		require.LessOrEqual(t, utf8.RuneCountInString(read(t, name)), most, name)
	}
}

var invariant = regexp.MustCompile("(?m)^\\| [^|`]+ \\| `([a-z/]+)` (`Test.*) \\|$")

func TestEachInvariantHasItsTests(t *testing.T) {
	t.Parallel()
	rows := invariant.FindAllStringSubmatch(read(t, "ARCHITECTURE.md"), -1)
	require.GreaterOrEqual(t, len(rows), 10)
	for _, row := range rows {
		var code strings.Builder
		files, err := filepath.Glob(filepath.Join(root, row[1], "*_test.go"))
		require.NoError(t, err)
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			code.Write(text)
		}
		for name := range strings.SplitSeq(row[2], ", ") {
			test, part, _ := strings.Cut(strings.Trim(name, "`"), "/")
			require.True(t, strings.Contains(code.String(), "func "+test+"("), "%s: %s", row[1], name)
			if part != "" {
				require.True(t, strings.Contains(code.String(), `"`+strings.ReplaceAll(part, "_", " ")+`"`), "%s: %s", row[1], name)
			}
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#:\s]*)(#[^)\s]+)?\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(root, "*.md"))
	require.NoError(t, err)
	require.Greater(t, len(pages), 4)
	more, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, more)
	for _, page := range slices.Concat(pages, more, []string{filepath.Join(root, "test/bench/README.md")}) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, l := range link.FindAllStringSubmatch(string(text), -1) {
			to := page
			if l[1] != "" {
				to = filepath.Join(filepath.Dir(page), l[1])
			}
			target, err := os.ReadFile(to)
			if info, failed := os.Stat(to); failed == nil && info.IsDir() {
				continue
			}
			require.NoError(t, err, "%s: %s", page, l[0])
			if l[2] != "" {
				require.Contains(t, anchors(string(target)), l[2], "%s: %s", page, l[0])
			}
		}
	}
}

var heading = regexp.MustCompile(`(?m)^#+ (.+)$`)

// anchors are the fragments under which headings of a page are found.
func anchors(text string) (list []string) {
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		words := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(h[1]), "")
		list = append(list, "#"+strings.ReplaceAll(words, " ", "-"))
	}
	return list
}

var testRecipe = regexp.MustCompile(`(?m)^.*\$\(GO\) test .*$`)

// Tests build the programs that they test, which Go's cache of test results does not take into account.
func TestMakefileTestsWithoutCachedResults(t *testing.T) {
	t.Parallel()
	recipes := testRecipe.FindAllString(read(t, "Makefile"), -1)
	require.GreaterOrEqual(t, len(recipes), 7)
	for _, recipe := range recipes {
		require.Contains(t, recipe, " -count=1 ")
	}
}
