//go:build linux

package run

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatTheBannerSaysWorks pastes the commands into a shell.
func TestWhatTheBannerSaysWorks(t *testing.T) {
	t.Parallel()
	s := seededSite(t)
	svc := s.start().until("/runs?status=active'\n")
	d := s.dev()
	text := svc.out.String()
	for _, place := range []string{d.RestURL + "/api/v1", d.RestURL + "/api/docs", d.EngineURL, s.file("dev.json")} {
		require.Contains(t, text, place)
	}
	commands := strings.Join(regexp.MustCompile(`(?m)^  (curl|token=).*$`).FindAllString(text, -1), "\n")
	answers := paste(t, s.home, commands)
	require.Len(t, answers, 3)
	require.Contains(t, answers[0], `"email":"`+d.owner(t).Email+`"`)
	require.Regexp(t, `^\{"total":6,.*"isYou":true`, answers[1], "the members of acme, not of the person's own workspace")
	require.Regexp(t, `^\{"total":[1-9]\d*,.*"stageLabel"`, answers[2])
	s.stop(svc)
}

// TestTheReadmeTellsTheTruth pastes its tour into a shell, in a folder that
// looks like a checkout in which make run is at work. The answers have the
// form that it shows.
func TestTheReadmeTellsTheTruth(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, tour, found := strings.Cut(string(text), "\n## Three minutes\n")
	require.True(t, found)
	tour, _, _ = strings.Cut(tour, "\n## ")

	s := seededSite(t)
	svc := s.start().until(running)
	require.NoError(t, os.Symlink(s.data, filepath.Join(s.home, ".svc")))
	require.NoError(t, os.Symlink(programs, filepath.Join(s.home, "bin")))
	const address = "http://127.0.0.1:4000"
	require.Contains(t, tour, address)
	blocks := regexp.MustCompile("(?s)```(sh|json|)\n(.*?)```").FindAllStringSubmatch(strings.ReplaceAll(tour, address, s.dev().RestURL), -1)
	require.NotEmpty(t, blocks)
	var variables string
	var answers []string // to the last commands, those that were not shown yet
	for _, block := range blocks {
		if block[1] == "sh" {
			require.Empty(t, answers, "not shown")
			requireFollowed(t, s.connect("svc")) // as it is when a person has read so far
			answers = paste(t, s.home, variables+block[2])
			variables += strings.Join(regexp.MustCompile(`(?m)^\w+=.*\n`).FindAllString(block[2], -1), "")
			continue
		}
		shown := strings.Split(strings.TrimSpace(block[2]), "\n")
		require.Len(t, answers, len(shown))
		for i := range shown {
			require.Equal(t, form(t, shown[i]), form(t, answers[i]), answers[i])
		}
		answers = nil
	}
	require.Empty(t, answers, "not shown")
	s.stop(svc)
}

// paste runs commands as a person does who has them in the clipboard. Nothing
// may be said on standard error. It returns the lines that come out.
func paste(t *testing.T, folder, commands string) []string {
	t.Helper()
	sh := exec.CommandContext(t.Context(), "sh", "-e")
	sh.Dir = folder
	sh.Stdin = strings.NewReader(commands)
	sh.Env = append(inherited(), "GORACE=atexit_sleep_ms=0")
	var failures strings.Builder
	sh.Stderr = &failures
	out, err := sh.Output()
	require.NoError(t, err, "%s%s", out, failures.String())
	require.Empty(t, failures.String())
	return slices.DeleteFunc(strings.Split(string(out), "\n"), func(line string) bool { return line == "" || progress.MatchString(line) })
}

// progress is said once a second, on machines that take so long.
var progress = regexp.MustCompile(`: \d+ of \d+ events, .* left$`)

// vary are what differs in the answers of two services: ids, hashes, numbers.
var vary = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9A-Za-z+/]{43}=|\d+(\.\d+)?(ms|s)?`)

// form is what stays the same of an answer: the names in it, or its words.
func form(t *testing.T, line string) any {
	t.Helper()
	if !strings.HasPrefix(line, "{") {
		return vary.ReplaceAllString(line, "0")
	}
	var v any
	require.NoError(t, json.Unmarshal([]byte(line), &v), line)
	return names(v, "")
}

func names(v any, at string) (list []string) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			list = append(list, at+"."+name)
			list = append(list, names(v[name], at+"."+name)...)
		}
	case []any:
		for _, item := range v {
			list = append(list, names(item, at+"[]")...)
		}
	}
	return list
}
