package jobs

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/farm/joblog"
	"svc/http/rest/door"
	"svc/projections/farmviews"
)

func TestApplyRange(t *testing.T) {
	for text, want := range map[string]struct {
		from, to      int64
		isRange       bool
		unsatisfiable bool
	}{
		"":                            {0, 100, false, false},
		"bytes=0-":                    {0, 100, true, false},
		"bytes=10-19":                 {10, 20, true, false},
		"bytes=90-500":                {90, 100, true, false},
		"bytes=-30":                   {70, 100, true, false},
		"bytes=-500":                  {0, 100, true, false},
		"bytes=100-":                  {100, 100, true, true},
		"bytes=-0":                    {100, 100, true, true},
		"bytes=20-10":                 {0, 100, false, false},
		"bytes=1-2,5-6":               {0, 100, false, false},
		"bytes=a-b":                   {0, 100, false, false},
		"bytes=1-b":                   {0, 100, false, false},
		"bytes=-":                     {0, 100, false, false},
		"lines=1-2":                   {0, 100, false, false},
		"bytes=1":                     {0, 100, false, false},
		"bytes=+1-2":                  {0, 100, false, false},
		"bytes=99999999999999999999-": {1<<62 - 1, 100, true, true},
		"bytes=5-9999999999999999999": {5, 100, true, false},
		"bytes=-99999999999999999999": {0, 100, true, false},
	} {
		p := &logPart{size: 100, to: 100}
		p.applyRange(text)
		require.Equal(t, want.from, p.from, text)
		require.Equal(t, want.to, p.to, text)
		require.Equal(t, want.isRange, p.isRange, text)
		require.Equal(t, want.unsatisfiable, p.unsatisfiable, text)
	}
	for text, unsatisfiable := range map[string]bool{"bytes=-5": false, "bytes=0-": true, "bytes=0-0": true} {
		empty := &logPart{}
		empty.applyRange(text)
		require.Equal(t, unsatisfiable, empty.unsatisfiable, text)
		require.Equal(t, unsatisfiable, empty.isRange, text)
	}
}

func TestWholeRunes(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "abc": 3, "aé": 3, "a\xc3": 1, "a\xe2\x82": 1, "a\xe2\x82\xac": 4, "a\xf0\x9f\x98": 1, "\xf0": 0, "\xff": 1,
		"a\x80\x80\x80\x80": 5,
	} {
		require.Equal(t, want, wholeRunes([]byte(text)), "%q", text)
	}
}

// The lines are the same however the log is split into chunks.
func TestLogLinesDoNotDependOnChunks(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	long := strings.Repeat("é", maxLogLine)
	text := "one\r\n\ntwo é\n" + long + "\nthe last"
	lines := func(size int, from int64) string {
		w := httptest.NewRecorder()
		write := newLogLines(farmviews.JobAttempt{}, "").writeTo(door.NewDeadlineWriter(deadlines{w}, door.Pace{Timeout: time.Minute}, nil))
		for at := from; at < int64(len(text)); at += int64(size) {
			end := min(at+int64(size), int64(len(text)))
			require.NoError(t, write([]joblog.Chunk{{Offset: at, At: noon, Data: bytes.Clone([]byte(text[at:end]))}}, end == int64(len(text))))
		}
		return w.Body.String()
	}
	whole := lines(len(text), 0)
	require.True(t, strings.HasPrefix(whole, `{"offset":0,"at":"2026-11-20T12:00:00.000Z","text":"one"}
{"offset":5,"at":"2026-11-20T12:00:00.000Z","text":""}
{"offset":6,"at":"2026-11-20T12:00:00.000Z","text":"two é"}
{"offset":13,"at":"2026-11-20T12:00:00.000Z","text":"éé`), whole[:200])
	require.Contains(t, whole, `"text":"the last","partial":true}`)
	require.NotContains(t, whole, "\ufffd", "no character is cut")
	require.Equal(t, 2, strings.Count(whole, `"partial":true`), "the long line comes in two, the last one is not ended")
	for _, size := range []int{1, 7, 1000, maxLogLine + 1} {
		require.True(t, whole == lines(size, 0), "chunks of %d", size)
	}
	require.True(t, strings.HasPrefix(lines(10, 6), `{"offset":6,"at":"2026-11-20T12:00:00.000Z","text":"two é"}`))
}

// Line numbers come from the chunks; chunks without one have none.
func TestLogLineNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		list []joblog.Chunk
		want string
	}{
		"in one chunk":             {[]joblog.Chunk{{Line: 7, Data: []byte("a\n\nb\n")}}, "7 8 9"},
		"across chunks":            {[]joblog.Chunk{{Line: 7, Data: []byte("a\nb")}, {Line: 8, Data: []byte("b\nc")}}, "7 8 9"},
		"from an older version on": {[]joblog.Chunk{{Line: 7, Data: []byte("a\nb")}, {Data: []byte("b\nc\n")}}, "7 8 0"},
		"of a line that is too long": {[]joblog.Chunk{{Line: 1, Data: bytes.Repeat([]byte("a"), maxLogLine+1)}, {Line: 1, Data: []byte("\nb")}},
			"1 1 2"},
	} {
		w := httptest.NewRecorder()
		write := newLogLines(farmviews.JobAttempt{}, "").writeTo(door.NewDeadlineWriter(deadlines{w}, door.Pace{Timeout: time.Minute}, nil))
		require.NoError(t, write(c.list, true))
		require.Equal(t, c.want, numbersOf(t, w.Body), name)
	}
}

// A line is of the step whose output contains its first byte, if that is known.
func TestLogLineSteps(t *testing.T) {
	steps := []farmviews.JobStep{{LogFrom: 2, LogLine: 2}, {LogFrom: 5, LogLine: 3}, {LogFrom: 5, LogLine: 3}, {}}
	w := httptest.NewRecorder()
	write := newLogLines(farmviews.JobAttempt{Steps: steps}, "").writeTo(door.NewDeadlineWriter(deadlines{w},
		door.Pace{Timeout: time.Minute}, nil))
	require.NoError(t, write([]joblog.Chunk{{Line: 1, Data: []byte("a\nb\nc\nd\n")}}, true))
	var of []string
	for dec := json.NewDecoder(w.Body); dec.More(); {
		var l logLine
		require.NoError(t, dec.Decode(&l))
		step := "none"
		if l.Step != nil {
			step = strconv.Itoa(*l.Step)
		}
		of = append(of, l.Text+" "+step)
	}
	require.Equal(t, []string{"a none", "b 0", "c 0", "d 2"}, of, "d begins at 6")
}

func TestLogLineFilter(t *testing.T) {
	log := "ok\tacme/API\n\x1b[31mac\x1b[1mme\x1b[0m failed\nplain\nacm\ne\na.me\nACME"
	for text, want := range map[string]string{"acme": "1 2 7", "Acme failed": "2", "a.me": "6", "[31m": "", "\\": "", "E": "1 2 5 6 7"} {
		w := httptest.NewRecorder()
		write := newLogLines(farmviews.JobAttempt{}, text).writeTo(door.NewDeadlineWriter(deadlines{w}, door.Pace{Timeout: time.Minute}, nil))
		for i := range log { // each byte a chunk
			line := int64(strings.Count(log[:i], "\n") + 1)
			require.NoError(t, write([]joblog.Chunk{{Offset: int64(i), Line: line, Data: []byte(log[i : i+1])}}, i == len(log)-1))
		}
		require.Equal(t, want, numbersOf(t, w.Body), text)
	}
}

// The pieces of a line that is too long are searched as one text.
func TestLogLineFilterAcrossPieces(t *testing.T) {
	fill := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		log, text string
		want      string // which pieces: by their offsets
	}{
		"across two":                  {fill(maxLogLine-2) + "needle" + fill(9), "NEEDLE", "0 65536"},
		"its first character":         {fill(maxLogLine-1) + "needle", "needle", "0 65536"},
		"its last character":          {fill(maxLogLine-5) + "needle", "needle", "0 65536"},
		"at the end of the first":     {fill(maxLogLine-6) + "needle" + fill(9), "needle", "0"},
		"at the beginning":            {fill(maxLogLine) + "needle", "needle", "65536"},
		"in the first and across":     {"needle" + fill(maxLogLine-8) + "needle", "needle", "0 65536"},
		"the second of three":         {fill(2*maxLogLine-3) + "needle" + fill(9), "needle", "65536 131072"},
		"across, with colours":        {fill(maxLogLine-12) + "ne\x1b[1med\x1b[31;1mle", "needle", "0 65532"},
		"letters of different length": {fill(maxLogLine-3) + "\u212aelvin", "kelvin", "0 65536"},
		"not in the next line":        {fill(maxLogLine-3) + "nee\ndle", "needle", ""},
		"not across, in the ending":   {fill(maxLogLine-2) + "kk" + fill(9), "kk", "0"},
		"a letter":                    {fill(maxLogLine) + "needle", "n", "65536"},
	} {
		w := httptest.NewRecorder()
		write := newLogLines(farmviews.JobAttempt{}, c.text).writeTo(door.NewDeadlineWriter(deadlines{w}, door.Pace{Timeout: time.Minute}, nil))
		require.NoError(t, write([]joblog.Chunk{{Line: 1, Data: []byte(c.log)}}, true))
		var offsets []string
		for dec := json.NewDecoder(w.Body); dec.More(); {
			var l logLine
			require.NoError(t, dec.Decode(&l))
			offsets = append(offsets, strconv.FormatInt(l.Offset, 10))
		}
		require.Equal(t, c.want, strings.Join(offsets, " "), name)
	}
}

func numbersOf(t *testing.T, lines io.Reader) string {
	t.Helper()
	var numbers []string
	for dec := json.NewDecoder(lines); dec.More(); {
		var l logLine
		require.NoError(t, dec.Decode(&l))
		numbers = append(numbers, strconv.FormatInt(l.Line, 10))
	}
	return strings.Join(numbers, " ")
}

// deadlines takes a deadline, as a connection does.
type deadlines struct{ http.ResponseWriter }

func (deadlines) SetWriteDeadline(time.Time) error { return nil }

func (d deadlines) Unwrap() http.ResponseWriter { return d.ResponseWriter }
