package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"svc/ui/client"
	"svc/ui/page"
)

// ndjson returns lines as the service sends them. Texts with a leading "+" are partial.
func ndjson(from int64, texts ...string) *strings.Reader {
	var out strings.Builder
	for _, text := range texts {
		text, partial := strings.CutPrefix(text, "+")
		quoted, _ := json.Marshal(text)
		fmt.Fprintf(&out, `{"offset":%d,"at":"2026-11-20T23:56:25.123Z","text":%s,"partial":%t}`+"\n", from, quoted, partial)
		from += 10
	}
	return strings.NewReader(out.String())
}

func (p *logPart) texts() (list []string) {
	for _, l := range p.Lines {
		list = append(list, l.Text)
	}
	return list
}

// The next part is requested from the start of the last line, so bytes missing from a
// line's text, such as a carriage return, do not shift it.
func TestPartsFollowEachOther(t *testing.T) {
	t.Parallel()
	p := logPart{Attempt: 2, Live: true}
	require.NoError(t, p.read(ndjson(0, "a", "b", "+c")))
	require.Equal(t, []string{"a", "b"}, p.texts(), "an unfinished line is left to the next part")
	next := p.next()
	require.Equal(t, "?attempt=2&from=10&cut=on", next.query())
	require.NoError(t, next.read(ndjson(10, "b", "c")))
	require.Equal(t, []string{"c"}, next.texts())
	require.Equal(t, "?attempt=2&from=20&cut=on", next.next().query())
	nothing := logPart{From: 20, SkipFirst: true, Attempt: 2, Live: true}
	require.NoError(t, nothing.read(ndjson(20, "c")))
	require.Equal(t, "?attempt=2&from=20&cut=on", nothing.next().query())
}

// A part that reaches the limit within a line or after it is followed by another one.
func TestPartBeyondTheLimitHasMore(t *testing.T) {
	t.Parallel()
	long := make([]string, 20)
	for i := range long {
		long[i] = strings.Repeat("x", maxPartBytes/len(long)-i)
	}
	var p logPart
	require.NoError(t, p.read(ndjson(0, long...)))
	require.Len(t, p.Lines, len(long)-1)
	require.True(t, p.HasMore)
	next := p.next()
	require.NoError(t, next.read(ndjson(next.From, long[len(long)-2:]...)))
	require.Equal(t, long[len(long)-1:], next.texts())
	require.False(t, next.HasMore)

	full, err := io.ReadAll(ndjson(0, "a", "b"))
	require.NoError(t, err)
	full = append(bytes.Repeat([]byte(" "), maxPartBytes-len(full)), full...)
	p = logPart{}
	require.NoError(t, p.read(io.MultiReader(bytes.NewReader(full), ndjson(20, "c"))))
	require.Equal(t, []string{"a", "b"}, p.texts())
	require.True(t, p.HasMore, "the limit is reached at the end of a line")

	p = logPart{To: 10}
	require.NoError(t, p.read(ndjson(0, long...)))
	require.Len(t, p.Lines, 1)
	require.False(t, p.HasMore, "the part ends before the limit")
}

// A line's number leads to the line on the job's page, also from the page of a run, which shows the end of the log.
func TestLineNumbersLeadToTheJob(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/w/acme/farm/jobs/j1/lines", nil)
	r.SetPathValue("workspace", "acme")
	r.SetPathValue("id", "j1")
	var out bytes.Buffer
	part := logPart{Attempt: 2, Lines: []logLine{{Line: 7, Offset: 90, Text: "a"}}}
	require.NoError(t, linesView(&page.Visit{Request: r}, part).Render(t.Context(), &out))
	require.Contains(t, out.String(), `href="/w/acme/farm/jobs/j1?attempt=2&amp;at=90#L7"`)
}

func TestOverlongLineIsReadInPieces(t *testing.T) {
	t.Parallel()
	p := logPart{Live: true}
	require.NoError(t, p.read(ndjson(0, "+begun", "+goes on", "end", "+grows")))
	require.Equal(t, []string{"begun", "goes on", "end"}, p.texts())
	p = logPart{}
	require.NoError(t, p.read(ndjson(0, "+without an end")))
	require.Equal(t, []string{"without an end"}, p.texts())
}

func TestPreviousPart(t *testing.T) {
	t.Parallel()
	end := logPart{From: 3 * partBytes, SkipFirst: true}
	require.NoError(t, end.read(ndjson(3*partBytes, "half", "x", "y")))
	require.Equal(t, []string{"x", "y"}, end.texts())
	before, ok := end.previous()
	require.True(t, ok)
	require.Equal(t, logPart{From: 2 * partBytes, SkipFirst: true, To: 3*partBytes + 10}, *before)
	require.NoError(t, before.read(ndjson(3*partBytes-10, "w", "half", "x")))
	require.Equal(t, []string{"half"}, before.texts(), "it ends where the next part begins")
	first, ok := (&logPart{From: 10, SkipFirst: true, To: 20}).previous()
	require.True(t, ok)
	require.Equal(t, logPart{To: 20}, *first)
	_, ok = first.previous()
	require.False(t, ok)
}

func TestPartHasAMaximum(t *testing.T) {
	t.Parallel()
	p := logPart{}
	require.NoError(t, p.read(ndjson(0, make([]string, maxPartLines+1)...)))
	require.Len(t, p.Lines, maxPartLines)
	require.True(t, p.HasMore)
	p = logPart{}
	require.NoError(t, p.read(ndjson(0, make([]string, maxPartLines)...)))
	require.False(t, p.HasMore)
}

// The end of a log is shown however short its lines are, and the lines before it are the previous part.
func TestEndOfShortLines(t *testing.T) {
	t.Parallel()
	all := make([]string, partBytes)
	all[partBytes-1] = "the last"
	p := logPart{From: 7, SkipFirst: true, End: true}
	require.NoError(t, p.read(ndjson(7, all...)))
	require.False(t, p.HasMore)
	require.Len(t, p.Lines, maxPartLines)
	require.Equal(t, "the last", p.Lines[maxPartLines-1].Text)
	before, ok := p.previous()
	require.True(t, ok)
	require.Equal(t, p.Lines[0].Offset, before.To)
}

// A removed log is not shown as an empty one.
func TestRemovedLog(t *testing.T) {
	t.Parallel()
	rest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusGone)
		_, _ = io.WriteString(w, `{"code":"log_removed","message":"This log was removed: logs of jobs are kept for 30 days.",`+
			`"details":{"keptDays":30}}`)
	}))
	t.Cleanup(rest.Close)
	r := httptest.NewRequest(http.MethodGet, "/w/acme/farm/jobs/1/lines?first=on", nil)
	p, err := lines(&page.Visit{Request: r, API: client.NewService(rest.URL).NewSession(r, "acme")})
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, p.Part.Render(t.Context(), &text))
	require.Contains(t, text.String(), "This log was removed: logs of jobs are kept for 30 days.")
	require.NotContains(t, text.String(), "hx-get", "nothing follows")
}

// A log that was cut is shown as such, while the job runs too.
func TestCutLog(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		integrity client.JobLogIntegrity
		cut       bool
		detail    string
	}{
		{"", true, "Cut at its limit"}, {"incomplete", true, "Incomplete (cut at its limit)"},
		{"verified", false, "Verified"}, {"", false, ""},
	} {
		log := client.JobLog{Integrity: tt.integrity, Truncated: tt.cut}
		job := client.JobDetail{Id: "j1", State: client.JobDetailStateRunning, Attempt: 2, Log: log}
		job.Attempts = []client.JobAttempt{{Attempt: 1}, {Attempt: 2, Log: log}}
		rest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if strings.HasSuffix(r.URL.Path, "/j1") {
				assert.NoError(t, json.NewEncoder(w).Encode(job))
				return
			}
			_, _ = io.WriteString(w, "{}")
		}))
		t.Cleanup(rest.Close)
		shown := func(query string) string {
			r := httptest.NewRequest(http.MethodGet, "/w/acme/farm/jobs/j1"+query, nil)
			r.SetPathValue("workspace", "acme")
			r.SetPathValue("id", "j1")
			p, err := showJob(&page.Visit{Request: r, API: client.NewService(rest.URL).NewSession(r, "acme")})
			require.NoError(t, err)
			var text bytes.Buffer
			require.NoError(t, p.Main.Render(t.Context(), &text))
			return strings.Join(strings.Fields(text.String()), " ")
		}
		const note = "The log was cut at its limit."
		text := shown("")
		require.Equal(t, tt.cut, strings.Contains(text, note))
		require.Equal(t, tt.detail != "", strings.Contains(text, "<dt>Log</dt>"))
		require.Contains(t, text, tt.detail)
		require.Equal(t, tt.cut, strings.Contains(shown("?attempt=2"), note))
		require.NotContains(t, shown("?attempt=1"), note, "the log of another attempt")
	}
}

// The output of each step is below its name, wherever a part of the log begins and whether or not steps before it
// have written something. Logs of earlier versions, whose lines name no step, have no names.
func TestStepsOfLog(t *testing.T) {
	t.Parallel()
	step := func(n int64) *int64 { return &n }
	lines := func(steps ...*int64) (list []logLine) {
		for i, s := range steps {
			list = append(list, logLine{Offset: int64(2 * i), Text: "x", Step: s})
		}
		return list
	}
	for name, c := range map[string]struct {
		part logPart
		want [][]int64
	}{
		"from the beginning":    {logPart{Lines: lines(nil, step(0), step(0), step(2))}, [][]int64{nil, {0}, nil, {1, 2}}},
		"within a step":         {logPart{Lines: lines(step(1), step(2)), Before: step(1)}, [][]int64{nil, {2}}},
		"of an earlier version": {logPart{Lines: lines(nil, nil)}, [][]int64{nil, nil}},
	} {
		for i, want := range c.want {
			require.Equal(t, want, c.part.stepsAt(i), "%s, line %d", name, i)
		}
		require.Equal(t, name != "of an earlier version", c.part.hasSteps(), name)
	}
}

// A step may begin within a line, which an address with its place then marks.
func TestTargetLine(t *testing.T) {
	t.Parallel()
	p := logPart{Lines: []logLine{{Offset: 10, Text: "abc"}, {Offset: 14, Text: "de"}}, HasTarget: true}
	for at, want := range map[int64][2]bool{9: {}, 10: {true, false}, 12: {true, false}, 14: {false, true}, 16: {false, true}, 17: {}} {
		p.At = at
		require.Equal(t, want, [2]bool{p.isTarget(0), p.isTarget(1)}, at)
	}
}

func TestJobsOfOneName(t *testing.T) {
	t.Parallel()
	at := time.Now()
	job := func(id, name, repo string, ran bool) (j client.FarmJob) {
		j.Id, j.Name = id, name
		if repo != "" {
			j.Repo = &client.JobRepoName{Id: repo}
		}
		if ran {
			j.StartedAt, j.FinishedAt = &at, &at
		}
		return j
	}
	list := []client.FarmJob{
		job("1", "test", "web", true), job("2", "test", "web", true), job("3", "tests", "web", true), job("4", "test", "api", true),
		job("5", "test", "", true), job("6", "test", "web", false),
	}
	require.Equal(t, list[1:2], likeJob(list, "1", "test", "web"))
	require.Equal(t, list[4:5], likeJob(list, "1", "test", ""))
}
