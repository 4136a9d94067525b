package proof

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"svc/events"
)

// maxLineLength exceeds any line of an export: an event contains what one request or one message of a
// runner caused.
const maxLineLength = 64 << 20 // bytes

// A line has the field of an export's line from which the others follow.
type line struct {
	Leaf []byte `json:"leaf"`
}

// VerifyExport verifies an export of a workspace's whole log, with leaves, against a checkpoint
// signed by verifierKey. It needs neither the database nor the service. If the report has no bad
// record, no record up to the checkpoint's size is missing, added or changed. beyond is the number
// of records after that, which are not verified.
//
// encode returns the line of an event, which must equal the line of the export byte for byte. It is called
// with the events in order, from the first one on.
func VerifyExport(ctx context.Context, export io.Reader, checkpoint, verifierKey string,
	encode func(events.Record) ([]byte, error)) (report Report, beyond int64, err error) {
	report = Report{Checkpoint: checkpoint, VerifierKey: verifierKey}
	verifier, err := note.NewVerifier(verifierKey)
	if err != nil {
		return report, 0, errVerifierKey
	}
	if report.Workspace, err = workspaceOf(checkpoint); err != nil {
		return report, 0, err
	}
	c, err := openCheckpoint(checkpoint, verifier, report.Workspace)
	if err != nil {
		return report, 0, errors.New("the checkpoint is not signed by the key")
	}
	report.Size = c.Size

	lines := bufio.NewScanner(export)
	lines.Buffer(nil, maxLineLength)
	t, seq := tree{workspace: report.Workspace}, int64(0)
	for lines.Scan() {
		seq++
		if ctx.Err() != nil {
			return report, 0, ctx.Err()
		}
		leaf, err := leafOf(lines.Bytes(), report.Workspace, seq, encode)
		if err != nil {
			report.Bad = &Bad{seq, err.Error()}
			return report, 0, nil
		}
		if t.size < c.Size {
			t.add(tlog.RecordHash(leaf))
		}
	}
	if err := lines.Err(); err != nil {
		return report, 0, fmt.Errorf("read the export: %w", err)
	}
	switch report.Root = t.root(); {
	case t.size < c.Size:
		report.Bad = &Bad{t.size + 1, fmt.Sprintf("the export ends before it, and the checkpoint covers %d records", c.Size)}
	case report.Root != c.Root:
		report.Bad = &Bad{1, fmt.Sprintf("records 1 to %d are not those that were signed", c.Size)}
	}
	return report, seq - t.size, nil
}

// leafOf returns the leaf of a line after checking that it is the leaf of record seq and that the
// line matches it.
func leafOf(text []byte, workspace events.ID, seq int64, encode func(events.Record) ([]byte, error)) ([]byte, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, errors.New("its line is not the JSON of a record")
	}
	if len(l.Leaf) == 0 {
		return nil, errors.New("its line has no leaf: the export was made without leaf=true")
	}
	e, err := openLeaf(l.Leaf)
	switch {
	case err != nil:
		return nil, err
	case e.Workspace != workspace:
		return nil, errors.New("its leaf is of another log")
	case e.Seq != seq:
		return nil, fmt.Errorf("the leaf in its place is of record %d", e.Seq)
	}
	encoded, err := encode(e.record())
	if err != nil {
		return nil, fmt.Errorf("its leaf cannot be encoded: %w", err)
	}
	if !bytes.Equal(encoded, text) {
		return nil, errors.New("its line differs from its leaf, as this version writes it")
	}
	return l.Leaf, nil
}
