package projections

import (
	"bytes"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/projections/fold"
)

// An auditComparison compares the rows of the audit index that come from whole blocks. It keeps the
// names of all targets in memory, whatever its part.
type auditComparison struct {
	workspace events.ID
	part      fold.Part
	names     targetNames
	block     []events.Record
	rows      map[string][]byte // by entry
	bytes     int               // total length of rows
}

func (auditView) Comparison(workspace events.ID, p fold.Part) fold.Comparison {
	return &auditComparison{workspace: workspace, part: p, names: targetNames{}, rows: map[string][]byte{}}
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

// rowBytes is about the size of a row of another view.
const rowBytes = 1 << 10

func (c *auditComparison) Size() int { return len(c.rows)/8 + c.bytes/rowBytes }

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
