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

// longestLine is more than a line of an export can have: an event is what one
// request, or one message of a runner, caused.
const longestLine = 64 << 20 // bytes

// A line is what VerifyExport takes from a line of an export. All else that it
// says follows from the leaf.
type line struct {
	Target struct {
		Name string `json:"name"`
	} `json:"target"`
	Leaf []byte `json:"leaf"`
}

// VerifyExport holds an export of a workspace's whole log, with its leaves,
// against a checkpoint that was signed by verifierKey. It takes no database and
// no word of the service: whoever has these three knows whether the export is what was
// signed for, without a record missing, added or changed up to the checkpoint's
// size. It returns how many records it has beyond it, of which nothing is known.
//
// tell returns the line of an event, which that of its leaf has to be byte for
// byte. What an event's target was called last is not in the event, and is taken
// from the line.
func VerifyExport(ctx context.Context, export io.Reader, checkpoint, verifierKey string,
	tell func(r events.Record, target string) ([]byte, error)) (report Report, beyond int64, err error) {
	report = Report{Checkpoint: checkpoint, VerifierKey: verifierKey}
	verifier, err := note.NewVerifier(verifierKey)
	if err != nil {
		return report, 0, errKey
	}
	if report.Workspace, err = logOf(checkpoint); err != nil {
		return report, 0, err
	}
	c, err := openCheckpoint(checkpoint, verifier, report.Workspace)
	if err != nil {
		return report, 0, errors.New("the checkpoint is not signed by the key")
	}
	report.Size = c.Size

	lines := bufio.NewScanner(export)
	lines.Buffer(nil, longestLine)
	t, seq := tree{workspace: report.Workspace}, int64(0)
	for lines.Scan() {
		seq++
		if ctx.Err() != nil {
			return report, 0, ctx.Err()
		}
		leaf, err := leafOf(lines.Bytes(), report.Workspace, seq, tell)
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
		report.Bad = &Bad{t.size + 1, fmt.Sprintf("the export ends before it, and the checkpoint speaks for %d records", c.Size)}
	case report.Root != c.Root:
		report.Bad = &Bad{1, fmt.Sprintf("records 1 to %d are not those that were signed for", c.Size)}
	}
	return report, seq - t.size, nil
}

// leafOf returns the leaf of a line, which must be that of a record of a log
// and say what its leaf says.
func leafOf(text []byte, workspace events.ID, seq int64, tell func(events.Record, string) ([]byte, error)) ([]byte, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, errors.New("its line is no JSON of a record")
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
	told, err := tell(e.record(), l.Target.Name)
	if err != nil {
		return nil, fmt.Errorf("its leaf cannot be told: %w", err)
	}
	if !bytes.Equal(told, text) {
		return nil, errors.New("its line does not say what its leaf says, as this version says it")
	}
	return l.Leaf, nil
}
