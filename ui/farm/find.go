package farm

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

const mostFound = 1000 // lines that have a text of which it is said how many they are

// A finding is where the log of a job has a text.
type finding struct {
	Text  string
	Lines []logLine
	Shown int    // which of them, from 1; 0 if there is none
	More  bool   // there are more
	Why   string // why it was not looked for; "" if it was
}

// look finds a text in the log of an attempt, 0 the last one, and chooses the line that is shown.
func look(ctx context.Context, v *page.Visit, attempt int64) (finding, error) {
	f := finding{Text: v.Query("find")}
	resp, err := v.API.GetJobLog(ctx, v.PathValue("id"), &client.GetJobLogParams{
		Attempt: client.Optional(attempt), Q: &f.Text, Format: client.Optional(client.GetJobLogParamsFormat("ndjson")),
	})
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		err = client.Done(resp, nil)
	}
	if r := client.AsRefused(err); r != nil {
		f.Why = r.Message
		return f, nil
	}
	if err != nil {
		return f, err
	}
	defer resp.Body.Close()
	part := logPart{}
	if err := part.read(io.LimitReader(resp.Body, maxPart)); err != nil {
		return f, err
	}
	f.choose(part.Lines, whole(v.Query("match")))
	return f, nil
}

// choose takes what was found, and shows the line of a number, or the next one there is.
func (f *finding) choose(lines []logLine, number int64) {
	f.More = len(lines) > mostFound
	f.Lines = lines[:min(len(lines), mostFound)]
	f.Shown = min(max(int(number), 1), len(f.Lines))
}

// after returns the number of the line that is so many further on, around the end.
func (f *finding) after(by int) string {
	n := len(f.Lines)
	return kit.Digits(int64((f.Shown-1+by+n)%n + 1))
}

// count says which line is shown, of how many.
func (f *finding) count() string {
	switch {
	case f.Why != "":
		return f.Why
	case f.Shown == 0:
		return "Not found"
	case f.More:
		return fmt.Sprintf("%d of more than %s", f.Shown, kit.Number(mostFound))
	}
	return fmt.Sprintf("%d of %s", f.Shown, kit.Number(int64(len(f.Lines))))
}

// part is where the log is shown from: from before the line.
func (f *finding) part(attempt int64) logPart {
	p := around(f.Lines[f.Shown-1].Offset, attempt)
	p.Find = f.Text
	return p
}

// markQuery is what a part of a log is asked for with, so that its lines have marks.
func (p *logPart) markQuery() (q string) {
	if p.Find != "" {
		q = "&find=" + url.QueryEscape(p.Find)
	}
	if p.Marked {
		q += "&at=" + kit.Digits(p.At)
	}
	return q
}

// A marked span is one of which all or nothing is what is looked for.
type marked struct {
	span
	found bool
}

// marks takes spans apart where the text begins and ends that is looked for.
func (p *logPart) marks(list []span) (out []marked) {
	var line string
	for _, s := range list {
		line += s.text
	}
	var hits [][]int
	if p.Find != "" {
		hits = regexp.MustCompile("(?i)"+regexp.QuoteMeta(p.Find)).FindAllStringIndex(line, maxSpans)
	}
	begin := 0 // of a span in the line
	for _, s := range list {
		at, end := begin, begin+len(s.text)
		for _, hit := range hits {
			from, to := max(hit[0], at), min(hit[1], end)
			if from >= to {
				continue
			}
			if from > at {
				out = append(out, marked{span{line[at:from], s.class}, false})
			}
			out = append(out, marked{span{line[from:to], s.class}, true})
			at = to
		}
		if at < end {
			out = append(out, marked{span{line[at:end], s.class}, false})
		}
		begin = end
	}
	return out
}
