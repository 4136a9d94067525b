package rest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"

	"svc/commands"
	"svc/events"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/projections"
	"svc/proof"
)

func (s *Server) exportRoutes() section {
	return section{tag: "Audit", routes: []route{
		command((*exportQuery).command, s.exportAudit, route{
			method: "GET", path: "/audit/export", guard: mayDo(events.ExportAudit), views: []string{"audit"},
			limits: middleware.Limits{Time: exportLimit, Stream: true},
			id:     "exportAudit", summary: "Export the audit log",
			text: "All records or those that the filter leaves, the oldest first, up to the newest one of the moment before the " +
				"export. It is recorded itself, as `audit.exported`, before the first byte. In CSV every cell is quoted, and what" +
				" a spreadsheet would run has an apostrophe before it, also within a cell that it may split. A browser has to ask" +
				" from the service's own site: 403 `cross_origin_refused`. A reader may be slow, but has to read something every " +
				"30 seconds. A person or a workspace may have two under way: 429 `rate_limited`.",
			ownSlot: true, answer: describeExport,
		}),
	}}
}

const (
	exportPage  = 500              // records that are read together; four such pages are in memory
	exportLimit = 24 * time.Hour   // for one export, however slowly it is read
	readLimit   = 30 * time.Second // in which its reader has to take something
)

type exportQuery struct {
	Format string `query:"format" required:"true" enum:"ndjson,csv"`
	Leaf   bool   `query:"leaf" doc:"ndjson only: add to each record its leaf of the workspace's Merkle log. With these an export without filters can be held against a checkpoint of GET /audit/verify by whoever has both; nothing else is asked."`
	AuditFilter
}

// An export is a copy of the audit log on its way to its reader.
type export struct {
	name   string // of the file
	format string
	leaf   bool // goes into each record
	upTo   int64
	next   func(ctx context.Context, seq int64) ([]projections.AuditRow, error) // records after one
	first  []projections.AuditRow
	still  func(context.Context) error // why the reader may not go on, nil if they may
}

// exportAudit records that a copy is taken, reads its first page, so that what
// goes wrong until then has an answer, and leaves the rest to the stream.
func (s *Server) exportAudit(ctx context.Context, in *exportQuery, take commands.ExportAudit) (_ *huma.StreamResponse, err error) {
	ctx, cancel := context.WithTimeout(ctx, beginLimit)
	defer cancel()
	c := callerOf(ctx)
	filter, err := in.filter()
	if err != nil {
		return nil, err
	}
	if in.Leaf && in.Format != "ndjson" {
		return nil, invalid("leaf", "goes with format=ndjson")
	}
	if err = s.take(ctx, s.bounds.exports); err != nil {
		return nil, err
	}
	head, _, err := s.views.History.Head(ctx, c.workspace)
	if err != nil {
		return nil, err
	}
	if err = s.lists.Views.Await(ctx, "audit", c.workspace, head); err != nil {
		return nil, err
	}
	take.UpTo = head
	done, err := s.commands.ExportAudit(ctx, take)
	if err != nil {
		return nil, err
	}
	e := &export{
		name:   fmt.Sprintf("audit-%s-%d.%s", c.slug, head, in.Format),
		format: in.Format, leaf: in.Leaf, upTo: head,
		next: func(ctx context.Context, seq int64) ([]projections.AuditRow, error) {
			return s.lists.Audit.RowsAfter(ctx, c.workspace, filter, seq, head, exportPage)
		},
	}
	if e.first, err = e.next(ctx, 0); err != nil {
		return nil, err
	}
	return openapi.Stream(func(w http.ResponseWriter, r *http.Request) {
		watch := s.live.Watch(c.workspace, nil)
		defer watch.Close()
		e.still = s.newRights(c, watch.Moved).still
		w.Header().Set("X-Svc-Position", strconv.FormatInt(done.Position, 10))
		s.send(w, r, e, readLimit)
	}), nil
}

func (in *exportQuery) command(c *caller, _ events.ID) (commands.ExportAudit, error) {
	return commands.ExportAudit{Meta: c.meta(), Format: in.Format, Filter: in.words()}, nil
}

// words returns the filter as it is recorded.
func (f AuditFilter) words() events.AuditFilter {
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	return events.AuditFilter{
		From: at(f.From), To: at(f.To), Actor: f.Actor, ActorType: string(f.ActorType), Action: f.Action, Target: f.Target, Q: f.Q,
	}
}

// send streams an export page by page. If it cannot go on it breaks the
// connection off: nobody takes half a copy for a whole one.
func (s *Server) send(w http.ResponseWriter, r *http.Request, e *export, patience time.Duration) {
	ctx := r.Context()
	h := w.Header()
	h.Set("Content-Type", map[string]string{"ndjson": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}[e.format])
	h.Set("Content-Disposition", `attachment; filename="`+e.name+`"`)
	err := e.stream(ctx, &deadlineWriter{w, http.NewResponseController(w), patience, func() error { return e.still(ctx) }})
	switch {
	case err == nil:
		return
	case ctx.Err() != nil:
		s.log.InfoContext(ctx, "the reader of an export went away")
	case errors.Is(err, errNoLonger):
		s.log.InfoContext(ctx, "export ended: the reader's rights have changed")
	default:
		s.log.ErrorContext(ctx, "export broke off", "err", err)
	}
	panic(http.ErrAbortHandler)
}

// stream writes one page while the next one is decoded and the one after that is
// read.
func (e *export) stream(ctx context.Context, w *deadlineWriter) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	rows, pages := make(chan []projections.AuditRow), make(chan []projections.AuditRecord)
	var reading errgroup.Group
	reading.Go(func() error {
		defer close(rows)
		return e.read(ctx, rows)
	})
	reading.Go(func() error {
		defer close(pages)
		return decode(ctx, rows, pages)
	})
	err := e.write(w, pages)
	stop()
	return cmp.Or(err, reading.Wait())
}

func (e *export) read(ctx context.Context, rows chan<- []projections.AuditRow) (err error) {
	for list := e.first; ; {
		select {
		case rows <- list:
		case <-ctx.Done():
			return ctx.Err()
		}
		if len(list) < exportPage {
			return nil
		}
		if list, err = e.next(ctx, list[len(list)-1].Seq()); err != nil {
			return err
		}
	}
}

// yieldEvery is how many records long work goes on for before it lets others run:
// about a tenth of a millisecond. Left alone a goroutine has a processor for ten.
const yieldEvery = 16

func yield(done int) {
	if done%yieldEvery == 0 {
		runtime.Gosched()
	}
}

func decode(ctx context.Context, rows <-chan []projections.AuditRow, pages chan<- []projections.AuditRecord) error {
	for list := range rows {
		page := make([]projections.AuditRecord, len(list))
		for i := range list {
			page[i] = list[i].Record()
			yield(i)
		}
		select {
		case pages <- page:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (e *export) write(w *deadlineWriter, pages <-chan []projections.AuditRecord) error {
	var page bytes.Buffer
	write := e.lines(&page)
	for list := range pages {
		for i, r := range list {
			if err := write(r); err != nil {
				return fmt.Errorf("write record %d: %w", r.Seq, err)
			}
			yield(i)
		}
		if err := w.write(page.Bytes()); err != nil {
			return err
		}
		page.Reset()
	}
	return nil
}

func (e *export) lines(to *bytes.Buffer) func(projections.AuditRecord) error {
	if e.format == "csv" {
		return csvLines(to)
	}
	return jsonLines(to, e.leaf)
}

// ExportLine returns the line of an export with leaves that tells of an event.
// target is as in [projections.NewAuditRecord].
func ExportLine(r events.Record, target string) ([]byte, error) {
	var line bytes.Buffer
	err := jsonLines(&line, true)(projections.NewAuditRecord(r, target))
	return bytes.TrimSuffix(line.Bytes(), []byte("\n")), err
}

// jsonLines writes records as JSON, each on a line; with leaves, where those are asked for.
func jsonLines(to *bytes.Buffer, leaf bool) func(projections.AuditRecord) error {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	return func(r projections.AuditRecord) error {
		line := struct {
			AuditRecord
			Leaf []byte `json:"leaf,omitempty"`
		}{AuditRecord: newAuditRecord(r)}
		if leaf {
			line.Leaf = proof.Leaf(&r.Record)
		}
		return encoder.Encode(line)
	}
}

// describeExport describes the answer of an export, which is no JSON of ours.
func describeExport(huma.Registry) *huma.Response {
	text := &huma.Schema{Type: huma.TypeString}
	return &huma.Response{
		Description: "The records, the oldest first. A copy that was cut off ends without the end of its chunked encoding.",
		Content: map[string]*huma.MediaType{
			"application/x-ndjson": {Schema: text, Example: exampleExport("ndjson")},
			"text/csv":             {Schema: text, Example: exampleExport("csv")},
		},
		Headers: map[string]*huma.Param{
			"Content-Disposition": {Schema: text, Description: "Names a file.", Example: `attachment; filename="audit-acme-4182.csv"`},
			"X-Svc-Position": {
				Schema:      &huma.Schema{Type: huma.TypeInteger},
				Description: "The number that the workspace's log reached by the export itself.",
			},
		},
	}
}

// exampleExport is an export of these records.
func exampleExport(format string) string {
	var text bytes.Buffer
	write := (&export{format: format}).lines(&text)
	for _, r := range exampleRecords() {
		if err := write(r); err != nil {
			panic(err)
		}
	}
	return text.String()
}
