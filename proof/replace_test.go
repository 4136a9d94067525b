package proof

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"svc/events"
)

// record is what a log says when its key is replaced.
func (w *world) record(t *testing.T, workspace events.ID, r *Replacement) func(int64) error {
	return func(upTo int64) error {
		before, err := w.log.Load(t.Context(), workspace, events.SigningKeyStream, 0)
		require.NoError(t, err)
		_, err = w.log.Append(t.Context(), &events.Commit{Workspace: workspace, At: epoch, Writes: []events.Write{{
			Stream: events.SigningKeyStream, Version: len(before), Events: []events.Event{events.SigningKeyReplaced{From: r.From, To: r.To, UpTo: upTo}},
		}}})
		return err
	}
}

// replaceKey replaces the key of one log, which the ring of a key does not open.
func (w *world) replaceKey(t *testing.T, key, lost string, workspace events.ID) Report {
	t.Helper()
	r, err := Replace(t.Context(), w.db, ringOf(t, key), lost)
	require.NoError(t, err)
	report, _, err := r.Log(t.Context(), workspace, w.record(t, workspace, r), func(int64, int64) {})
	require.NoError(t, err)
	return report
}

// What is done to a log is named as if its key had never been replaced, on either
// side of the replacement.
func TestBothSidesOfAReplacementAreVerified(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		steps []string
		want  Bad
	}{
		"nothing":                       {nil, Bad{}},
		"a record before":               {[]string{`update events set schema = 2 where workspace_id = $1 and seq = 700`}, Bad{700, "the record was changed"}},
		"a record nobody had signed":    {[]string{`update events set schema = 2 where workspace_id = $1 and seq = 2110`}, Bad{2110, "the record was changed"}},
		"the record of the replacement": {[]string{`update events set data = replace(data::text, 'svc.', 'svd.')::json where workspace_id = $1 and seq = 2121`}, Bad{2121, "the record was changed"}},
		"without that record":           {[]string{`delete from events where workspace_id = $1 and seq = 2121`}, Bad{2121, "the record is missing"}},
		"a record after":                {[]string{`update events set schema = 2 where workspace_id = $1 and seq = 2500`}, Bad{2500, "the record was changed"}},
		"a hash before":                 {[]string{`update proof_tiles set hashes = set_byte(hashes, 32 * 87, get_byte(hashes, 32 * 87) # 1) where workspace_id = $1 and number = 2`}, Bad{600, "its stored hash was changed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, workspace := newWorld(t), newID()
			w.append(t, workspace, 2100)
			prove(t, w.prover(t), workspace)
			kept := w.verified(t, workspace)
			w.append(t, workspace, 20)
			report := w.replaceKey(t, "b", kept.VerifierKey, workspace)
			require.Nil(t, report.Bad)
			require.EqualValues(t, 20, report.Unsigned)
			w.append(t, workspace, 1300)
			p := New(w.db, ringOf(t, "b"), "svc.example.com", always, slog.New(slog.DiscardHandler))
			prove(t, p, workspace)
			for _, sql := range test.steps {
				w.tamper(t, sql, workspace)
			}
			for _, since := range []string{"", kept.Checkpoint} {
				report, err := p.Verify(t.Context(), workspace, since, nil)
				require.NoError(t, err)
				if test.steps != nil {
					require.Equal(t, &test.want, report.Bad)
					continue
				}
				require.Nil(t, report.Bad)
				require.EqualValues(t, 3421, report.Size)
				require.Equal(t, []FormerKey{{VerifierKey: kept.VerifierKey, UpTo: 2100, ReplacedIn: 2121, by: report.VerifierKey}}, report.Former)
			}
		})
	}
}

// Old checkpoints count because the new key has signed them too: an altered record
// together with all hashes over it is found between the right ones.
func TestCheckpointsOfTheLostKeyAreCountersigned(t *testing.T) {
	t.Parallel()
	w, workspace := newWorld(t), newID()
	w.append(t, workspace, 2100)
	prove(t, w.prover(t), workspace)
	kept := w.verified(t, workspace)
	w.replaceKey(t, "b", kept.VerifierKey, workspace)
	w.exec(t, `update events set schema = 2 where workspace_id = $1 and seq = 1500`, workspace)
	w.exec(t, `delete from proof_hashes where workspace_id = $1`, workspace)
	w.exec(t, `delete from proof_tiles where workspace_id = $1`, workspace)
	w.rehash(t, workspace, 2101)
	require.Equal(t, &Bad{1001, "records 1001 to 2000 are not those that were signed for"}, w.verified(t, workspace).Bad)
	require.Equal(t, w.verified(t, workspace).Bad,
		w.check(t, workspace, Check{VerifierKey: w.verified(t, workspace).VerifierKey, Since: kept.Checkpoint}).Bad)
}

// Wherever a replacement is cut off, it is gone on with, and recorded once.
func TestAReplacementThatWasCutOffIsGoneOnWith(t *testing.T) {
	t.Parallel()
	w, workspace := newWorld(t), newID()
	w.append(t, workspace, 30)
	prove(t, w.prover(t), workspace)
	lost := w.verified(t, workspace).VerifierKey
	begin := func() *Replacement {
		r, err := Replace(t.Context(), w.db, ringOf(t, "b"), lost)
		require.NoError(t, err)
		return r
	}
	first := begin() // the key is there, and no more
	_, _, err := first.Log(t.Context(), workspace, func(int64) error { return context.Canceled }, nil)
	require.ErrorIs(t, err, context.Canceled)

	ctx, cut := context.WithCancel(t.Context())
	r := begin()
	require.Equal(t, first.To, r.To)
	_, _, err = r.Log(ctx, workspace, func(upTo int64) error { defer cut(); return w.record(t, workspace, r)(upTo) }, nil)
	require.ErrorIs(t, err, context.Canceled, "after it was recorded")

	never := func(int64) error { t.Error("recorded again"); return nil }
	r = begin()
	_, done, err := r.Log(t.Context(), workspace, never, nil)
	require.NoError(t, err)
	require.True(t, done)
	require.Nil(t, w.verified(t, workspace).Bad)
	require.EqualValues(t, 31, w.verified(t, workspace).Size)
	_, done, err = r.Log(t.Context(), workspace, never, nil)
	require.NoError(t, err)
	require.False(t, done)
}

// Of two who replace the key at the same moment one makes it, and both go on with
// that.
func TestTwoReplacementsAgree(t *testing.T) {
	t.Parallel()
	w, workspace := newWorld(t), newID()
	w.append(t, workspace, 3)
	prove(t, w.prover(t), workspace)
	lost := w.verified(t, workspace).VerifierKey
	keys := make(chan string, 2)
	for range 2 {
		go func() {
			r, err := Replace(t.Context(), w.db, ringOf(t, "b"), lost)
			if err != nil {
				keys <- err.Error()
				return
			}
			keys <- r.To
		}()
	}
	require.Equal(t, <-keys, <-keys)
}

// Who has SQL, but no key, has nothing of theirs signed by a replacement.
func TestAReplacementSignsForNothingThatWasForged(t *testing.T) {
	t.Parallel()
	w, workspace, other := newWorld(t), newID(), newID()
	for _, id := range []events.ID{workspace, other} {
		w.append(t, id, 30)
		prove(t, w.prover(t), id)
	}
	kept := w.verified(t, workspace)
	signer, err := note.NewSigner(otherKey(t))
	require.NoError(t, err)
	forged, err := publicOf("svc.example.com", otherKey(t))
	require.NoError(t, err)

	// They alter a record, and sign for that with a key of their own.
	w.exec(t, `update events set schema = 2 where workspace_id = $1 and seq = 5`, workspace)
	w.exec(t, `delete from proof_hashes where workspace_id = $1`, workspace)
	w.rehash(t, workspace, 30)
	var tr tree
	records, err := read(t.Context(), w.db, workspace, 0, 30)
	require.NoError(t, err)
	for _, r := range records {
		tr.add(r.hash())
	}
	w.sign(t, workspace, signer, tr.root())
	w.exec(t, `update vault_secrets set public = $1, sealed = sha256(sealed)`, forged)
	require.Nil(t, w.verified(t, workspace).Bad, "the database alone does not show it")

	require.NotNil(t, w.replaceKey(t, "b", kept.VerifierKey, workspace).Bad, "the key that was kept does")
	require.NotNil(t, w.verified(t, workspace).Bad, "nor has the new key signed for it")
	require.Nil(t, w.replaceKey(t, "b", kept.VerifierKey, other).Bad)
	require.Nil(t, w.verified(t, other).Bad)
}

// A log that says of itself that a key of the attacker's signed it gains nothing
// by that.
func TestAForgedReplacementIsNone(t *testing.T) {
	t.Parallel()
	w, workspace := newWorld(t), newID()
	w.append(t, workspace, 30)
	p := w.prover(t)
	prove(t, p, workspace)
	public := w.verified(t, workspace).VerifierKey
	signer, err := note.NewSigner(otherKey(t))
	require.NoError(t, err)
	forged, err := publicOf("svc.example.com", otherKey(t))
	require.NoError(t, err)
	require.NoError(t, w.record(t, workspace, &Replacement{From: forged, To: public})(30))
	w.exec(t, `update events set schema = 2 where workspace_id = $1 and seq = 5`, workspace)
	w.sign(t, workspace, signer, tlog.Hash{})
	report := w.check(t, workspace, Check{VerifierKey: public})
	require.NotNil(t, report.Bad)
	require.Empty(t, report.Former, "nobody has signed for that record")
	_, err = p.takePage(t.Context(), []events.ID{workspace})
	require.ErrorIs(t, err, errNotSigned)
}

// sign puts another checkpoint in the place of the newest one.
func (w *world) sign(t *testing.T, workspace events.ID, signer note.Signer, root tlog.Hash) {
	t.Helper()
	text, err := note.Sign(&note.Note{Text: checkpoint{Origin: "svc.example.com/" + workspace.String(), Size: 30, Root: root}.text()}, signer)
	require.NoError(t, err)
	w.exec(t, `update proof_checkpoints set note = $2 where workspace_id = $1 and size = 30`, workspace, string(text))
}
