package guardrail

import (
	"regexp"
	"strings"

	"svc/engine/client"
	"svc/engine/git"
)

var (
	testFile = regexp.MustCompile(`(?i)(_test\.(go|py|rb|exs|c|cc|cpp|dart)|(^|/)test_[^/]*\.py|\.(test|spec)\.[cm]?[jt]sx?|_spec\.rb|` +
		`tests?\.(java|kt|cs|scala|swift|php))$`)
	testFolder = regexp.MustCompile(`(^|/)(test|tests|__tests__|spec)/`)
	sourceFile = regexp.MustCompile(`(?i)\.(go|py|rb|exs?|c|cc|cpp|h|hpp|dart|[cm]?[jt]sx?|java|kt|cs|scala|swift|php|rs|sh|bats)$`)

	skipMark = regexp.MustCompile(`\bt\.Skip(Now|f)?\(|\.(skip|only)\(|\bx(it|describe|test)\(|\bpytest\.(mark\.)?(skip|xfail)|` +
		`\bunittest\.skip|\bskip(Test|If|Unless)\(|@(Ignore|Disabled)\b|#\[ignore|\[(Ignore|Skip)\b|\bpending\(`)
	testBegin = regexp.MustCompile(`^\s*(func (Test|Fuzz|Benchmark|Example)\w*\(|(async )?def test_?\w*\(|` +
		`(it|test|describe|specify)(\.each)?[(\s]['"` + "`" + `]|@Test\b|#\[(tokio::)?test\]|\[(Fact|Theory|Test|TestMethod)\b)`)
	expectation = regexp.MustCompile(`(?i)assert|expect|require\.|should|\bwant\b|\.(to|not)\.|equal|errorf?\(|fatalf?\(`)
)

// isTest reports whether a path is a file of tests.
func isTest(name string) bool {
	return testFile.MatchString(name) || testFolder.MatchString(name) && sourceFile.MatchString(name)
}

// A testEdit counts what happens to the lines of a file of tests.
type testEdit struct {
	begun, ended int // tests that appear and disappear
	skips        int // marks that appear, less those that disappear
	expects      int // changed lines that say what is expected
	others       int // other lines that are changed, without empty ones
	removed      int
}

// tests blocks changes that take tests away: files, tests in them, or whether they run. Edits of
// existing tests are noted, and by name if they change nothing but what is expected.
func (d *diff) tests() client.Guardrail {
	edits := d.testEdits()
	moved := map[string]bool{} // blobs of new files of tests
	for _, c := range d.changes {
		if c.New() && isTest(c.Path) {
			moved[c.Blob] = true
		}
	}
	var bad, noted []client.Finding
	for _, c := range d.changes {
		if !isTest(c.Path) {
			continue
		}
		finding, blocks := judge(c, edits[c.Path], moved[c.FromBlob])
		if finding == "" {
			continue
		}
		f := client.Finding{Path: c.Path, Rule: finding}
		if blocks {
			bad = append(bad, f)
		} else {
			noted = append(noted, f)
		}
	}
	g := result(Tests, bad)
	if bad == nil && noted != nil {
		g.Status = note
	}
	g.Findings = append(bad, noted...)
	return g
}

// judge returns what a change of a file of tests is, "" if nothing is to be said of it.
func judge(c git.Change, e testEdit, moved bool) (finding string, blocks bool) {
	switch {
	case c.Gone() && moved:
		return "tests were moved", false
	case c.Gone():
		return "tests were deleted", true
	case c.New() && e.skips > 0:
		return "new tests that are skipped", false
	case c.New():
		return "", false
	case e.skips > 0:
		return "tests are skipped", true
	case e.ended > e.begun:
		return "tests were deleted from the file", true
	case e.removed > 0 && e.expects > 0 && e.others == 0:
		return "only expectations were changed", false
	case e.removed > 0:
		return "existing tests were changed", false
	}
	return "", false
}

func (d *diff) testEdits() map[string]testEdit {
	edits := map[string]testEdit{}
	for _, l := range d.lines {
		if !isTest(l.path) {
			continue
		}
		e := edits[l.path]
		e.add(l)
		edits[l.path] = e
	}
	return edits
}

func (e *testEdit) add(l line) {
	sign := -1
	if l.added {
		sign = 1
	} else {
		e.removed++
	}
	if skipMark.MatchString(l.text) {
		e.skips += sign
	}
	switch text := strings.TrimSpace(l.text); {
	case testBegin.MatchString(l.text):
		e.others++
		if l.added {
			e.begun++
		} else {
			e.ended++
		}
	case expectation.MatchString(text):
		e.expects++
	case text != "":
		e.others++
	}
}
