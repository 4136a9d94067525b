// Package documents holds what the documents say against the code.
package documents

import (
	"flag"
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
	"go.yaml.in/yaml/v3"
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

// join joins the packages of a folder, but for some, into one row. What one of them imports they all may.
func join(found map[string][]string, folder string, but ...string) {
	of := func(name string) bool {
		base, ok := strings.CutPrefix(name, folder+"/")
		return ok && !slices.Contains(but, base)
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
			found[name] = append([]string{folder + "/*"}, slices.DeleteFunc(list, of)...)
			slices.Sort(found[name])
		}
	}
	found[folder+"/*"] = slices.Sorted(maps.Keys(all))
}

var tableRow = regexp.MustCompile("(?m)^(\\| `([a-z/*]+)` \\| [^|]+ \\| )([^|]+) \\|$")

// foundation are the packages that most others import, and that import none but each
// other: the table leaves them out. Which package may import them is a rule of the linter.
var foundation = []string{"atomicfile", "config", "events", "fault", "filelock", "input", "lru", "http/middleware", "http/reply"}

var update = flag.Bool("update", false, "write the third column of the table of packages")

func TestPackageTableMatchesTheImports(t *testing.T) {
	t.Parallel()
	found := imports(t)
	join(found, "ui", "asset", "client", "kit", "live", "page")
	join(found, "http/rest", "door", "schema")
	join(found, "projections", "fold", "query", "rebuild")
	join(found, "dev/codehost")
	cell := func(name string) string {
		list := slices.DeleteFunc(found[name], func(to string) bool { return slices.Contains(foundation, to) })
		if len(list) == 0 {
			return "none"
		}
		return strings.Join(list, ", ")
	}
	text, listed := read(t, "ARCHITECTURE.md"), []string{}
	want := tableRow.ReplaceAllStringFunc(text, func(row string) string {
		m := tableRow.FindStringSubmatch(row)
		listed = append(listed, m[2])
		return m[1] + cell(m[2]) + " |"
	})
	slices.Sort(listed)
	require.Equal(t, slices.Sorted(maps.Keys(found)), listed)
	if *update {
		require.NoError(t, os.WriteFile(filepath.Join(root, "ARCHITECTURE.md"), []byte(want), 0o644))
		return
	}
	require.True(t, want == text, "the table of packages is not that of the rules: go test ./test/documents -update")
}

// A rule is a list of depguard's.
type rule struct {
	Mode  string   `yaml:"list-mode"`
	Files []string `yaml:"files"`
	Allow []string `yaml:"allow"`
}

// concerns reports whether the rule is about the files of a package.
func (r rule) concerns(name string) (is bool) {
	for _, f := range r.Files {
		pattern, not := strings.CutPrefix(f, "!")
		dir, ours := strings.CutPrefix(pattern, "${base-path}/")
		below, all := strings.CutSuffix(dir, "/**")
		matched, _ := path.Match(strings.TrimSuffix(dir, "/*.go"), name)
		if ours && (all && (name == below || strings.HasPrefix(name, below+"/")) || !all && matched) {
			is = !not
			if not {
				return false
			}
		}
	}
	return is
}

// What a package may import is a strict rule of depguard's, which allows no package of ours that it does not import.
func TestEveryPackageHasARuleOfWhatItImports(t *testing.T) {
	t.Parallel()
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]rule `yaml:"rules"`
				} `yaml:"depguard"`
			} `yaml:"settings"`
		} `yaml:"linters"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, ".golangci.yml")), &config))
	unused := map[string]bool{}
	found := imports(t)
	for name, list := range found {
		ruled := false
		for of, r := range config.Linters.Settings.Depguard.Rules {
			if r.Mode != "strict" || !r.concerns(name) {
				continue
			}
			ruled = true
			for _, pkg := range r.Allow {
				to, ours := strings.CutPrefix(pkg, "svc/")
				to, exact := strings.CutSuffix(to, "$")
				if key := of + ": " + pkg; ours {
					used := slices.ContainsFunc(list, func(i string) bool { return i == to || !exact && strings.HasPrefix(i, to) })
					still, known := unused[key]
					unused[key] = !used && (still || !known)
				}
			}
		}
		require.True(t, ruled, "%s has no strict rule under depguard in .golangci.yml", name)
	}
	maps.DeleteFunc(unused, func(_ string, is bool) bool { return !is })
	require.Empty(t, unused, "allowed and not imported")
}

// Only a short page is read.
func TestPagesAreShort(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]int{
		"ARCHITECTURE.md": 15000, "CHANGELOG.md": 4000, "CONTRIBUTING.md": 8000, "OPERATIONS.md": 15000, "README.md": 7000, "SECURITY.md": 7000,
	} {
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

var namedTest = regexp.MustCompile("`(Test[A-Z]\\w+)")

func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "git", "grep", "-hoE", `^func Test\w+`, "--", "*_test.go")
	list.Dir = root
	out, err := list.Output()
	require.NoError(t, err)
	tests := strings.Fields(string(out))
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	require.NoError(t, err)
	for _, page := range append(pages, filepath.Join(root, "SECURITY.md")) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range namedTest.FindAllStringSubmatch(string(text), -1) {
			require.Contains(t, tests, m[1], page)
		}
	}
}

var code = regexp.MustCompile("(?s)```.*?```")

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
		for _, l := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
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
