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

// record appends the event about the replacement of a key.
func (w *world) record(t *testing.T, workspace events.ID, r *Replacement) func(int64) error {
	return func(upTo int64) error {
		before, err := w.log.Load(t.Context(), workspace, events.SigningKeyStream, 0)
		require.NoError(t, err)
		_, err = w.log.Append(t.Context(), &events.Commit{Workspace: workspace, At: epoch, Writes: []events.Write{{
			Stream: events.SigningKeyStream, Version: len(before),
			Events: []events.Event{events.SigningKeyReplaced{From: r.From, To: r.To, UpTo: upTo}},
		}}})
		return err
	}
}

// replaceKey replaces the signing key of one log, which the key's ring does not unseal.
func (w *world) replaceKey(t *testing.T, key, lost string, workspace events.ID) Report {
	t.Helper()
	r, err := Replace(t.Context(), w.db, ringOf(t, key), lost)
	require.NoError(t, err)
	report, _, err := r.Log(t.Context(), workspace, w.record(t, workspace, r), func(int64, int64) {})
	require.NoError(t, err)
	return report
}

// Changes before and after a replacement are reported as if the key had never been replaced.
func TestChangesAroundReplacementAreReported(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		steps []string
		want  Bad
	}{
		"nothing": {nil, Bad{}},
		"a record before": {[]string{`update events set schema = 2 where workspace_id = $1 and seq = 700`},
			Bad{700, "the record was changed"}},
		"a record nobody had signed": {[]string{`update events set schema = 2 where workspace_id = $1 and seq = 2110`},
			Bad{2110, "the record was changed"}},
		"the record of the replacement": {[]string{`update events set data = replace(data::text, 'svc.', 'svd.')::json where workspace_id = $1
			and seq = 2121`}, Bad{2121, "the record was changed"}},
		"without that record": {[]string{`delete from events where workspace_id = $1 and seq = 2121`}, Bad{2121, "the record is missing"}},
		"a record after": {[]string{`update events set schema = 2 where workspace_id = $1 and seq = 2500`},
			Bad{2500, "the record was changed"}},
		"a hash before": {[]string{`update proof_tiles set hashes = set_byte(hashes, 32 * 87, get_byte(hashes, 32 * 87) # 1)
			where workspace_id = $1 and number = 2`}, Bad{600, "its stored hash was changed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, workspace := newWorld(t), newID()
			w.append(t, workspace, 2100)
			catchUp(t, w.prover(t), workspace)
			kept := w.verify(t, workspace)
			w.append(t, workspace, 20)
			later := w.keyed(t, "b")
			report := later.replaceKey(t, "b", kept.VerifierKey, workspace)
			require.Nil(t, report.Bad)
			require.EqualValues(t, 20, report.Unsigned)
			later.append(t, workspace, 1300)
			p := New(w.db, ringOf(t, "b"), "svc.example.com", always, slog.New(slog.DiscardHandler))
			catchUp(t, p, workspace)
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

// Old checkpoints are countersigned by the new key, so a changed record is located even if all
// hashes over it were changed.
func TestCheckpointsOfTheLostKeyAreCountersigned(t *testing.T) {
	t.Parallel()
	w, workspace := newWorld(t), newID()
	w.append(t, workspace, 2100)
	catchUp(t, w.prover(t), workspace)
	kept := w.verify(t, workspace)
	w.replaceKey(t, "b", kept.VerifierKey, workspace)
	w.exec(t, `update events set schema = 2 where workspace_id = $1 and seq = 1500`, workspace)
	w.exec(t, `delete from proof_hashes where workspace_id = $1`, workspace)
	w.exec(t, `delete from proof_tiles where workspace_id = $1`, workspace)
	w.rehash(t, workspace, 2101)
	require.Equal(t, &Bad{1001, "records 1001 to 2000 are not those that were signed"}, w.verify(t, workspace).Bad)
	require.Equal(t, w.verify(t, workspace).Bad,
		w.check(t, workspace, Check{VerifierKey: w.verify(t, workspace).VerifierKey, Since: kept.Checkpoint}).Bad)
}

// An interrupted replacement can be resumed, and is recorded once.
func TestInterruptedReplacementResumes(t *testing.T) {
	t.Parallel()
	w, workspace := newWorld(t), newID()
	w.append(t, workspace, 30)
	catchUp(t, w.prover(t), workspace)
	lost := w.verify(t, workspace).VerifierKey
	begin := func() *Replacement {
		r, err := Replace(t.Context(), w.db, ringOf(t, "b"), lost)
		require.NoError(t, err)
		return r
	}
	first := begin() // only the key exists
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
	require.Nil(t, w.verify(t, workspace).Bad)
	require.EqualValues(t, 31, w.verify(t, workspace).Size)
	_, done, err = r.Log(t.Context(), workspace, never, nil)
	require.NoError(t, err)
	require.False(t, done)
}

// If two processes replace the key at the same time, both use the same new key.
func TestConcurrentReplacementsUseOneKey(t *testing.T) {
	t.Parallel()
	w, workspace := newWorld(t), newID()
	w.append(t, workspace, 3)
	catchUp(t, w.prover(t), workspace)
	lost := w.verify(t, workspace).VerifierKey
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

// A replacement signs nothing that was forged by SQL.
func TestReplacementSignsNothingForged(t *testing.T) {
	t.Parallel()
	w, workspace, other := newWorld(t), newID(), newID()
	for _, id := range []events.ID{workspace, other} {
		w.append(t, id, 30)
		catchUp(t, w.prover(t), id)
	}
	kept := w.verify(t, workspace)
	signer, err := note.NewSigner(otherKey(t))
	require.NoError(t, err)
	forged, err := verifierKeyOf("svc.example.com", otherKey(t))
	require.NoError(t, err)

	// They change a record and sign it with a key of their own.
	w.exec(t, `update events set schema = 2 where workspace_id = $1 and seq = 5`, workspace)
	w.exec(t, `delete from proof_hashes where workspace_id = $1`, workspace)
	w.rehash(t, workspace, 30)
	var tr tree
	records, err := readPage(t.Context(), w.db, workspace, 0, 30)
	require.NoError(t, err)
	for _, r := range records {
		tr.add(r.hash())
	}
	w.sign(t, workspace, signer, tr.root())
	w.exec(t, `update vault_secrets set public = $1, sealed = sha256(sealed)`, forged)
	require.Nil(t, w.verify(t, workspace).Bad, "the database alone does not show it")

	require.NotNil(t, w.replaceKey(t, "a", kept.VerifierKey, workspace).Bad, "the key that was kept does")
	require.NotNil(t, w.verify(t, workspace).Bad, "nor has the new key signed for it")
	require.Nil(t, w.replaceKey(t, "a", kept.VerifierKey, other).Bad)
	require.Nil(t, w.verify(t, other).Bad)
}

// A signing key that somebody has deleted is not created again while logs are signed. It is reported, and replaced, like
// one that is lost. What was forged meanwhile is not signed, because the vault's key is there to check MACs.
func TestDeletedSigningKeyIsNotCreatedAgain(t *testing.T) {
	t.Parallel()
	w, workspace, other := newWorld(t), newID(), newID()
	p := w.prover(t)
	for _, id := range []events.ID{workspace, other} {
		w.append(t, id, 30)
		catchUp(t, p, id)
	}
	lost := w.verify(t, workspace).VerifierKey
	w.exec(t, `delete from vault_secrets`)
	w.append(t, workspace, 1)
	for _, p := range []*Prover{p, w.prover(t)} {
		_, err := p.takePage(t.Context(), []events.ID{workspace})
		require.ErrorIs(t, err, errKeyMissing)
		_, err = p.Verify(t.Context(), workspace, "", nil)
		require.ErrorIs(t, err, ErrSigningKey)
	}
	public, err := PublicKey(t.Context(), w.db)
	require.NoError(t, err)
	require.Empty(t, public)

	_, err = Replace(t.Context(), w.db, ringOf(t, "a"), otherVerifierKey(t))
	require.ErrorIs(t, err, ErrForeignKey)
	w.exec(t, forge, other)
	require.Equal(t, &Bad{31, "the record was not appended by this service"}, w.replaceKey(t, "a", lost, other).Bad)
	require.Nil(t, w.replaceKey(t, "a", lost, workspace).Bad, "this resumes the replacement")
	report, err := w.prover(t).Verify(t.Context(), workspace, "", nil)
	require.NoError(t, err)
	require.Nil(t, report.Bad)
	require.EqualValues(t, 32, report.Size)
	require.Equal(t, lost, report.Former[0].VerifierKey)
}

// Without checkpoints a key is created, by one of several processes, of which another one may have signed before.
func TestFirstSigningKeyIsCreatedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := Replace(t.Context(), w.db, ringOf(t, "a"), otherVerifierKey(t))
	require.ErrorIs(t, err, ErrNoKey)
	errs := make(chan error)
	for range 8 {
		go func() {
			workspace := newID()
			w.append(t, workspace, 1)
			_, err := w.prover(t).takePage(t.Context(), []events.ID{workspace})
			errs <- err
		}()
	}
	for range 8 {
		require.NoError(t, <-errs)
	}
}

func otherVerifierKey(t *testing.T) string {
	t.Helper()
	public, err := verifierKeyOf("svc.example.com", otherKey(t))
	require.NoError(t, err)
	return public
}

// A forged event about a replacement does not make the attacker's key valid.
func TestForgedReplacementEventIsRejected(t *testing.T) {
	t.Parallel()
	w, workspace := newWorld(t), newID()
	w.append(t, workspace, 30)
	p := w.prover(t)
	catchUp(t, p, workspace)
	public := w.verify(t, workspace).VerifierKey
	signer, err := note.NewSigner(otherKey(t))
	require.NoError(t, err)
	forged, err := verifierKeyOf("svc.example.com", otherKey(t))
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

// sign replaces the newest checkpoint.
func (w *world) sign(t *testing.T, workspace events.ID, signer note.Signer, root tlog.Hash) {
	t.Helper()
	text, err := note.Sign(&note.Note{Text: checkpoint{Origin: "svc.example.com/" + workspace.String(), Size: 30, Root: root}.text()}, signer)
	require.NoError(t, err)
	w.exec(t, `update proof_checkpoints set note = $2 where workspace_id = $1 and size = 30`, workspace, string(text))
}
