package proof

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"svc/events"
	"svc/events/store"
)

func TestExportIsVerifiedWithoutDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, workspace := w.prover(t), newID()
	w.append(t, workspace, 300)
	catchUp(t, p, workspace)
	signed := w.verify(t, workspace)
	key := signed.VerifierKey
	w.append(t, workspace, 20)

	export := w.export(t, workspace)
	report, beyond, err := VerifyExport(t.Context(), strings.NewReader(strings.Join(export, "")), signed.Checkpoint, key, encodeTestLine)
	require.NoError(t, err)
	require.Nil(t, report.Bad)
	require.EqualValues(t, 20, beyond)
	require.Equal(t, signed.Size, report.Size)
	require.Equal(t, signed.Root, report.Root)
	require.Equal(t, workspace, report.Workspace)

	without := func(i int) []string { return append(export[:i:i], export[i+1:]...) }
	with := func(i int, change func(l map[string]any)) []string {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(export[i]), &fields))
		change(fields)
		list := append([]string{}, export...)
		list[i] = text(t, fields)
		return list
	}
	leaf := openLine(t, export[41]).Leaf
	leaf[len(leaf)-2] ^= 1 // in the event's data
	e, err := openLeaf(leaf)
	require.NoError(t, err)
	altered, err := encodeTestLine(e.record())
	require.NoError(t, err)
	flipped := append([]string{}, export...)
	flipped[41] = string(altered) + "\n"
	twice := append([]string{}, export...) // with a duplicate field
	twice[3] = `{"leaf":"AAAA",` + strings.TrimPrefix(twice[3], "{")
	swapped := append([]string{}, export...)
	swapped[7], swapped[8] = swapped[8], swapped[7]
	other := newID()
	w.append(t, other, 300)

	for name, c := range map[string]struct {
		lines []string
		bad   Bad
	}{
		"a changed record": {flipped, Bad{1, "records 1 to 300 are not those that were signed"}},
		"a missing record": {without(100), Bad{101, "the leaf in its place is of record 102"}},
		"a swapped pair":   {swapped, Bad{8, "the leaf in its place is of record 9"}},
		"a record twice": {append(append(append([]string{}, export[:5]...), export[4]), export[5:]...),
			Bad{6, "the leaf in its place is of record 5"}},
		"cut off":             {export[:299], Bad{300, "the export ends before it, and the checkpoint covers 300 records"}},
		"nothing at all":      {nil, Bad{1, "the export ends before it, and the checkpoint covers 300 records"}},
		"another log":         {w.export(t, other), Bad{1, "its leaf is of another log"}},
		"a line that differs": {with(2, func(l map[string]any) { l["at"] = "2026-11-20T13:00:00.000Z" }), differs(3)},
		"a name that differs": {with(2, func(l map[string]any) { l["kind"] = "run.merged" }), differs(3)},
		"a name twice":        {twice, differs(4)},
		"no leaf": {with(0, func(l map[string]any) { delete(l, "leaf") }),
			Bad{1, "its line has no leaf: the export was made without leaf=true"}},
		"a short leaf": {with(0, func(l map[string]any) { l["leaf"] = []byte{0, 0} }), Bad{1, errLeaf.Error()}},
		"beyond the end": {append(append([]string{}, export...), "{}\n"),
			Bad{321, "its line has no leaf: the export was made without leaf=true"}},
		"no JSON": {append([]string{"seq,id\n"}, export...), Bad{1, "its line is not the JSON of a record"}},
	} {
		t.Run(name, func(t *testing.T) {
			report, _, err := VerifyExport(t.Context(), strings.NewReader(strings.Join(c.lines, "")), signed.Checkpoint, key, encodeTestLine)
			require.NoError(t, err)
			require.Equal(t, &c.bad, report.Bad)
		})
	}

	all := func() *strings.Reader { return strings.NewReader(strings.Join(export, "")) }
	_, _, err = VerifyExport(t.Context(), all(), signed.Checkpoint, "svc.example.com+x", encodeTestLine)
	require.Equal(t, errVerifierKey, err)
	_, _, err = VerifyExport(t.Context(), all(), "svc.example.com\n300\n", key, encodeTestLine)
	require.ErrorContains(t, err, "the checkpoint is malformed")
	forged := strings.Replace(signed.Checkpoint, "\n300\n", "\n299\n", 1)
	_, _, err = VerifyExport(t.Context(), all(), forged, key, encodeTestLine)
	require.ErrorContains(t, err, "the checkpoint is not signed by the key")
	signer, err := note.NewSigner(otherKey(t))
	require.NoError(t, err)
	n, err := note.Sign(&note.Note{Text: checkpoint{Origin: "svc.example.com/" + workspace.String(), Size: 300, Root: signed.Root}.text()},
		signer)
	require.NoError(t, err)
	_, _, err = VerifyExport(t.Context(), all(), string(n), key, encodeTestLine)
	require.ErrorContains(t, err, "the checkpoint is not signed by the key")
	_, _, err = VerifyExport(t.Context(), strings.NewReader(strings.Repeat("x", maxLineLength+1)), signed.Checkpoint, key, encodeTestLine)
	require.ErrorContains(t, err, "read the export: ")
}

func TestLeafRoundTrip(t *testing.T) {
	e := eventRow{
		Workspace: newID(), Seq: 2, ID: newID(), Stream: newID(), Version: -5, Kind: "a.b", Schema: 1,
		Meta: []byte(`{}`), Data: []byte(`{"ö":1}`),
	}
	e.At.Time, e.At.Valid = time.UnixMicro(1_763_000_000_123_456).UTC(), true
	leaf := e.canonical()
	got, err := openLeaf(leaf)
	require.NoError(t, err)
	require.Equal(t, e, got)
	for n := range leaf {
		_, err := openLeaf(leaf[:n])
		require.Equal(t, errLeaf, err, n)
	}
	_, err = openLeaf(append(leaf, 0))
	require.Equal(t, errLeaf, err)
}

func FuzzOpenLeaf(f *testing.F) {
	e := eventRow{Kind: "a.b", Meta: []byte(`{}`), Data: []byte(`{}`)}
	e.At.Valid = true
	f.Add(e.canonical())
	f.Fuzz(func(t *testing.T, leaf []byte) {
		if e, err := openLeaf(leaf); err == nil {
			require.True(t, bytes.Equal(leaf, e.canonical()), "one leaf for each event")
		}
	})
}

func differs(seq int64) Bad {
	return Bad{seq, "its line differs from its leaf, as this version writes it"}
}

// export returns the lines of an export, in a form of the test's own.
func (w *world) export(t *testing.T, workspace events.ID) (lines []string) {
	t.Helper()
	rows, _ := w.db.Query(t.Context(), `select `+store.EventColumns+` from events where workspace_id = $1 order by seq`, workspace)
	list, err := pgx.CollectRows(rows, store.Scan)
	require.NoError(t, err)
	for _, r := range list {
		line, err := encodeTestLine(r)
		require.NoError(t, err)
		lines = append(lines, string(line)+"\n")
	}
	return lines
}

func encodeTestLine(r events.Record) ([]byte, error) {
	return json.Marshal(map[string]any{
		"id": r.ID, "seq": r.Seq, "at": r.At, "kind": r.Event.Kind(), "actor": r.Actor,
		"leaf": Leaf(&r),
	})
}

func text(t *testing.T, value any) string {
	t.Helper()
	b, err := json.Marshal(value)
	require.NoError(t, err)
	return string(b) + "\n"
}

func openLine(t *testing.T, s string) (l line) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(s), &l))
	return l
}
