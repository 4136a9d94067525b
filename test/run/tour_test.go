//go:build linux && !race

package run

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"svc/dev/pgserver"
)

// cached returns the part of a step that has go share the cache of the tests, so that it does not compile the
// standard library.
func cached(t *testing.T) string {
	t.Helper()
	folder, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	return fmt.Sprintf(`,"env":{"GOCACHE":%q}`, strings.TrimSpace(string(folder)))
}

// A tour is the commands of a document, and the lines that it shows as their output.
type tour struct {
	script string
	shown  []string
}

// readTour reads what follows a heading of a document, up to the next one of its rank.
func readTour(t *testing.T, name, heading string, change *strings.Replacer) (all tour) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", name))
	require.NoError(t, err)
	_, part, found := strings.Cut(string(text), heading+"\n")
	require.True(t, found)
	rank := heading[:strings.Index(heading, " ")+1]
	part, _, _ = strings.Cut(part, "\n"+rank)
	require.Contains(t, part, restAddress)
	for _, block := range regexp.MustCompile("(?s)```(sh|json|)\n(.*?)```").FindAllStringSubmatch(part, -1) {
		if block[1] == "sh" {
			all.script += change.Replace(block[2])
		} else {
			all.shown = append(all.shown, strings.Split(strings.TrimSpace(block[2]), "\n")...)
		}
	}
	require.NotEmpty(t, all.shown)
	return all
}

// restAddress is where make run has the REST service.
const restAddress = "http://127.0.0.1:4000"

// TestToursWork runs the commands of the README's tour and of the rest of it in one shell, twice, in a folder
// that looks like a checkout in which make run is running. The answers must have the form that the documents
// show, where ", …" stands for the rest of an object or list, and concern what the tour has just done.
func TestToursWork(t *testing.T) {
	t.Parallel()
	s := newUnsignedInstallation(t)
	svc := s.start("SVC_VERBOSE=false", "PATH="+fakeAgent(t)+":"+os.Getenv("PATH")).waitForOutput(runningBanner)
	require.NoError(t, os.Symlink(s.data, filepath.Join(s.home, ".svc")))
	require.NoError(t, os.Symlink(programs, filepath.Join(s.home, "bin")))
	examples, err := filepath.Abs("../../examples")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(examples, filepath.Join(s.home, "examples")))
	const test, dist = `run: "echo compiling; go test ./..."`, `run: "./dist.sh"`
	change := strings.NewReplacer(restAddress, s.dev().RestURL, test, test+cached(t), dist, dist+cached(t))
	first, rest := readTour(t, "README.md", "## A tour of five steps", change), readTour(t, "docs/tour.md", "# The rest of the tour", change)
	agent := readTour(t, "docs/implementers.md", "## From nothing to an agent's first merged change", strings.NewReplacer(
		restAddress, s.dev().RestURL, `"kind": "bubblewrap", "network": "host"`, `"kind": "none"`)) // so that it finds the agent of the test
	shown := slices.Concat(first.shown, rest.shown, first.shown, rest.shown, agent.shown)
	answers := runCommands(t, s.home, first.script+rest.script+first.script+rest.script+
		"export ANTHROPIC_API_KEY=sk-ant-none\n"+agent.script)
	require.Len(t, answers, len(shown), strings.Join(answers, "\n"))
	for i := range shown {
		want, got := answerForm(t, strings.ReplaceAll(shown[i], ", …", "")), answerForm(t, answers[i])
		if strings.Contains(shown[i], ", …") {
			require.Subset(t, got, want, answers[i])
		} else {
			require.Equal(t, want, got, answers[i])
		}
	}
	answers = answers[len(first.shown):][:len(rest.shown)]
	made := findValue(t, answers, "account.id")
	require.Equal(t, made, findValue(t, answers, "items.0.target.id"), "the audit record is of the new account")
	number := func(path string) int {
		n, err := strconv.Atoi(findValue(t, answers, path))
		require.NoError(t, err)
		return n
	}
	require.GreaterOrEqual(t, number("size"), number("items.0.seq"), "the signed log includes the record") // and events of other work
	digest := strings.Trim(findValue(t, answers, "items.0.sha256"), `"`)
	require.Contains(t, answers, digest+"  -", "the download is the job's artifact")
	text, err := os.ReadFile(filepath.Join(s.home, ".svc", "headers"))
	require.NoError(t, err)
	require.Regexp(t, `^HTTP/1.1 202 `, string(text), "the answer to the cancellation")
	_, after, _ := strings.Cut(svc.out.String(), runningBanner)
	for line := range strings.Lines(after) {
		if strings.Contains(line, "│") {
			require.Regexp(t, `level"?[=:]"?(WARN|ERROR)`, line, "only what goes wrong follows the banner")
		}
	}
	s.stop(svc)
}

// fakeAgent returns a folder with a program that changes the code and prints what Claude Code has printed.
func fakeAgent(t *testing.T) string {
	t.Helper()
	envelope, err := filepath.Abs("../../examples/implementers/testdata/claude-code/done.txt")
	require.NoError(t, err)
	dir := t.TempDir()
	script := "#!/bin/sh\ncat >/dev/null\necho Goeie >words/fy\ncat '" + envelope + "'\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "claude"), []byte(script), 0o700))
	return dir
}

// newUnsignedInstallation returns an installation as svc-db leaves it, in which nothing is signed yet.
func newUnsignedInstallation(t *testing.T) *installation {
	t.Helper()
	s := newSeededInstallation(t)
	server, err := pgserver.Start(t.Context(), pgserver.Config{Dir: s.file("postgres")})
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Stop()) }()
	c, err := pgx.Connect(t.Context(), server.URL("svc"))
	require.NoError(t, err)
	defer c.Close(context.WithoutCancel(t.Context()))
	_, err = c.Exec(t.Context(), `truncate proof_hashes, proof_tiles, proof_checkpoints; delete from checkpoints where view = 'proof'`)
	require.NoError(t, err)
	return s
}

// findValue returns the value at a path in the first answer that has it.
func findValue(t *testing.T, answers []string, place string) string {
	t.Helper()
	for _, answer := range answers {
		if found := gjson.Get(answer, place); found.Exists() {
			return found.Raw
		}
	}
	require.FailNow(t, "no answer has "+place)
	return ""
}

// runCommands runs commands in a shell, as if pasted, and returns the lines of its output. It
// requires an empty standard error.
func runCommands(t *testing.T, folder, commands string) []string {
	t.Helper()
	sh := exec.CommandContext(t.Context(), "sh", "-e")
	sh.Dir = folder
	sh.Stdin = strings.NewReader(commands)
	sh.Env = append(cleanEnviron(), "GORACE=atexit_sleep_ms=0")
	var failures strings.Builder
	sh.Stderr = &failures
	out, err := sh.Output()
	require.NoError(t, err, "%s%s", out, failures.String())
	require.Empty(t, failures.String())
	return slices.DeleteFunc(strings.Split(string(out), "\n"), func(line string) bool { return line == "" || progressLine.MatchString(line) })
}

// progressLine matches what svc-db prints once a second while it is slow.
var progressLine = regexp.MustCompile(`: \d+ of \d+ events, .* left$`)

// varyingParts are what differs between two services: ids, hashes, numbers, issues.
var varyingParts = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9A-Za-z+/]{43}=|\d+(\.\d+)?(ms|s)?|Greet in \p{L}+`)

// answerForm returns what is the same in each answer: the field names of JSON and the values of
// stableFields, or the words of a text.
func answerForm(t *testing.T, line string) any {
	t.Helper()
	if !strings.HasPrefix(line, "{") {
		return varyingParts.ReplaceAllString(line, "0")
	}
	var v any
	require.NoError(t, json.Unmarshal([]byte(line), &v), line)
	return fieldNames(v, "")
}

// stableFields are paths whose values do not depend on when the demonstration data was created.
var stableFields = regexp.MustCompile(
	`\.(code|message|action|outcome|field|email|role|isYou|displayRole|scopes\[\]|ok|kindId|integrity|state|(account|actor|target)\.name)$`)

// fieldNames returns the paths in a JSON value, and those of stableFields with their values.
func fieldNames(v any, at string) (list []string) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			list = append(list, at+"."+name)
			list = append(list, fieldNames(v[name], at+"."+name)...)
		}
	case []any:
		for _, item := range v {
			list = append(list, fieldNames(item, at+"[]")...)
		}
	default:
		if stableFields.MatchString(at) {
			list = append(list, varyingParts.ReplaceAllString(fmt.Sprint(at, "=", v), "0"))
		}
	}
	return list
}
