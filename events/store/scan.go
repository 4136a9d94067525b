package store

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
)

// EventColumns are the columns of events, in the order in which [Scan] and [ScanRow] read them.
const EventColumns = `workspace_id, seq, id, stream, version, kind, schema, at, meta, data`

// Scan reads a row of [EventColumns]. An event that cannot be decoded is an [events.Undecoded]:
// see [events.Record.Decoded].
func Scan(row pgx.CollectableRow) (events.Record, error) {
	r, err := ScanRow(row)
	if err != nil {
		return r.record, err
	}
	return r.Record(), nil
}

// ScanKnown is [Scan] with an error for an event of a kind or schema that this build does not know.
func ScanKnown(row pgx.CollectableRow) (events.Record, error) {
	r, err := ScanRow(row)
	if err == nil {
		err = events.CheckKnown(r.kind, r.record.Schema)
	}
	if err != nil {
		return r.record, err
	}
	return r.Record(), nil
}

// A Row is a row of events that has not been decoded, which takes longer than reading it.
type Row struct {
	record events.Record
	kind   string
}

// ScanRow reads a row of [EventColumns].
func ScanRow(row pgx.CollectableRow) (r Row, err error) {
	r.kind, err = scan(row, &r.record)
	return r, err
}

// Seq returns the event's number in its log.
func (r *Row) Seq() int64 { return r.record.Seq }

// Bytes returns the size of the row's stored data.
func (r *Row) Bytes() int { return len(r.record.Meta) + len(r.record.Data) }

// Record decodes the row as [Scan] does. If the row was summarized, it returns the summary.
func (r *Row) Record() events.Record {
	if r.record.Event != nil {
		return r.record
	}
	return r.record.Decoded(r.kind)
}

// Summarize replaces the row's record by its [events.Record.Summary].
func (r *Row) Summarize() { r.record = r.record.DecodedSummary(r.kind) }

// scanStrict is [Scan] with an error for an event that cannot be decoded.
func scanStrict(row pgx.CollectableRow) (r events.Record, err error) {
	kind, err := scan(row, &r)
	if err != nil {
		return r, err
	}
	return decodeStrict(r, kind)
}

func decodeStrict(r events.Record, kind string) (_ events.Record, err error) {
	if r.Envelope, err = events.DecodeEnvelope(r.Meta); err != nil {
		return r, fmt.Errorf("event %d: %w", r.Seq, err)
	}
	r.Event, err = events.Decode(kind, r.Schema, r.Data)
	return r, err
}

// scanStored is [Scan] without decoding.
func scanStored(row pgx.CollectableRow) (r events.Record, err error) {
	kind, err := scan(row, &r)
	r.Event = events.Undecoded{Name: kind}
	return r, err
}

// scanStrictIfPresent is scanStrict for rows that may lack data, which are then not decoded.
func scanStrictIfPresent(row pgx.CollectableRow) (r events.Record, err error) {
	kind, err := scan(row, &r)
	switch {
	case err != nil:
		return r, err
	case r.Data == nil:
		r.Event = events.Undecoded{Name: kind}
		return r, events.CheckKnown(kind, r.Schema)
	}
	return decodeStrict(r, kind)
}

// scan reads a row of [EventColumns], and of the columns that follow them into more.
func scan(row pgx.CollectableRow, r *events.Record, more ...any) (kind string, err error) {
	var at time.Time
	// As arrays, IDs are scanned without reflection.
	workspace, id, stream := (*[16]byte)(&r.Workspace), (*[16]byte)(&r.ID), (*[16]byte)(&r.Stream)
	err = row.Scan(append([]any{workspace, &r.Seq, id, stream, &r.Version, &kind, &r.Schema, &at, &r.Meta, &r.Data}, more...)...)
	r.At = at.UTC()
	return kind, err
}
