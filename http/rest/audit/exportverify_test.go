package audit

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"svc/config"
	"svc/events"
	"svc/events/store"
	"svc/proof"
	"svc/test/pgtest"
	"svc/test/world"
	"svc/vault"
)

// No field of an exported record can be changed, added or removed unnoticed, whatever the kind of its event.
func TestEveryFieldOfAnExportIsVerified(t *testing.T) {
	t.Parallel()
	w := &world.World{URL: pgtest.URL(t), Clock: world.NewClock()}
	w.DB = world.Connect(t, w.URL)
	w.Follower = world.Follow(t, w.DB)
	w.Log = store.New(w.DB, nil, w.Follower.Moved) // the forms are unrelated: members change who never joined
	t.Cleanup(w.Log.Close)
	ring, err := vault.NewRing([]config.Secret{config.Secret(strings.Repeat("k", 32))})
	require.NoError(t, err)
	w.Log.Authenticate(ring)
	prover := proof.New(w.DB, ring, "svc.example.com", func(string) bool { return true }, slog.New(slog.DiscardHandler))

	// Kinds by noun of events that name what later ones happen to.
	naming := map[string]string{"run": "run.queued", "decision": "run.queued", "job": "job.submitted", "user": "user.registered"}
	// A log for each kind, since every change costs a verification of the lines before it.
	type log struct {
		workspace events.ID
		before    int // records that name what those of the kind happen to
	}
	logs := map[string]log{}
	for _, kind := range events.Kinds() {
		l, stream := log{workspace: world.NewID()}, world.NewID()
		if first := naming[events.NounOf(kind).Name]; first != "" && first != kind {
			l.before = recordForms(t, w, l.workspace, stream, first)
		}
		recordForms(t, w, l.workspace, stream, kind)
		logs[kind] = l
	}
	w.CaughtUp(t)
	for kind, l := range logs {
		first, before := naming[events.NounOf(kind).Name], l.before
		lines, signed := exportSigned(t, w, prover, l.workspace)
		verify := func() *proof.Bad {
			report, _, err := proof.VerifyExport(t.Context(), bytes.NewReader(bytes.Join(lines, nil)), signed.Checkpoint,
				signed.VerifierKey, ExportLines())
			require.NoError(t, err)
			return report.Bad
		}
		require.Nil(t, verify())
		for i := before; i < len(lines); i++ {
			line := lines[i]
			if first != "" {
				require.NotEmpty(t, gjson.GetBytes(line, "target.name").String(), "%s has the name that an earlier record gave", kind)
			}
			for _, c := range changesOf(string(line)) {
				lines[i] = []byte(c.line)
				require.NotNil(t, verify(), "%s, record %d: unnoticed: %s", kind, i+1, c.what)
			}
			lines[i] = line
		}
	}
}

// recordForms appends every stored form of a kind of event, and returns their number.
func recordForms(t *testing.T, w *world.World, workspace, stream events.ID, kind string) (n int) {
	t.Helper()
	by := events.Actor{Type: events.ByUser, ID: world.NewID(), Name: "ann@x"}
	for _, suffix := range []string{"", ".minimal"} {
		form, err := os.ReadFile(filepath.Join("../../../events", "testdata", kind+suffix+".json"))
		if suffix != "" && os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		e, err := events.Decode(kind, events.Schema(kind), form)
		require.NoError(t, err)
		w.Record(t, by, workspace, stream, e)
		n++
	}
	return n
}

// exportSigned signs a log, and returns the lines of its export with leaves.
func exportSigned(t *testing.T, w *world.World, prover *proof.Prover, workspace events.ID) (lines [][]byte, signed proof.Report) {
	t.Helper()
	signed, err := prover.Verify(t.Context(), workspace, "", nil)
	require.NoError(t, err)
	require.Nil(t, signed.Bad)
	require.Zero(t, signed.Unsigned)

	e := newExport(w.DB, workspace, "ndjson", signed.Head)
	e.leaf = true
	e.first, err = e.next(t.Context(), 0)
	require.NoError(t, err)
	pages := make(chan []byte, signed.Head+1)
	require.NoError(t, e.encodePages(context.WithoutCancel(t.Context()), pages))
	close(pages)
	for page := range pages {
		lines = append(lines, slices.DeleteFunc(bytes.SplitAfter(page, []byte("\n")), func(l []byte) bool { return len(l) == 0 })...)
	}
	require.Len(t, lines, int(signed.Head))
	return lines, signed
}

// A changed is a line with one change.
type changed struct{ what, line string }

// changesOf returns line with each of its values changed, each field removed, and a field added to each object.
func changesOf(line string) (list []changed) {
	replace := func(what string, from, to int, by string) {
		list = append(list, changed{what, line[:from] + by + line[to:]})
	}
	var walk func(path string, v gjson.Result)
	walk = func(path string, v gjson.Result) {
		from, to := v.Index, v.Index+len(v.Raw)
		switch {
		case path == "leaf":
			leaf, err := base64.StdEncoding.DecodeString(v.String())
			if err != nil {
				panic(err)
			}
			leaf[len(leaf)-3] ^= 1 // in the event's data
			replace(path, from, to, `"`+base64.StdEncoding.EncodeToString(leaf)+`"`)
		case v.IsObject():
			replace(path+".added", to-1, to, strings.TrimPrefix(`,"added":1}`, map[bool]string{true: ","}[v.Raw == "{}"]))
		case v.IsArray():
			replace(path+"[+]", to-1, to, strings.TrimPrefix(`,1]`, map[bool]string{true: ","}[v.Raw == "[]"]))
		case v.Type == gjson.String:
			replace(path, to-1, to, `x"`)
		case v.Type == gjson.Number:
			replace(path, to, to, "1")
		default: // null, true, false
			replace(path, from, to, map[string]string{"true": "false", "false": "true", "null": `""`}[v.Raw])
		}
		if !v.IsObject() && !v.IsArray() { // ForEach would pass v itself
			return
		}
		v.ForEach(func(key, field gjson.Result) bool {
			walk(strings.TrimPrefix(fmt.Sprintf("%s.%s", path, key.String()), "."), field)
			if v.IsObject() {
				begin, end := key.Index, field.Index+len(field.Raw)
				if line[end] == ',' {
					end++
				} else if line[begin-1] == ',' {
					begin--
				}
				replace("without "+path+"."+key.String(), begin, end, "")
			}
			return true
		})
	}
	walk("", gjson.Parse(line))
	return list
}
