package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"svc/events"
)

// eventColumns holds the events of a batch by column.
type eventColumns struct {
	workspaces, ids, streams idColumn
	after                    []int64 // how many events of the batch follow in the same log
	versions, schemas        []int
	follows                  []bool
	kinds                    []string
	metas, datas, macs       [][]byte
}

// An idColumn is encoded without reflection, which took longer than all other columns of an
// event.
type idColumn []events.ID

// Dimensions implements [pgtype.ArrayGetter].
func (c idColumn) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(c)), LowerBound: 1}} // a batch is short
}

// Index implements [pgtype.ArrayGetter].
func (c idColumn) Index(i int) any { return pgtype.UUID{Bytes: c[i], Valid: true} }

// IndexType implements [pgtype.ArrayGetter].
func (idColumn) IndexType() any { return pgtype.UUID{} }

// addRecords adds the records of a commit and their columns.
func (t *transaction) addRecords(c *events.Commit) error {
	rows := t.columns
	meta, err := json.Marshal(c.Envelope)
	if err != nil {
		return fmt.Errorf("encode envelope: %w", err)
	}
	at := c.At.UTC().Truncate(time.Microsecond)
	for w := range c.Writes {
		write := &c.Writes[w]
		for i, e := range write.Events {
			data, err := events.Encode(e)
			if err != nil {
				return err
			}
			r := events.Record{
				Workspace: c.Workspace, ID: events.NewID(c.At), Stream: write.Stream, Version: write.Version + 1 + i,
				Schema: events.Schema(e.Kind()), At: at, Envelope: c.Envelope, Event: e, Meta: meta, Data: data,
			}
			t.records = append(t.records, r)
			rows.workspaces, rows.ids = append(rows.workspaces, r.Workspace), append(rows.ids, r.ID)
			rows.streams = append(rows.streams, r.Stream)
			rows.versions, rows.follows = append(rows.versions, r.Version), append(rows.follows, i == 0 && t.follows[write])
			rows.kinds, rows.schemas = append(rows.kinds, e.Kind()), append(rows.schemas, r.Schema)
			mac := []byte{}
			if t.author != nil {
				if mac, err = t.author.ShortMAC(eventPlace,
					authenticatedBytes(r.Workspace, r.ID, r.Stream, int64(r.Version), int64(r.Schema), e.Kind(), meta, data)); err != nil {
					return err
				}
			}
			rows.metas, rows.datas, rows.macs = append(rows.metas, meta), append(rows.datas, data), append(rows.macs, mac)
		}
	}
	return nil
}

// headColumns are the head rows that a batch advances. They are sorted by workspace: all
// processes lock them in that order, which prevents deadlocks.
type headColumns struct {
	workspaces idColumn
	counts     []int64
	times      []time.Time
}

// countEvents counts the events of each log, and the events that follow each event in its log.
func (t *transaction) countEvents(rows *eventColumns) (heads headColumns) {
	counts, last := map[events.ID]int64{}, map[events.ID]time.Time{}
	rows.after = make([]int64, len(t.records))
	for i, r := range slices.Backward(t.records) {
		if counts[r.Workspace] == 0 {
			heads.workspaces = append(heads.workspaces, r.Workspace)
		}
		rows.after[i] = counts[r.Workspace]
		counts[r.Workspace]++
		if r.At.After(last[r.Workspace]) {
			last[r.Workspace] = r.At
		}
	}
	slices.SortFunc(heads.workspaces, func(a, b events.ID) int { return bytes.Compare(a[:], b[:]) })
	for _, id := range heads.workspaces {
		heads.counts, heads.times = append(heads.counts, counts[id]), append(heads.times, last[id])
	}
	return heads
}
