package jobs

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"time"
	"unicode/utf8"

	"svc/farm/joblog"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/projections/farmviews"
)

// maxLogLine bounds a line, in bytes. A longer line is split.
const maxLogLine = 64 << 10

// A logLine is a line of a log.
type logLine struct {
	Offset  int64             `json:"offset" doc:"The offset of its first byte in the log." example:"0"`
	Line    int64             `json:"line,omitempty" doc:"Its number, from 1. Absent in logs of earlier versions." example:"1"`
	At      openapi.Timestamp `json:"at" doc:"When its first byte was written."`
	Text    string            `json:"text" doc:"The line without its end." example:"ok  \tacme/web\t0.012s"`
	Step    *int              `json:"step,omitempty" doc:"The index, from 0, of the step that wrote its first byte. Absent before the first step, and in jobs of earlier versions." example:"0"`
	Partial bool              `json:"partial,omitempty" doc:"Whether the line goes on: in the next object, as it is longer than 64 KiB, or, in the last object, once more is written."`
}

// escapes matches terminal control sequences, such as colours, and begunEscape the beginning of one at the end of a text.
var (
	escapes     = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]`)
	begunEscape = regexp.MustCompile(`\x1b(\[[0-?]*[ -/]*)?$`)
)

// maxEscape is the length in bytes of the longest control sequence that is kept in one piece.
const maxEscape = 64

// logLines splits the chunks of a log into lines.
type logLines struct {
	filter     *regexp.Regexp // selects lines; nil selects all
	filterSize int            // characters of a text that filter matches
	stepAt     func(offset int64) (step int, ok bool)

	line   []byte // beginning of a line whose end has not been read
	offset int64
	number int64
	at     time.Time

	// Of the pieces before, if the line is so long that it is split.
	ending  []byte // the last characters, in which a match may begin
	skipped []byte // the last piece in NDJSON, if filter has not selected it
}

// newLogLines returns logLines of an attempt that select the lines that contain text, ignoring case and terminal
// colours. "" selects all lines.
func newLogLines(a farmviews.JobAttempt, text string) *logLines {
	l := &logLines{stepAt: a.StepAt}
	if text != "" {
		l.filter, l.filterSize = regexp.MustCompile("(?i)"+regexp.QuoteMeta(text)), utf8.RuneCountInString(text)
	}
	return l
}

// writeTo returns a function that writes the lines of chunks to out, as NDJSON.
func (l *logLines) writeTo(out *door.DeadlineWriter) func([]joblog.Chunk, bool) error {
	return func(list []joblog.Chunk, last bool) error {
		var page bytes.Buffer
		for _, c := range list {
			l.add(&page, c)
		}
		if last && len(l.line) > 0 {
			l.write(&page, true)
		}
		_, err := out.Write(page.Bytes())
		return err
	}
}

func (l *logLines) add(page *bytes.Buffer, c joblog.Chunk) {
	number := c.Line
	for at := c.Offset; len(c.Data) > 0; {
		if len(l.line) >= maxLogLine && c.Data[0] != '\n' {
			l.split(page)
		}
		if len(l.line) == 0 {
			l.offset, l.number, l.at = at, number, c.At
		}
		n := bytes.IndexByte(c.Data, '\n')
		ends := n >= 0
		if room := maxLogLine - len(l.line); !ends || n > room {
			n, ends = min(room, len(c.Data)), false
		}
		l.line = append(l.line, c.Data[:n]...)
		c.Data, at = c.Data[n:], at+int64(n)
		if ends {
			l.write(page, false)
			c.Data, at = c.Data[1:], at+1
			if number > 0 {
				number++
			}
			l.line = l.line[:0]
		}
	}
}

// split writes the beginning of a line that is too long, and keeps an incomplete character or control sequence at its end.
func (l *logLines) split(page *bytes.Buffer) {
	n := wholeRunes(l.line)
	if escape := begunEscape.FindIndex(l.line[max(0, n-maxEscape):n]); escape != nil {
		n = max(0, n-maxEscape) + escape[0]
	}
	if n == 0 {
		n = len(l.line)
	}
	rest := bytes.Clone(l.line[n:])
	l.line = l.line[:n]
	l.write(page, true)
	l.line, l.offset = append(l.line[:0], rest...), l.offset+int64(n)
}

// write appends the current line, or piece of one, if filter selects it. Of a match across two pieces it appends both.
func (l *logLines) write(page *bytes.Buffer, partial bool) {
	if l.filter == nil {
		page.Write(l.encoded(partial))
		return
	}
	text := slices.Concat(l.ending, escapes.ReplaceAll(l.line, nil))
	match := l.filter.FindIndex(text)
	var encoded []byte
	if match != nil || partial {
		encoded = l.encoded(partial)
	}
	if match != nil {
		if match[0] < len(l.ending) {
			page.Write(l.skipped)
		}
		page.Write(encoded)
		encoded = nil
	}
	l.ending, l.skipped = nil, nil
	if partial {
		l.ending, l.skipped = lastRunes(text, l.filterSize-1), encoded
	}
}

// lastRunes returns the last n characters of text.
func lastRunes(text []byte, n int) []byte {
	at := len(text)
	for ; n > 0 && at > 0; n-- {
		_, size := utf8.DecodeLastRune(text[:at])
		at -= size
	}
	return text[at:]
}

// encoded returns the current line in NDJSON.
func (l *logLines) encoded(partial bool) []byte {
	shown := logLine{
		Offset: l.offset, Line: l.number, At: openapi.FormatTime(l.at), Text: string(bytes.TrimSuffix(l.line, []byte("\r"))), Partial: partial,
	}
	if step, ok := l.stepAt(l.offset); ok {
		shown.Step = &step
	}
	line, err := json.Marshal(shown)
	if err != nil {
		panic(err) // cannot happen: strings and numbers
	}
	return append(line, '\n')
}
