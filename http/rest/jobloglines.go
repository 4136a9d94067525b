package rest

import (
	"bytes"
	"encoding/json"
	"regexp"
	"time"

	"svc/farm/joblog"
)

// maxLogLine is how many bytes a line has at most; a longer one comes in several.
const maxLogLine = 64 << 10

// A logLine is a line of a log with the time of its first byte.
type logLine struct {
	Offset  int64     `json:"offset"`
	Line    int64     `json:"line,omitempty"` // its number from 1; none in a log of an older version
	At      timestamp `json:"at"`
	Text    string    `json:"text"`
	Partial bool      `json:"partial,omitempty"` // it goes on in the next one, or later
}

// escapes are the sequences that say to a terminal how what follows looks.
var escapes = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]`)

// logLines makes lines of the pieces of a log.
type logLines struct {
	having *regexp.Regexp // what a line has to have, nil if none has to

	begun  []byte // of a line whose end has not come
	offset int64
	number int64
	at     time.Time
}

// linesWith returns logLines of which those are written that have text, in whatever case and
// colours. All have "".
func linesWith(text string) *logLines {
	if text == "" {
		return &logLines{}
	}
	return &logLines{having: regexp.MustCompile("(?i)" + regexp.QuoteMeta(text))}
}

// writeTo returns what writes the lines of pieces to out, each an object in JSON.
func (l *logLines) writeTo(out *deadlineWriter) func([]joblog.Chunk, bool) error {
	return func(list []joblog.Chunk, last bool) error {
		var page bytes.Buffer
		for _, c := range list {
			l.add(&page, c)
		}
		if last && len(l.begun) > 0 {
			l.write(&page, true)
		}
		return out.put(page.Bytes())
	}
}

func (l *logLines) add(page *bytes.Buffer, c joblog.Chunk) {
	number := c.Line
	for at := c.Offset; len(c.Data) > 0; {
		if len(l.begun) >= maxLogLine && c.Data[0] != '\n' {
			l.split(page)
		}
		if len(l.begun) == 0 {
			l.offset, l.number, l.at = at, number, c.At
		}
		n := bytes.IndexByte(c.Data, '\n')
		ends := n >= 0
		if room := maxLogLine - len(l.begun); !ends || n > room {
			n, ends = min(room, len(c.Data)), false
		}
		l.begun = append(l.begun, c.Data[:n]...)
		c.Data, at = c.Data[n:], at+int64(n)
		if ends {
			l.write(page, false)
			c.Data, at = c.Data[1:], at+1
			if number > 0 {
				number++
			}
			l.begun = l.begun[:0]
		}
	}
}

// split writes what there is of a line that is too long, and keeps what is no whole
// character yet.
func (l *logLines) split(page *bytes.Buffer) {
	n := wholeRunes(l.begun)
	if n == 0 {
		n = len(l.begun)
	}
	rest := bytes.Clone(l.begun[n:])
	l.begun = l.begun[:n]
	l.write(page, true)
	l.begun, l.offset = append(l.begun[:0], rest...), l.offset+int64(n)
}

// write writes the line that has begun, an empty one too, if it has what it has to.
func (l *logLines) write(page *bytes.Buffer, partial bool) {
	if l.having != nil && !l.having.Match(escapes.ReplaceAll(l.begun, nil)) {
		return
	}
	line, err := json.Marshal(logLine{l.offset, l.number, at(l.at), string(bytes.TrimSuffix(l.begun, []byte("\r"))), partial})
	if err != nil {
		panic(err) // texts and numbers
	}
	page.Write(line)
	page.WriteByte('\n')
}
