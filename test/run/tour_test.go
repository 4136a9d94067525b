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
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"svc/dev/pgserver"
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

// TestTheReadmeTellsTheTruth pastes its tour into a shell, all at once, in a
// folder that looks like a checkout in which make run has just said that it runs.
// The answers have the form that it shows, where ", …" leaves out the rest of an object,
// and are about what was just done.
func TestTheReadmeTellsTheTruth(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, tour, found := strings.Cut(string(text), "\n## A three-minute tour\n")
	require.True(t, found)
	tour, _, _ = strings.Cut(tour, "\n## ")

	s := unsignedSite(t)
	svc := s.start().until(running)
	require.NoError(t, os.Symlink(s.data, filepath.Join(s.home, ".svc")))
	require.NoError(t, os.Symlink(programs, filepath.Join(s.home, "bin")))
	const address = "http://127.0.0.1:4000"
	require.Contains(t, tour, address)
	var script string
	var shown []string
	for _, block := range regexp.MustCompile("(?s)```(sh|json|)\n(.*?)```").FindAllStringSubmatch(strings.ReplaceAll(tour, address,
		s.dev().RestURL), -1) {
		if block[1] == "sh" {
			script += block[2]
		} else {
			shown = append(shown, strings.Split(strings.TrimSpace(block[2]), "\n")...)
		}
	}
	require.NotEmpty(t, shown)
	answers := slices.CompactFunc(paste(t, s.home, script), func(a, b string) bool { return piece.MatchString(a) && piece.MatchString(b) })
	require.Len(t, answers, len(shown), strings.Join(answers, "\n"))
	for i := range shown {
		want, got := form(t, strings.ReplaceAll(shown[i], ", …", "")), form(t, answers[i])
		if strings.Contains(shown[i], ", …") {
			require.Subset(t, got, want, answers[i])
		} else {
			require.Equal(t, want, got, answers[i])
		}
	}
	made := find(t, answers, "account.id")
	require.Equal(t, made, find(t, answers, "items.0.target.id"), "the record is of the account that was just made")
	require.Equal(t, find(t, answers, "items.0.seq"), find(t, answers, "size"), "and signed for")
	digest := strings.Trim(find(t, answers, "items.0.sha256"), `"`)
	require.Contains(t, answers, digest+"  -", "what was downloaded is what the job left")
	text, err = os.ReadFile(filepath.Join(s.home, ".svc", "headers"))
	require.NoError(t, err)
	require.Regexp(t, `^HTTP/1.1 202 `, string(text), "of the cancel")
	s.stop(svc)
}

// piece is a part of a log, of which there are as many as there were moments to write in.
var piece = regexp.MustCompile(`^\{"attempt":1,"offset":\d+,.*"text":"`)

// unsignedSite is a site as svc-db leaves it: nothing is signed yet.
func unsignedSite(t *testing.T) *site {
	t.Helper()
	s := seededSite(t)
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

// find returns what is at a place of the first answer that has something there.
func find(t *testing.T, answers []string, place string) string {
	t.Helper()
	for _, answer := range answers {
		if found := gjson.Get(answer, place); found.Exists() {
			return found.Raw
		}
	}
	require.FailNow(t, "no answer has "+place)
	return ""
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

// form is what stays the same of an answer: the names in it, with what the tour
// speaks of, or its words.
func form(t *testing.T, line string) any {
	t.Helper()
	if !strings.HasPrefix(line, "{") {
		return vary.ReplaceAllString(line, "0")
	}
	var v any
	require.NoError(t, json.Unmarshal([]byte(line), &v), line)
	return names(v, "")
}

// spoken are places whose values do not depend on when the demonstration was made.
var spoken = regexp.MustCompile(
	`\.(code|message|action|outcome|field|email|displayRole|scopes\[\]|ok|kindId|integrity|state|(account|actor|target)\.name)$`)

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
	default:
		if spoken.MatchString(at) {
			list = append(list, fmt.Sprint(at, "=", v))
		}
	}
	return list
}
