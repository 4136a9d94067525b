package fold

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"svc/events"
)

// A tableComparison compares the rows of a table.
type tableComparison[K comparable, R any] struct {
	*Table[K, R]
	workspace events.ID
	part      Part
	rows      map[RowID[K]]*R
}

// Comparison begins to compare rows with their log.
func (t *Table[K, R]) Comparison(workspace events.ID, p Part) Comparison {
	return &tableComparison[K, R]{t, workspace, p, map[RowID[K]]*R{}}
}

func (c *tableComparison[K, R]) Take(r events.Record) error {
	return c.takeOf(c.rows, r, func(key K) bool { return InPart(c.part, key) })
}

func (c *tableComparison[K, R]) Size() int { return len(c.rows) }

func (c *tableComparison[K, R]) Queue(b *pgx.Batch, f *Findings) {
	sql := fmt.Sprintf(`select %s from %s where workspace_id = $1`, strings.Join(c.columns(), ", "), c.View)
	b.Queue(sql, c.workspace).Query(func(rows pgx.Rows) error { return c.compare(rows, f) })
}

// compare holds what is stored against the rows that the log says, value by value
// in the form in which the server sends them: that a value reads as the same is not
// enough.
func (c *tableComparison[K, R]) compare(rows pgx.Rows, f *Findings) error {
	values := valuesOf{rows.Conn().TypeMap(), slices.Clone(rows.FieldDescriptions())}
	keyAt := slices.Index(c.columns(), c.Key)
	for rows.Next() {
		stored := rows.RawValues()
		var key K
		if err := values.scan(keyAt, stored[keyAt], &key); err != nil {
			f.Add(c.View, values.text(keyAt, stored[keyAt]), values.all(stored), "")
			continue
		}
		if !InPart(c.part, key) {
			continue
		}
		f.Compared()
		id := RowID[K]{c.workspace, key}
		row := c.rows[id]
		delete(c.rows, id)
		if row == nil {
			f.Add(c.View, values.text(keyAt, stored[keyAt]), values.all(stored), "")
			continue
		}
		logged, err := values.encode(fields(row))
		if err != nil {
			return fmt.Errorf("view %s: %w", c.View, err)
		}
		if s, l := values.differing(stored, logged); s != "" {
			f.Add(c.View, values.text(keyAt, stored[keyAt]), s, l)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, row := range c.rows {
		if row == nil {
			continue
		}
		f.Compared()
		logged, err := values.encode(fields(row))
		if err != nil {
			return fmt.Errorf("view %s: %w", c.View, err)
		}
		f.Add(c.View, values.text(keyAt, logged[keyAt]), "", values.all(logged))
	}
	return nil
}

// valuesOf knows how the columns of a table are sent.
type valuesOf struct {
	types   *pgtype.Map
	columns []pgconn.FieldDescription
}

func (v valuesOf) scan(i int, raw []byte, into any) error {
	return v.types.Scan(v.columns[i].DataTypeOID, v.columns[i].Format, raw, into)
}

// encode writes values as the server would send them; nil is null.
func (v valuesOf) encode(values []any) ([][]byte, error) {
	list := make([][]byte, len(values))
	for i, value := range values {
		raw, err := v.types.Encode(v.columns[i].DataTypeOID, v.columns[i].Format, value, []byte{})
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", v.columns[i].Name, err)
		}
		list[i] = v.canonical(i, raw)
	}
	return list, nil
}

// arrayHead is the number of dimensions of an array, whether it has nulls, and the
// type of its elements.
const arrayHead = 3 * 4 // bytes

// canonical is how the server sends a value. Of an empty array it sends no dimension,
// while pgx writes one of length 0.
func (v valuesOf) canonical(i int, raw []byte) []byte {
	known, _ := v.types.TypeForOID(v.columns[i].DataTypeOID)
	if known == nil || v.columns[i].Format != pgx.BinaryFormatCode || len(raw) < arrayHead+4 {
		return raw
	}
	if _, array := known.Codec.(*pgtype.ArrayCodec); array && binary.BigEndian.Uint32(raw[arrayHead:]) == 0 {
		raw = raw[:arrayHead]
		binary.BigEndian.PutUint32(raw, 0)
	}
	return raw
}

// differing tells the columns that differ, on either side.
func (v valuesOf) differing(stored, logged [][]byte) (s, l string) {
	var ss, ls []string
	for i := range stored {
		if (stored[i] == nil) != (logged[i] == nil) || string(stored[i]) != string(logged[i]) {
			ss, ls = append(ss, v.named(i, stored[i])), append(ls, v.named(i, logged[i]))
		}
	}
	return strings.Join(ss, ", "), strings.Join(ls, ", ")
}

func (v valuesOf) all(raw [][]byte) string {
	list := make([]string, len(raw))
	for i := range raw {
		list[i] = v.named(i, raw[i])
	}
	return strings.Join(list, ", ")
}

func (v valuesOf) named(i int, raw []byte) string { return v.columns[i].Name + " " + v.text(i, raw) }

const (
	textMost  = 200 // characters that are shown of a value
	bytesMost = 8   // bytes of one that is no text: enough to find it, too few to use
)

// text shows a value. Of bytes, which may be the fingerprint of a token, it shows
// the beginning.
func (v valuesOf) text(i int, raw []byte) string {
	if raw == nil {
		return "null"
	}
	if v.columns[i].DataTypeOID == pgtype.ByteaOID {
		return shortHex(raw)
	}
	known, ok := v.types.TypeForOID(v.columns[i].DataTypeOID)
	if !ok {
		return shortHex(raw)
	}
	if v.columns[i].DataTypeOID == pgtype.JSONOID {
		return shortText(string(raw))
	}
	value, err := known.Codec.DecodeValue(v.types, v.columns[i].DataTypeOID, v.columns[i].Format, raw)
	if err != nil {
		return shortHex(raw)
	}
	switch value := value.(type) {
	case [16]byte:
		return events.ID(value).String()
	case time.Time:
		return value.UTC().Format(time.RFC3339Nano)
	case string:
		return shortText(fmt.Sprintf("%q", value))
	}
	return shortText(fmt.Sprint(value))
}

func shortText(s string) string {
	if runes := []rune(s); len(runes) > textMost {
		return string(runes[:textMost]) + "…"
	}
	return s
}

func shortHex(raw []byte) string {
	if len(raw) > bytesMost {
		return hex.EncodeToString(raw[:bytesMost]) + "…"
	}
	return hex.EncodeToString(raw)
}
