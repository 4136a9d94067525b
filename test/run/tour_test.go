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

// TestReadmeTourWorks runs the commands of the README's tour in one shell, in a folder that looks like
// a checkout in which make run is running. The answers must have the form that the README shows, where
// ", …" stands for the rest of an object, and concern what the tour has just done.
func TestReadmeTourWorks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, tour, found := strings.Cut(string(text), "\n## A three-minute tour\n")
	require.True(t, found)
	tour, _, _ = strings.Cut(tour, "\n## ")

	s := newUnsignedInstallation(t)
	svc := s.start().waitForOutput(runningBanner)
	require.NoError(t, os.Symlink(s.data, filepath.Join(s.home, ".svc")))
	require.NoError(t, os.Symlink(programs, filepath.Join(s.home, "bin")))
	const address = "http://127.0.0.1:4000"
	require.Contains(t, tour, address)
	var script string
	var shown []string
	tour = strings.NewReplacer(address, s.dev().RestURL, `"run":"go test ./..."`, `"run":"go test ./..."`+cached(t),
		`"run":"./dist.sh"`, `"run":"./dist.sh"`+cached(t)).Replace(tour)
	for _, block := range regexp.MustCompile("(?s)```(sh|json|)\n(.*?)```").FindAllStringSubmatch(tour, -1) {
		if block[1] == "sh" {
			script += block[2]
		} else {
			shown = append(shown, strings.Split(strings.TrimSpace(block[2]), "\n")...)
		}
	}
	require.NotEmpty(t, shown)
	bothLogChunks := func(a, b string) bool { return logChunk.MatchString(a) && logChunk.MatchString(b) }
	answers := slices.CompactFunc(runCommands(t, s.home, script), bothLogChunks)
	require.Len(t, answers, len(shown), strings.Join(answers, "\n"))
	for i := range shown {
		want, got := answerForm(t, strings.ReplaceAll(shown[i], ", …", "")), answerForm(t, answers[i])
		if strings.Contains(shown[i], ", …") {
			require.Subset(t, got, want, answers[i])
		} else {
			require.Equal(t, want, got, answers[i])
		}
	}
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
	text, err = os.ReadFile(filepath.Join(s.home, ".svc", "headers"))
	require.NoError(t, err)
	require.Regexp(t, `^HTTP/1.1 202 `, string(text), "the answer to the cancellation")
	s.stop(svc)
}

// logChunk matches one chunk of a job's log. The number of chunks varies.
var logChunk = regexp.MustCompile(`^\{"attempt":1,"offset":\d+,.*"text":"`)

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

// varyingParts are what differs between two services: ids, hashes, numbers.
var varyingParts = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9A-Za-z+/]{43}=|\d+(\.\d+)?(ms|s)?`)

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
	`\.(code|message|action|outcome|field|email|displayRole|scopes\[\]|ok|kindId|integrity|state|(account|actor|target)\.name)$`)

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
