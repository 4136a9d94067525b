package jobs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

const (
	partBytes    = 64 << 10 // shown at first, and added by each click on "Earlier lines"
	maxPartBytes = 1 << 20  // read from a response for one part
	maxEndBytes  = 16 << 20 // the same for the end of a log, which has partBytes of lines that may be empty
	maxPartLines = 5000     // in one part
	contextBytes = 16 << 10 // shown before the target line
)

// A logPart is a part of a log: the request for it and the lines that were read.
type logPart struct {
	Lines     []logLine
	From      int64 // offset of the first byte
	SkipFirst bool  // the first line is left out: it begins before From, or is shown already
	To        int64 // offset at which the part ends; 0 for the end of the log
	End       bool  // of too many lines the last ones are shown, not the first
	Attempt   int64
	HasMore   bool   // the log goes on after the lines
	Live      bool   // the log may still grow
	Removed   string // message that the log was removed; "" if it was not
	Find      string // text whose matches are highlighted; "" for none
	HasTarget bool   // one line is the target of a link or search
	At        int64  // offset of the target line
	Before    *int64 // the step of the line before Lines; nil if there is none
	Steps     []client.JobStep
	Commands  []client.JobStepSpec
}

// A logLine is a line as the service sends it.
type logLine struct {
	At      time.Time
	Offset  int64
	Line    int64 // number from 1; 0 if unknown
	Text    string
	Step    *int64 // index of the step that wrote it; nil if unknown
	Partial bool
}

// end returns the offset after the line, or a few bytes less if its text differs from the log's bytes.
func (l logLine) end() int64 { return l.Offset + int64(len(l.Text)) + 1 }

// partAround returns the part of a log with the line at an offset and some lines before it.
func partAround(at, attempt int64) logPart {
	from := max(0, at-contextBytes)
	return logPart{From: from, SkipFirst: from > 0, Attempt: attempt, HasTarget: true, At: at}
}

// isTarget reports whether the line with an index is the target of the part: the one that contains its offset.
func (p *logPart) isTarget(i int) bool {
	return p.HasTarget && p.Lines[i].Offset <= p.At && (p.At < p.Lines[i].end() || i+1 < len(p.Lines) && p.At < p.Lines[i+1].Offset)
}

// stepsAt returns the steps, as indexes, whose output begins with the line with an index: usually none, and several
// if steps before it have written nothing.
func (p *logPart) stepsAt(i int) (begun []int64) {
	before := p.Before
	if i > 0 {
		before = p.Lines[i-1].Step
	}
	now := p.Lines[i].Step
	if now == nil {
		return nil
	}
	first := int64(0)
	if before != nil {
		first = *before + 1
	}
	for s := first; s <= *now; s++ {
		begun = append(begun, s)
	}
	return begun
}

// hasSteps reports whether the output of a step begins in the part.
func (p *logPart) hasSteps() bool {
	for i := range p.Lines {
		if len(p.stepsAt(i)) > 0 {
			return true
		}
	}
	return false
}

// lines shows a part of a log. The end of a growing log requests the next part.
func lines(v *page.Visit) (page.Page, error) {
	part := logPart{
		From: page.ParseNumber(v.Query("from")), SkipFirst: v.Query("cut") != "",
		To: page.ParseNumber(v.Query("to")), Attempt: page.ParseNumber(v.Query("attempt")),
		Find: v.Query("find"), HasTarget: v.Query("at") != "", At: page.ParseNumber(v.Query("at")),
	}
	err := part.load(v)
	if err == nil && part.hasSteps() {
		var job client.JobDetail
		job, err = client.Decode[client.JobDetail](v.API.GetJob(v.Context(), v.PathValue("id"), nil))
		part.Steps, part.Commands = job.Steps, job.Spec.Steps
	}
	return page.Page{Part: linesView(v, part)}, err
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
		err = client.CheckResponse(resp, nil)
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
	return p.read(resp.Body)
}

// read reads lines in NDJSON: the first ones, up to maxPartLines and maxPartBytes, or the last ones if the part is
// the end of the log. If the log is growing, it leaves an unfinished last line to the next part. The pieces of an
// overlong line are read as lines.
func (p *logPart) read(from io.Reader) error {
	skip, pending := p.SkipFirst, []logLine(nil)
	limited := &io.LimitedReader{R: from, N: maxPartBytes}
	if p.End {
		limited.N = maxEndBytes
	}
	scan := bufio.NewScanner(limited)
	scan.Buffer(nil, maxPartBytes)
	for scan.Scan() {
		var l logLine
		if json.Unmarshal(scan.Bytes(), &l) != nil {
			break // cut off by maxPartBytes
		}
		p.Lines, pending = append(p.Lines, pending...), nil
		if p.End && len(p.Lines) >= maxPartLines {
			p.SkipFirst, p.Before, p.Lines = true, p.Lines[0].Step, p.Lines[1:]
			p.From = p.Lines[0].Offset // so that the earlier lines end there
		}
		if p.HasMore = len(p.Lines) >= maxPartLines; p.HasMore || p.To > 0 && l.Offset >= p.To {
			return nil
		}
		switch {
		case skip:
			skip, p.Before = false, l.Step
		case l.Partial && p.Live:
			pending = []logLine{l}
		default:
			p.Lines = append(p.Lines, l)
		}
	}
	if err := scan.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("read a log: %w", err)
	}
	p.HasMore = limited.N <= 0 && len(p.Lines) > 0 // the next part starts at the last line
	return nil
}

// query returns the query string that requests the part.
func (p *logPart) query() string {
	q := "?attempt=" + kit.Digits(p.Attempt) + "&from=" + kit.Digits(p.From)
	if p.To > 0 {
		q += "&to=" + kit.Digits(p.To)
	}
	if p.SkipFirst {
		q += "&cut=on"
	}
	return q + p.markQuery()
}

// next returns the following part. It starts at the last line shown, which is skipped: a
// line's text does not tell how many bytes it has in the log.
func (p *logPart) next() *logPart {
	n := &logPart{From: p.From, SkipFirst: p.SkipFirst, To: p.To, Attempt: p.Attempt, Find: p.Find, HasTarget: p.HasTarget, At: p.At}
	if len(p.Lines) > 0 {
		n.From, n.SkipFirst = p.Lines[len(p.Lines)-1].Offset, true
	}
	return n
}

// previous returns the preceding part; ok is false if there is none.
func (p *logPart) previous() (part *logPart, ok bool) {
	to := p.To
	if len(p.Lines) > 0 {
		to = p.Lines[0].Offset
	}
	from := max(0, min(p.From, to)-partBytes)
	part = &logPart{From: from, SkipFirst: from > 0, To: to, Attempt: p.Attempt, Find: p.Find, HasTarget: p.HasTarget, At: p.At}
	return part, p.SkipFirst && p.From > 0 && to > 0
}
