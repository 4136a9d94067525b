package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"

	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/fair"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/http/reply"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections/auditlog"
	"svc/projections/fold"
	"svc/proof"
)

func (s *Server) exportRoutes() door.Section {
	return door.Section{Tag: "Audit", Routes: []door.Route{
		door.Command((*exportQuery).toCommand, s.exportAudit, door.Route{
			Method: "GET", Path: "/audit/export", Guard: door.MayDo(events.ExportAudit), Views: []string{"audit"},
			Limits: middleware.Limits{Time: exportLimit, Stream: true},
			ID:     "exportAudit", Summary: "Export the audit log",
			Text: "Streams all matching records, oldest first, up to the newest one before the export. The export is recorded as " +
				"`audit.exported` before the first byte is sent. In CSV, every cell is quoted, and an apostrophe precedes text that a " +
				"spreadsheet would run as a formula. Browsers can export only from the service's own site: 403 `cross_origin_refused`. " +
				"The connection is closed if the client reads nothing for 30 seconds, or less than 16 KiB a second for longer. A person " +
				"can run two exports at once, a workspace 64: 429 `rate_limited`.",
			OwnSlot: true, Answer: describeExport,
		}),
	}}
}

const (
	exportPage  = 500            // records read at once, fewer if they are large
	exportLimit = 24 * time.Hour // of a whole export
)

type exportQuery struct {
	Format string `query:"format" required:"true" enum:"ndjson,csv"`
	Leaf   bool   `query:"leaf" doc:"ndjson only: add each record's leaf of the workspace's Merkle log. With the leaves, an export without filters can be verified offline against a checkpoint of GET /audit/verify."`
	AuditFilter
}

// An export is a running export of the audit log.
type export struct {
	name        string // of the file
	format      string
	leaf        bool                                                              // whether each record has its leaf
	upTo        int64                                                             // seq of the last record
	next        func(ctx context.Context, seq int64) ([]auditlog.AuditRow, error) // the page after seq
	first       []auditlog.AuditRow                                               // the first page
	acquire     func(context.Context) (*fair.Slot, error)                         // a slot for a page
	checkRights func() error                                                      // fails once the caller may not read on
}

// exportAudit records the export and reads its first page before it starts the stream, so that
// their errors can still be answered with a status.
func (s *Server) exportAudit(ctx context.Context, in *exportQuery, cmd commands.ExportAudit) (_ *huma.StreamResponse, err error) {
	ctx, cancel := context.WithTimeout(ctx, door.BeginLimit)
	defer cancel()
	c := door.CallerOf(ctx)
	filter, err := in.filter()
	if err != nil {
		return nil, err
	}
	if in.Leaf && in.Format != "ndjson" {
		return nil, fault.Field("leaf", "requires format=ndjson")
	}
	if err = s.AcquireSlot(ctx, s.Bounds.Exports); err != nil {
		return nil, err
	}
	head, _, err := s.History.Head(ctx, c.Workspace)
	if err != nil {
		return nil, err
	}
	if err = s.Replica.Await(ctx, "audit", c.Workspace, head); err != nil {
		return nil, err
	}
	slot, err := s.Acquire(ctx, s.Bounds.ExportPages, c)
	if err != nil {
		return nil, err
	}
	defer slot.Release()
	if err = s.RecheckIfStale(ctx, c); err != nil {
		return nil, err
	}
	cmd.UpTo = head
	done, err := s.Commands.ExportAudit(ctx, cmd)
	if err != nil {
		return nil, err
	}
	e := &export{
		name:   fmt.Sprintf("audit-%s-%d.%s", c.Slug, head, in.Format),
		format: in.Format, leaf: in.Leaf, upTo: head,
		next: func(ctx context.Context, seq int64) ([]auditlog.AuditRow, error) {
			return fold.RetryBehind(ctx, func() ([]auditlog.AuditRow, error) {
				return s.Audit.RowsAfter(ctx, c.Workspace, filter, seq, head, exportPage)
			})
		},
		acquire: func(ctx context.Context) (*fair.Slot, error) { return s.Acquire(ctx, s.Bounds.ExportPages, c) },
	}
	if e.first, err = e.next(ctx, 0); err != nil {
		return nil, err
	}
	return openapi.Stream(func(w http.ResponseWriter, r *http.Request) {
		checkRights, stop := s.WatchRights(r.Context(), c)
		defer stop()
		e.checkRights = checkRights
		w.Header().Set("X-Svc-Position", strconv.FormatInt(done.Position, 10))
		s.sendExport(w, r, e, door.SlowestReader)
	}), nil
}

func (in *exportQuery) toCommand(c *door.Caller, _ events.ID) (commands.ExportAudit, error) {
	return commands.ExportAudit{Meta: c.Meta(), Format: in.Format, Filter: in.recorded()}, nil
}

// recorded returns the filter in the form that the export's event stores.
func (f AuditFilter) recorded() events.AuditFilter {
	format := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return string(openapi.FormatTime(t))
	}
	return events.AuditFilter{
		From: format(f.From.Time), To: format(f.To.Time),
		Actor: f.Actor, ActorType: string(f.ActorType), Category: string(f.Category), Action: f.Action, Target: f.Target, Q: f.Q,
	}
}

// sendExport streams an export page by page. If the stream cannot continue, it aborts the
// connection, so that the client does not take a part for the whole.
func (s *Server) sendExport(w http.ResponseWriter, r *http.Request, e *export, slowest door.Pace) {
	ctx := r.Context()
	h := w.Header()
	h.Set("Content-Type", map[string]string{"ndjson": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}[e.format])
	h.Set("Content-Disposition", `attachment; filename="`+e.name+`"`)
	err := e.stream(ctx, door.NewDeadlineWriter(w, slowest, e.checkRights))
	switch {
	case err == nil:
		return
	case ctx.Err() != nil:
		s.Log.InfoContext(ctx, "client disconnected during an export")
	case door.RightsEnded(err):
		s.Log.InfoContext(ctx, "export ended: the caller's rights have changed")
	default:
		middleware.SetFailed(ctx)
		s.Log.ErrorContext(ctx, "export failed", "err", err)
	}
	panic(http.ErrAbortHandler)
}

// stream writes a page while it encodes the next one. A slot is held while a page is read, also while it
// waits for a server that lags, and encoded, but not while one is written, which takes as long as the client
// likes. Meanwhile two encoded pages and
// the rows of a third are kept. A page has at most 256 KiB of stored data and one record more.
func (e *export) stream(ctx context.Context, w *door.DeadlineWriter) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	pages := make(chan []byte)
	var encoding errgroup.Group
	encoding.Go(func() error {
		defer close(pages)
		return e.encodePages(ctx, pages)
	})
	var err error
	for page := range pages {
		if err = w.WriteAndFlush(page); err != nil {
			break
		}
	}
	stop()
	return cmp.Or(err, encoding.Wait())
}

// encodePages sends the encoded pages, of which the last may be empty.
func (e *export) encodePages(ctx context.Context, pages chan<- []byte) error {
	var page bytes.Buffer
	write := e.newLineWriter(&page)
	rows := e.first
	for e.first = nil; ; {
		next, err := e.encodePage(ctx, rows, write)
		if err != nil {
			return err
		}
		text := page.Bytes()
		page = bytes.Buffer{}
		select {
		case pages <- text:
		case <-ctx.Done():
			return ctx.Err()
		}
		if len(next) == 0 {
			return nil
		}
		page.Grow(len(text))
		rows = next
	}
}

// decodedAtOnce is how many records are decoded while those before them are encoded.
const decodedAtOnce = 64

// encodePage passes the records of a page to write while it decodes those that follow and reads the next
// page, which it returns.
func (e *export) encodePage(
	ctx context.Context, rows []auditlog.AuditRow, write func(auditlog.AuditRecord) error,
) (next []auditlog.AuditRow, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	slot, err := e.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquire slot for a page: %w", err)
	}
	defer slot.Release()
	var working errgroup.Group
	working.Go(func() (err error) {
		next, err = e.next(ctx, rows[len(rows)-1].Seq())
		return err
	})
	decoded := make(chan []auditlog.AuditRecord, len(rows)/decodedAtOnce+1) // has room for all
	working.Go(func() error {
		defer close(decoded)
		for part := range slices.Chunk(rows, decodedAtOnce) {
			list := make([]auditlog.AuditRecord, len(part))
			for i := range part {
				list[i] = part[i].Record()
				yield(i)
			}
			decoded <- list
		}
		return nil
	})
	err = encodeRecords(decoded, write)
	err = cmp.Or(err, working.Wait())
	return next, err
}

func encodeRecords(decoded <-chan []auditlog.AuditRecord, write func(auditlog.AuditRecord) error) error {
	for list := range decoded {
		for i, r := range list {
			if err := write(r); err != nil {
				return fmt.Errorf("write record %d: %w", r.Seq, err)
			}
			yield(i)
		}
	}
	return nil
}

// yieldEvery is how many records a loop processes before it yields the processor, about a tenth
// of a millisecond. The scheduler preempts a goroutine only after ten milliseconds.
const yieldEvery = 16

func yield(done int) {
	if done%yieldEvery == 0 {
		runtime.Gosched()
	}
}

func (e *export) newLineWriter(to *bytes.Buffer) func(auditlog.AuditRecord) error {
	if e.format == "csv" {
		return csvLines(to)
	}
	return jsonLines(to, e.leaf)
}

// ExportLines returns a function that returns an event's line in an NDJSON export with leaves, without the line
// feed. It is to be called as that of [auditlog.AuditRecords].
func ExportLines() func(events.Record) ([]byte, error) {
	record := auditlog.AuditRecords()
	return func(r events.Record) ([]byte, error) {
		var line bytes.Buffer
		err := jsonLines(&line, true)(record(r))
		return bytes.TrimSuffix(line.Bytes(), []byte("\n")), err
	}
}

// An ExportedRecord is a line of an NDJSON export.
type ExportedRecord struct {
	AuditRecord
	Leaf []byte `json:"leaf,omitempty" doc:"The record's leaf of the workspace's Merkle log, in base64. Only with leaf=true."`
}

// jsonLines returns a function that appends a record as a line of JSON, with its leaf if leaf is
// set.
func jsonLines(to *bytes.Buffer, leaf bool) func(auditlog.AuditRecord) error {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	return func(r auditlog.AuditRecord) error {
		line := ExportedRecord{AuditRecord: newAuditRecord(r)}
		if leaf {
			line.Leaf = proof.Leaf(&r.Record)
		}
		return encoder.Encode(line)
	}
}

// describeExport describes an export's response, which is not a JSON document.
func describeExport(schemas huma.Registry) *huma.Response {
	text := &huma.Schema{Type: huma.TypeString}
	return &huma.Response{
		Description: "The records, oldest first. NDJSON is described as a list of its lines. " +
			"If the export fails midway, the chunked encoding is not terminated.",
		Content: map[string]*huma.MediaType{
			"application/x-ndjson": schema.DescribeLines(schemas, ExportedRecord{AuditRecord: newAuditRecord(newestExample())}),
			"text/csv":             {Schema: text, Example: exampleCSV()},
		},
		Headers: map[string]*huma.Param{
			"Content-Disposition": {Schema: text, Description: "Contains the file's name.", Example: `attachment; filename="audit-acme-4182.csv"`},
			"X-Svc-Position": {
				Schema:      &huma.Schema{Type: huma.TypeInteger},
				Description: "The seq of the export's own record.",
			},
		},
	}
}

// exampleCSV returns an export of the example records.
func exampleCSV() string {
	var text bytes.Buffer
	write := csvLines(&text)
	for _, r := range exampleRecords() {
		if err := write(r); err != nil {
			panic(err)
		}
	}
	return text.String()
}

var csvHeader = []string{
	"seq", "id", "at", "action", "outcome", "code", "actorType", "actorId", "actorName", "targetType", "targetId", "targetName",
	"changes", "origin", "ip", "userAgent", "requestId", "tokenTail",
}

// csvLines writes a header to buffer to, and returns a function that appends a record as a CSV
// line (RFC 4180).
func csvLines(to *bytes.Buffer) func(auditlog.AuditRecord) error {
	write := func(cells ...string) { to.Write(reply.AppendCSV(to.AvailableBuffer(), cells...)) }
	write(csvHeader...)
	return func(found auditlog.AuditRecord) error {
		r := newAuditRecord(found)
		changes, err := json.Marshal(r.Changes)
		if err != nil {
			return err
		}
		write(
			strconv.FormatInt(r.Seq, 10), r.ID, string(r.At), r.Action, r.Outcome, r.Code,
			string(r.Actor.Type), r.Actor.ID, r.Actor.Name, r.Target.Type, r.Target.ID, r.Target.Name, string(changes),
			string(r.Context.Origin), r.Context.IP, r.Context.UserAgent, r.Context.RequestID, r.Context.TokenTail,
		)
		return nil
	}
}
