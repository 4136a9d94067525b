package auditlog

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/projections/fold"
)

// An auditComparison compares the rows of the audit index that come from whole blocks. It reads the
// names of targets from the stored rows, as the view does, because the names of all targets may not
// fit in memory. Those rows are compared too, so a wrong name is still reported.
type auditComparison struct {
	workspace events.ID
	part      fold.Part
	names     targetNames // of the targets of the current page and block
	block     []events.Record
	rows      map[string][]byte // by entry
	bytes     int               // total length of rows
}

func (auditView) Comparison(workspace events.ID, p fold.Part) fold.Comparison {
	return &auditComparison{workspace: workspace, part: p, names: targetNames{}, rows: map[string][]byte{}}
}

// Prepare reads the names that the targets of a page had before its first block.
func (c *auditComparison) Prepare(ctx context.Context, db fold.Batcher, records []events.Record) error {
	records = slices.Concat(c.block, records)
	c.names = targetNames{}
	b := &pgx.Batch{}
	c.names.queueRead(b, View.Name(), c.workspace, targetsOf(records), records[0].Seq-1)
	if b.Len() == 0 {
		return nil
	}
	if err := db.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("read names: %w", err)
	}
	return nil
}

func (c *auditComparison) Fold(r events.Record) error {
	c.block = append(c.block, r.Summary())
	if r.Seq%blockSize != 0 {
		return nil
	}
	for _, row := range indexBlock(c.block, c.names) {
		if entry := string(row.Entry); fold.InPart(c.part, entry) {
			c.rows[entry] = append(c.rows[entry], row.Data...)
			c.bytes += len(row.Data)
		}
	}
	c.block = nil
	return nil
}

func (c *auditComparison) Size() int { return len(c.rows)/8 + c.bytes/fold.RowBytes }

func (c *auditComparison) Queue(b *pgx.Batch, f *fold.Findings) {
	b.Queue(`select entry, data from audit where workspace_id = $1`, c.workspace).Query(func(rows pgx.Rows) error {
		var entry, data []byte
		_, err := pgx.ForEachRow(rows, []any{&entry, &data}, func() error {
			if !fold.InPart(c.part, string(entry)) {
				return nil
			}
			f.CountRow()
			logged, known := c.rows[string(entry)]
			delete(c.rows, string(entry))
			switch {
			case !known:
				f.Add("audit", auditKey(entry), size(data), "")
			case !bytes.Equal(data, logged):
				f.Add("audit", auditKey(entry), size(data)+" that differ", size(logged))
			}
			return nil
		})
		if err != nil {
			return err
		}
		for entry, logged := range c.rows {
			f.CountRow()
			f.Add("audit", auditKey([]byte(entry)), "", size(logged))
		}
		return nil
	})
}

func size(data []byte) string { return fmt.Sprintf("%d bytes", len(data)) }

// auditKey formats the key of an index row.
func auditKey(entry []byte) string { return fmt.Sprintf("%x", entry) }
