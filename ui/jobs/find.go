package jobs

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

const maxMatches = 1000 // lines; more are reported as "more than"

// A logSearch is the result of a text search in a job's log.
type logSearch struct {
	Text    string
	Lines   []logLine
	Current int    // number of the shown match, from 1; 0 if there is none
	More    bool   // whether there are more matches than Lines
	Problem string // why the search was refused; "" if it was not
}

// searchLog searches the log of an attempt, 0 for the last one, for the page's text, and
// selects the match that the page asks for.
func searchLog(ctx context.Context, v *page.Visit, attempt int64) (logSearch, error) {
	f := logSearch{Text: v.Query("find")}
	resp, err := v.API.GetJobLog(ctx, v.PathValue("id"), &client.GetJobLogParams{
		Attempt: client.Optional(attempt), Q: &f.Text, Format: client.Optional(client.GetJobLogParamsFormat("ndjson")),
	})
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		err = client.CheckResponse(resp, nil)
	}
	if r := client.AsRefused(err); r != nil {
		f.Problem = r.Message
		return f, nil
	}
	if err != nil {
		return f, err
	}
	defer resp.Body.Close()
	part := logPart{}
	if err := part.read(resp.Body); err != nil {
		return f, err
	}
	f.setMatches(part.Lines, part.HasMore, page.ParseNumber(v.Query("match")))
	return f, nil
}

// setMatches stores the matching lines, after which there may be more, and selects the match
// with a number, or the nearest one that exists.
func (f *logSearch) setMatches(lines []logLine, more bool, number int64) {
	f.More = more || len(lines) > maxMatches
	f.Lines = lines[:min(len(lines), maxMatches)]
	f.Current = min(max(int(number), 1), len(f.Lines))
}

// neighbour returns the number of the match that is by matches further, wrapping around.
func (f *logSearch) neighbour(by int) string {
	n := len(f.Lines)
	return kit.Digits(int64((f.Current-1+by+n)%n + 1))
}

// summary describes the position among the matches: "2 of 17".
func (f *logSearch) summary() string {
	switch {
	case f.Problem != "":
		return f.Problem
	case f.Current == 0:
		return "Not found"
	case f.More:
		return fmt.Sprintf("%d of more than %s", f.Current, kit.Number(int64(len(f.Lines))))
	}
	return fmt.Sprintf("%d of %s", f.Current, kit.Number(int64(len(f.Lines))))
}

// part returns the part of the log around the selected match.
func (f *logSearch) part(attempt int64) logPart {
	p := partAround(f.Lines[f.Current-1].Offset, attempt)
	p.Find = f.Text
	return p
}

// markQuery returns the query parameters that keep matches and the target line highlighted.
func (p *logPart) markQuery() (q string) {
	if p.Find != "" {
		q = "&find=" + url.QueryEscape(p.Find)
	}
	if p.HasTarget {
		q += "&at=" + kit.Digits(p.At)
	}
	return q
}

// A markedSpan is a span that is inside or outside of a match as a whole.
type markedSpan struct {
	styledSpan
	found bool
}

// markMatches splits spans at the beginnings and ends of matches, ignoring case.
func (p *logPart) markMatches(list []styledSpan) (out []markedSpan) {
	var line string
	for _, s := range list {
		line += s.text
	}
	var hits [][]int
	if p.Find != "" {
		hits = regexp.MustCompile("(?i)"+regexp.QuoteMeta(p.Find)).FindAllStringIndex(line, maxSpans)
	}
	begin := 0 // offset of the span in the line
	for _, s := range list {
		at, end := begin, begin+len(s.text)
		for _, hit := range hits {
			from, to := max(hit[0], at), min(hit[1], end)
			if from >= to {
				continue
			}
			if from > at {
				out = append(out, markedSpan{styledSpan{line[at:from], s.class}, false})
			}
			out = append(out, markedSpan{styledSpan{line[from:to], s.class}, true})
			at = to
		}
		if at < end {
			out = append(out, markedSpan{styledSpan{line[at:end], s.class}, false})
		}
		begin = end
	}
	return out
}
