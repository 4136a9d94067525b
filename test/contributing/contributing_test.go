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
	text    string
	without string // the arguments of the go command that fails without it
}

var (
	heading  = regexp.MustCompile(`(?m)^### (.+)$`)
	numbered = regexp.MustCompile("(?s)\\*\\*\\d+\\.\\*\\* (?:In `([^`]+)`, (?:(after|before) `([^`]+)`|at the end)|A new file " +
		"`([^`]+)`)[^\n]*:\n\n```\\w+\n(.*?\n)```\n\nWithout it `go ([^`]+)` fails\\.")
	written = regexp.MustCompile("Then `go ([^`]+)` writes")
	passes  = regexp.MustCompile("`go ([^`]+)` passes\\.")
)

// An example is a section of CONTRIBUTING.md.
type example struct {
	name   string
	places []place
	writes []string // the arguments of go commands that write files
	passes []string // and of those that pass when all is done
}

func examples(t *testing.T) (list []example) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, "CONTRIBUTING.md"))
	require.NoError(t, err)
	_, adding, ok := strings.Cut(string(text), "\n## Adding\n")
	require.True(t, ok)
	adding, _, _ = strings.Cut(adding, "\n## ")
	titles := heading.FindAllStringSubmatchIndex(adding, -1)
	for i, at := range titles {
		end := len(adding)
		if i+1 < len(titles) {
			end = titles[i+1][0]
		}
		body := adding[at[1]:end]
		e := example{name: adding[at[2]:at[3]]}
		for _, m := range numbered.FindAllStringSubmatch(body, -1) {
			e.places = append(e.places, place{file: m[1] + m[4], side: m[2], of: m[3], text: m[5], without: m[6]})
		}
		require.Len(t, e.places, strings.Count(body, "\n**"), "%s: a place is not in the form that this test reads", e.name)
		for _, m := range written.FindAllStringSubmatch(body, -1) {
			e.writes = append(e.writes, m[1])
		}
		for _, m := range passes.FindAllStringSubmatch(body, -1) {
			e.passes = append(e.passes, m[1])
		}
		require.NotEmpty(t, e.passes, e.name)
		list = append(list, e)
	}
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
		return
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
	if p.side == "" {
		return strings.TrimPrefix(text+"\n"+p.text, "\n")
	}
	require.Equal(t, 1, strings.Count(text, p.of), "%s: %q must be there once", p.file, p.of)
	at := strings.Index(text, p.of)
	if p.side == "before" {
		at = strings.LastIndex(text[:at], "\n") + 1
	} else {
		at += strings.Index(text[at:], "\n") + 1
	}
	return text[:at] + p.text + text[at:]
}

// run runs a command of Go's in the copy.
func (c *tree) run(t *testing.T, arguments string) (output string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	list := strings.Fields(strings.ReplaceAll(arguments, "'", ""))
	cmd := exec.CommandContext(ctx, "go", list...)
	cmd.Dir = c.folder
	// As make test compiles: without the folder in it, what has not changed is in the cache.
	cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath -vet=off")
	start := time.Now()
	text, err := cmd.CombinedOutput()
	t.Logf("go %s: %.1f s, %v", arguments, time.Since(start).Seconds(), err)
	return string(text), err
}

var tested = regexp.MustCompile(`-run '?(\w+)`)

// The examples of CONTRIBUTING.md do what it says of them, each on top of those
// before it, and whoever leaves out a place of one is told.
func TestExamples(t *testing.T) {
	c := newTree(t)
	for _, e := range examples(t) {
		first := len(c.places)
		c.places = append(c.places, e.places...)
		for _, p := range e.places {
			c.put(t, p.file, nil)
		}
		for _, arguments := range e.writes {
			_, _ = c.run(t, arguments) // which fails where it has written something
		}
		for _, arguments := range e.passes {
			output, err := c.run(t, arguments)
			require.NoError(t, err, "%s: go %s\n%s", e.name, arguments, output)
		}
		for i := range e.places {
			p := &c.places[first+i]
			c.put(t, p.file, p)
			output, err := c.run(t, p.without)
			require.Error(t, err, "%s, place %d: go %s passes without it", e.name, i+1, p.without)
			if test := tested.FindStringSubmatch(p.without); test != nil {
				require.Contains(t, output, "--- FAIL: "+test[1], "%s, place %d: go %s", e.name, i+1, p.without)
			} else {
				require.Contains(t, output, "undefined", "%s, place %d: go %s", e.name, i+1, p.without)
			}
			c.put(t, p.file, nil)
		}
	}
}
