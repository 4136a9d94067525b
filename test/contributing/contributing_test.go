package contributing

import (
	"context"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	top   = "../.."
	limit = 5 * time.Minute // for one command of Go's, which may compile everything
)

// A place is what an example adds to one file.
type place struct {
	file    string
	side    string // after or before the line that has the text of; "" is at the end
	of      string
	line    string // one line, which is indented as the line that has of
	text    string // or several
	without string // the arguments of the go command that fails without it
}

var (
	heading  = regexp.MustCompile(`(?m)^### (.+)$`)
	numbered = regexp.MustCompile("(?s)\\*\\*\\d+\\.\\*\\* (?:In `([^`]+)`, (?:(after|before) `([^`]+)`|at the end)|A new file `([^`]+)`)" +
		"(?:(?:,| with) the line `([^`\n]+)`)?[^\n]*Without it `go ([^`]+)` fails(?:\\.|:\n\n```\\w+\n(.*?\n)```)\n")
	written = regexp.MustCompile("`go (generate [^`]+|[^`]+ -update)`")
	passes  = regexp.MustCompile("`go ([^`]+)` passes")
)

// most is how many places an addition may take.
var most = map[string]int{"An event": 4, "A command and its route": 5, "A page": 5, "A view": 3, "A noun": 8}

// An example is a section of CONTRIBUTING.md or of the README beside this file.
type example struct {
	name   string
	places []place
	writes []string // the arguments of go commands that write files
	passes []string // and of those that pass when all is done
}

func examples(t *testing.T) (list []example) {
	t.Helper()
	var adding string
	for _, page := range []string{"CONTRIBUTING.md", "test/contributing/README.md"} {
		text, err := os.ReadFile(filepath.Join(top, page))
		require.NoError(t, err)
		adding += string(text)
	}
	titles := heading.FindAllStringSubmatchIndex(adding, -1)
	for i, at := range titles {
		end := len(adding)
		if i+1 < len(titles) {
			end = titles[i+1][0]
		}
		body := adding[at[1]:end]
		e := example{name: adding[at[2]:at[3]]}
		for _, m := range numbered.FindAllStringSubmatch(body, -1) {
			p := place{file: m[1] + m[4], side: m[2], of: m[3], line: m[5], text: m[7], without: m[6]}
			require.NotEqual(t, p.line == "", p.text == "", "%s: %s gets either a line or a text", e.name, p.file)
			e.places = append(e.places, p)
		}
		require.Len(t, e.places, strings.Count(body, "\n**"), "%s: a place is not in the form that this test reads", e.name)
		for _, m := range written.FindAllStringSubmatch(body, -1) {
			e.writes = append(e.writes, m[1])
		}
		for _, m := range passes.FindAllStringSubmatch(body, -1) {
			e.passes = append(e.passes, m[1])
		}
		require.NotEmpty(t, e.passes, e.name)
		require.LessOrEqual(t, len(e.places), most[e.name], e.name)
		list = append(list, e)
	}
	require.Len(t, list, len(most))
	return list
}

// A tree is a copy of the module with the places of examples.
type tree struct {
	folder string
	places []place
}

// newTree copies what git knows, or would take, to a folder. Its name begins with
// an underscore, so that a ./... of another test does not meet half a copy.
func newTree(t *testing.T) *tree {
	t.Helper()
	c := &tree{folder: filepath.Join(top, "bin", "_contributing")}
	require.NoError(t, os.RemoveAll(c.folder))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(c.folder)) })
	names, err := exec.CommandContext(t.Context(), "git", "-C", top, "ls-files", "-z", "-co", "--exclude-standard").Output()
	require.NoError(t, err)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if data, ok := read(t, filepath.Join(top, name)); ok { // or it is deleted, and that not committed yet
			write(t, filepath.Join(c.folder, name), data)
		}
	}
	return c
}

func read(t *testing.T, path string) (text string, ok bool) {
	t.Helper()
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return "", false
	}
	require.NoError(t, err)
	return string(data), true
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// kept ends the name of a template's Go file while the template is left out.
const kept = "_templ.go.kept"

// put writes a file with all of its places but one, if that is among them.
func (c *tree) put(t *testing.T, file string, but *place) {
	t.Helper()
	text, exists := read(t, filepath.Join(top, file))
	for i, p := range c.places {
		if p.file == file && but != &c.places[i] {
			text, exists = p.in(t, text), true
		}
	}
	path := filepath.Join(c.folder, file)
	if !exists {
		require.NoError(t, os.Remove(path))
		if template, is := strings.CutSuffix(path, ".templ"); is {
			require.NoError(t, os.Rename(template+"_templ.go", template+kept))
		}
		return
	}
	if template, is := strings.CutSuffix(path, ".templ"); is {
		if err := os.Rename(template+kept, template+"_templ.go"); !os.IsNotExist(err) {
			require.NoError(t, err)
		}
	}
	if strings.HasSuffix(file, ".go") {
		formatted, err := format.Source([]byte(text))
		require.NoError(t, err, file)
		require.True(t, string(formatted) == text, "%s is not formatted", file)
	}
	write(t, path, text)
}

// in adds the place to the text of its file.
func (p place) in(t *testing.T, text string) string {
	t.Helper()
	added := p.text
	if p.side == "" {
		if p.line != "" {
			added = p.line + "\n"
		}
		return strings.TrimPrefix(text+"\n"+added, "\n")
	}
	require.Equal(t, 1, strings.Count(text, p.of), "%s: %q must be there once", p.file, p.of)
	at := strings.LastIndex(text[:strings.Index(text, p.of)], "\n") + 1
	if p.line != "" {
		indented := strings.TrimLeft(text[at:], "\t")
		added = text[at:len(text)-len(indented)] + p.line + "\n"
	}
	if p.side == "after" {
		at += strings.Index(text[at:], "\n") + 1
	}
	return text[:at] + added + text[at:]
}

// run runs a command of Go's in the copy.
func (c *tree) run(t *testing.T, arguments string) (output string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	list := strings.Fields(strings.ReplaceAll(arguments, "'", ""))
	cmd := exec.CommandContext(ctx, "go", list...)
	cmd.Dir = c.folder
	// As make test compiles: without the folder in it, what has not changed is in the cache. The module itself is
	// compiled without optimizing, which takes half of the time.
	cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -trimpath -vet=off '-gcflags=svc/...=-N -l -dwarf=false'")
	start := time.Now()
	text, err := cmd.CombinedOutput()
	t.Logf("go %s: %.1f s, %v", arguments, time.Since(start).Seconds(), err)
	return string(text), err
}

// The examples do what is said of them, and whoever leaves out a place of one is told. They
// are applied together, because compiling the tree takes most of the time. Tests that go through all events,
// routes or views and take long (in test/api, test/plans, test/run and projections/fold) are left out: they find
// them in the same tables as those that are run.
func TestExamples(t *testing.T) {
	c := newTree(t)
	var writes, passes []string
	for _, e := range examples(t) {
		c.places = append(c.places, e.places...)
		writes, passes = append(writes, e.writes...), append(passes, e.passes...)
	}
	for _, p := range c.places {
		c.put(t, p.file, nil)
	}
	ran := map[string]bool{}
	for _, arguments := range append(writes, passes...) {
		if !ran[arguments] {
			ran[arguments] = true
			output, err := c.run(t, arguments)
			require.NoError(t, err, "go %s\n%s", arguments, output)
		}
	}
	for i := range c.places {
		p := &c.places[i]
		c.put(t, p.file, p)
		c.requireFails(t, *p)
		c.put(t, p.file, nil)
	}
}

var tested = regexp.MustCompile(`-run '?(\w+)`)

// requireFails requires that the command of a place that was left out fails as it should: in the test that it
// names, or to compile.
func (c *tree) requireFails(t *testing.T, p place) {
	t.Helper()
	output, err := c.run(t, p.without)
	require.Error(t, err, "%s: go %s passes without it", p.file, p.without)
	want := "undefined|imported and not used"
	if test := tested.FindStringSubmatch(p.without); test != nil {
		want = "--- FAIL: " + test[1]
	}
	require.Regexp(t, want, output, "%s: go %s", p.file, p.without)
}
