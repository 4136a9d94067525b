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
	var script string
	var shown []string
	for _, block := range regexp.MustCompile("(?s)```(sh|json|)\n(.*?)```").FindAllStringSubmatch(tour, -1) {
		if block[1] == "sh" {
			script += block[2]
		} else {
			shown = append(shown, strings.Split(strings.TrimSpace(block[2]), "\n")...)
		}
	}
	const address = "http://127.0.0.1:4000"
	require.Contains(t, script, address)
	require.NotEmpty(t, shown)
	answers := paste(t, s.home, strings.ReplaceAll(script, address, s.dev().RestURL))
	require.Len(t, answers, len(shown))
	for i := range answers {
		require.Equal(t, form(t, shown[i]), form(t, answers[i]), answers[i])
	}
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
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

var number = regexp.MustCompile(`\d+(\.\d+)?(ms|s)?`)

// form is what stays the same of an answer: the names in it, or its words.
func form(t *testing.T, line string) any {
	t.Helper()
	if !strings.HasPrefix(line, "{") {
		return number.ReplaceAllString(line, "0")
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
