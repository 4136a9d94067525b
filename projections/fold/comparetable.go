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

func (c *tableComparison[K, R]) Fold(r events.Record) error {
	return c.foldKeys(c.rows, r, func(key K) bool { return InPart(c.part, key) })
}

// A sizedRow is a row that may be much larger than usual.
type sizedRow interface {
	Bytes() int // approximate size in memory
}

func (c *tableComparison[K, R]) Size() (n int) {
	n = len(c.rows)
	if _, ok := any(new(R)).(sizedRow); !ok {
		return n
	}
	for _, row := range c.rows {
		if row != nil {
			n += any(row).(sizedRow).Bytes() / RowBytes
		}
	}
	return n
}

func (c *tableComparison[K, R]) Queue(b *pgx.Batch, f *Findings) {
	sql := fmt.Sprintf(`select %s from %s where workspace_id = $1`, strings.Join(c.columns(), ", "), c.View)
	b.Queue(sql, c.workspace).Query(func(rows pgx.Rows) error { return c.compare(rows, f) })
}

// compare compares stored rows with folded rows by the bytes that the server sends. Values that
// merely decode to the same are reported as different.
func (c *tableComparison[K, R]) compare(rows pgx.Rows, f *Findings) error {
	if err := rows.Err(); err != nil { // if the connection was lost, rows has neither columns nor a connection
		return err
	}
	values := columnCodec{rows.Conn().TypeMap(), slices.Clone(rows.FieldDescriptions())}
	keyAt := slices.Index(c.columns(), c.Key)
	for rows.Next() {
		stored := rows.RawValues()
		var key K
		if err := values.scan(keyAt, stored[keyAt], &key); err != nil {
			f.Add(c.View, values.formatValue(keyAt, stored[keyAt]), values.formatAll(stored), "")
			continue
		}
		if !InPart(c.part, key) {
			continue
		}
		f.CountRow()
		id := RowID[K]{c.workspace, key}
		row := c.rows[id]
		delete(c.rows, id)
		if row == nil {
			f.Add(c.View, values.formatValue(keyAt, stored[keyAt]), values.formatAll(stored), "")
			continue
		}
		logged, err := values.encode(fields(row))
		if err != nil {
			return fmt.Errorf("view %s: %w", c.View, err)
		}
		if s, l := values.diff(stored, logged); s != "" {
			f.Add(c.View, values.formatValue(keyAt, stored[keyAt]), s, l)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, row := range c.rows {
		if row == nil {
			continue
		}
		f.CountRow()
		logged, err := values.encode(fields(row))
		if err != nil {
			return fmt.Errorf("view %s: %w", c.View, err)
		}
		f.Add(c.View, values.formatValue(keyAt, logged[keyAt]), "", values.formatAll(logged))
	}
	return nil
}

// columnCodec encodes and formats values of a table's columns.
type columnCodec struct {
	types   *pgtype.Map
	columns []pgconn.FieldDescription
}

func (v columnCodec) scan(i int, raw []byte, into any) error {
	return v.types.Scan(v.columns[i].DataTypeOID, v.columns[i].Format, raw, into)
}

// encode encodes values as the server would send them. A nil value stands for null.
func (v columnCodec) encode(values []any) ([][]byte, error) {
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

// arrayHead is the size of an array's header: number of dimensions, null flag, element type.
const arrayHead = 3 * 4 // bytes

// canonical returns a value as the server sends it. The server sends an empty array with no
// dimension, pgx encodes it with one dimension of length 0.
func (v columnCodec) canonical(i int, raw []byte) []byte {
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

// diff returns the columns that differ, with the stored and the logged value.
func (v columnCodec) diff(stored, logged [][]byte) (s, l string) {
	var ss, ls []string
	for i := range stored {
		if (stored[i] == nil) != (logged[i] == nil) || string(stored[i]) != string(logged[i]) {
			ss, ls = append(ss, v.formatNamed(i, stored[i])), append(ls, v.formatNamed(i, logged[i]))
		}
	}
	return strings.Join(ss, ", "), strings.Join(ls, ", ")
}

func (v columnCodec) formatAll(raw [][]byte) string {
	list := make([]string, len(raw))
	for i := range raw {
		list[i] = v.formatNamed(i, raw[i])
	}
	return strings.Join(list, ", ")
}

func (v columnCodec) formatNamed(i int, raw []byte) string {
	return v.columns[i].Name + " " + v.formatValue(i, raw)
}

const (
	maxTextShown  = 200 // characters shown of a value
	maxBytesShown = 8   // bytes shown of a binary value: enough to find it, too few to use it
)

// formatValue formats a value. Binary values, which may be fingerprints of tokens, are cut short.
func (v columnCodec) formatValue(i int, raw []byte) string {
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
	if runes := []rune(s); len(runes) > maxTextShown {
		return string(runes[:maxTextShown]) + "…"
	}
	return s
}

func shortHex(raw []byte) string {
	if len(raw) > maxBytesShown {
		return hex.EncodeToString(raw[:maxBytesShown]) + "…"
	}
	return hex.EncodeToString(raw)
}
