package farm

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

const (
	tail    = 64 << 10 // bytes of a log that are shown at first, and that come before them at a press
	maxPart = 1 << 20  // bytes of an answer that are read for one part
	perPart = 5000     // lines of a part
	leading = 16 << 10 // bytes that are shown before a line that the log is shown for
)

// A logPart is some lines of a log, and where it goes on.
type logPart struct {
	Lines   []logLine
	From    int64 // the byte that is asked for
	Cut     bool  // the line there is left out: it begins before, or is shown already
	To      int64 // the byte before which the part ends; 0 is the end of the log
	Attempt int64
	Full    bool   // there is more of it
	Live    bool   // more may be written
	Removed string // why there is no log any more; "" if there is one
	Find    string // a text that has marks
	Marked  bool   // one line is what the part is shown for
	At      int64  // its first byte
}

// A logLine is one line.
type logLine struct {
	At      time.Time
	Offset  int64
	Line    int64 // its number from 1; 0 if it has none
	Text    string
	Partial bool
}

// around is the part of a log in which the line is that begins at a byte, with what comes before it.
func around(at, attempt int64) logPart {
	from := max(0, at-leading)
	return logPart{From: from, Cut: from > 0, Attempt: attempt, Marked: true, At: at}
}

// isFor reports whether a line is what the part is shown for.
func (p *logPart) isFor(l logLine) bool { return p.Marked && l.Offset == p.At }

// lines shows a part of a log. One that grows asks for the next part by itself.
func lines(v *page.Visit) (page.Page, error) {
	part := logPart{
		From: whole(v.Query("from")), Cut: v.Query("cut") != "", To: whole(v.Query("to")), Attempt: whole(v.Query("attempt")),
		Find: v.Query("find"), Marked: v.Query("at") != "", At: whole(v.Query("at")),
	}
	err := part.load(v)
	return page.Page{Part: linesView(v, part)}, err
}

// whole returns a number of the query; what is none, or below zero, is 0.
func whole(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

func (p *logPart) load(v *page.Visit) error {
	resp, err := v.API.GetJobLog(v.Context(), v.PathValue("id"), &client.GetJobLogParams{
		Attempt: client.Optional(p.Attempt), From: client.Optional(p.From), Format: client.Optional(client.GetJobLogParamsFormat("ndjson")),
	})
	if err == nil && resp.StatusCode == http.StatusRequestedRangeNotSatisfiable { // nothing new
		p.Live = resp.Header.Get("X-Svc-Log-Complete") != "true"
		return resp.Body.Close()
	}
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		err = client.Done(resp, nil)
	}
	if r := client.AsRefused(err); r != nil && r.Status == http.StatusGone {
		p.Removed = r.Message
		return nil
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	p.Live = resp.Header.Get("X-Svc-Log-Complete") != "true"
	return p.read(io.LimitReader(resp.Body, maxPart))
}

// read takes lines in. The last line of a log that grows is left for the next part if it
// has not ended; one that is too long comes in several, which are taken.
func (p *logPart) read(from io.Reader) error {
	cut, pending := p.Cut, []logLine(nil)
	scan := bufio.NewScanner(from)
	scan.Buffer(nil, maxPart)
	for scan.Scan() {
		var l logLine
		if json.Unmarshal(scan.Bytes(), &l) != nil {
			break // what the limit has cut off
		}
		p.Lines, pending = append(p.Lines, pending...), nil
		if p.Full = len(p.Lines) >= perPart; p.Full || p.To > 0 && l.Offset >= p.To {
			break
		}
		switch {
		case cut:
			cut = false
		case l.Partial && p.Live:
			pending = []logLine{l}
		default:
			p.Lines = append(p.Lines, l)
		}
	}
	if err := scan.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("read a log: %w", err)
	}
	return nil
}

// query asks for the part.
func (p *logPart) query() string {
	q := "?attempt=" + kit.Digits(p.Attempt) + "&from=" + kit.Digits(p.From)
	if p.To > 0 {
		q += "&to=" + kit.Digits(p.To)
	}
	if p.Cut {
		q += "&cut=on"
	}
	return q + p.markQuery()
}

// next is the part that follows. It is asked for by the last line that is shown: how many
// bytes that had its text does not say.
func (p *logPart) next() *logPart {
	n := &logPart{From: p.From, Cut: p.Cut, To: p.To, Attempt: p.Attempt, Find: p.Find, Marked: p.Marked, At: p.At}
	if len(p.Lines) > 0 {
		n.From, n.Cut = p.Lines[len(p.Lines)-1].Offset, true
	}
	return n
}

// before is the part that comes before what is shown; ok is false if nothing does.
func (p *logPart) before() (before *logPart, ok bool) {
	to := p.To
	if len(p.Lines) > 0 {
		to = p.Lines[0].Offset
	}
	from := max(0, min(p.From, to)-tail)
	return &logPart{From: from, Cut: from > 0, To: to, Attempt: p.Attempt, Find: p.Find, Marked: p.Marked, At: p.At}, p.Cut && p.From > 0 &&
		to > 0
}
