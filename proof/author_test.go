package proof

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"svc/events"
	"svc/events/store"
)

// forge appends an event by SQL, in the form of a commit.
const forge = `
	with h as (update logs set head = head + 1 where workspace_id = $1 returning head)
	insert into events select workspace_id, h.head, gen_random_uuid(), gen_random_uuid(), 1, kind, schema, at, meta, data
	from events, h where workspace_id = $1 and seq = 5`

// An event that was appended or changed by SQL before it was signed is never signed, and is
// reported.
func TestForgedEventsAreNotSigned(t *testing.T) {
	t.Parallel()
	const reason = "the record was not appended by this service"
	for name, c := range map[string]struct {
		sql string
		seq int64
	}{
		"a row of their own": {forge, 41},
		"with a MAC of another": {forge +
			`; update events set mac = (select mac from events where workspace_id = $1 and seq = 5) where workspace_id = $1 and mac = ''`, 41},
		"a copy under another id": {`with h as (update logs set head = head + 1 where workspace_id = $1 returning head) insert into events
			select workspace_id, h.head, gen_random_uuid(), gen_random_uuid(), version, kind, schema, at, meta, data, mac from events, h
				where workspace_id = $1 and seq = 5`, 41},
		"a changed text": {`update events set data = replace(data::text, 'compute', 'model')::json where workspace_id = $1 and seq = 37`,
			37},
		"a changed actor": {`update events set meta = replace(meta::text, 'system', 'nobody')::json where workspace_id = $1 and seq = 31`,
			31},
		"another stream":          {`update events set stream = gen_random_uuid() where workspace_id = $1 and seq = 40`, 40},
		"another place in it":     {`update events set version = version + 1 where workspace_id = $1 and seq = 40`, 40},
		"another kind":            {`update events set kind = 'run.queued' where workspace_id = $1 and seq = 33`, 33},
		"no MAC":                  {`update events set mac = '' where workspace_id = $1 and seq = 35`, 35},
		"a MAC that is too short": {`update events set mac = substr(mac, 1, 9) where workspace_id = $1 and seq = 35`, 35},
		"a MAC of an unknown key": {`update events set mac = sha256(mac) where workspace_id = $1 and seq = 35`, 35},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, workspace := newWorld(t), newID()
			p := w.prover(t)
			w.append(t, workspace, 30)
			catchUp(t, p, workspace)
			w.append(t, workspace, 10)
			for _, sql := range strings.Split(c.sql, ";") {
				w.exec(t, sql, workspace)
			}
			more, err := []events.ID{workspace}, error(nil)
			for len(more) > 0 && err == nil {
				more, err = p.takePage(t.Context(), more)
			}
			_, err = p.takePage(t.Context(), []events.ID{workspace})
			require.ErrorIs(t, err, store.ErrForeign)
			report := w.verify(t, workspace) // does not wait for signatures
			require.NoError(t, p.reportAuthor(t.Context(), &report))
			require.Equal(t, &Bad{c.seq, reason}, report.Bad)
			require.EqualValues(t, c.seq-1, report.Size, "what comes before is signed for")
		})
	}
}

// Prover.Verify reports the record after the time for signing is over.
func TestVerifyReportsForgedEvent(t *testing.T) {
	t.Parallel()
	w, workspace := newWorld(t), newID()
	p := w.prover(t)
	w.append(t, workspace, 30)
	catchUp(t, p, workspace)
	w.exec(t, forge, workspace)
	report, err := p.Verify(t.Context(), workspace, "", nil)
	require.NoError(t, err)
	require.Equal(t, &Bad{31, "the record was not appended by this service"}, report.Bad)
}

// Nothing is signed of a log without MACs, which somebody made by SQL, nor is an event without one that follows
// those of a build without MACs, which that build has signed.
func TestEventsWithoutMACsAreNotSigned(t *testing.T) {
	t.Parallel()
	w, made, old := newWorld(t), newID(), newID()
	w.exec(t, `insert into logs values ($1, 1, now())`, made)
	w.exec(t, `insert into events select $1, 1, gen_random_uuid(), gen_random_uuid(), 1, 'run.facts_recorded', 1, now(), '{}', '{"facts":[]}'`,
		made)
	w.append(t, old, 10)
	w.exec(t, `update events set mac = '' where workspace_id = $1`, old)
	w.signAny(t, old)
	require.EqualValues(t, 10, w.verify(t, old).Size)
	w.append(t, old, 1)
	w.exec(t, `update events set mac = '' where workspace_id = $1`, old)
	p := w.prover(t)
	for _, workspace := range []events.ID{made, old} {
		_, err := p.takePage(t.Context(), []events.ID{workspace})
		require.ErrorIs(t, err, store.ErrForeign)
	}
	require.EqualValues(t, 0, w.verify(t, made).Size)
	require.EqualValues(t, 10, w.verify(t, old).Size)
	require.Nil(t, w.verify(t, old).Bad)
}

// signAny signs events of any author, as builds without MACs did.
func (w *world) signAny(t *testing.T, workspace events.ID) {
	t.Helper()
	p := w.prover(t)
	p.acceptAny = true
	catchUp(t, p, workspace)
}

// Checkpoints of earlier builds may have a fourth line.
func TestCheckpointWithFourthLineIsRead(t *testing.T) {
	t.Parallel()
	w, workspace := newWorld(t), newID()
	w.append(t, workspace, 3)
	p := w.prover(t)
	catchUp(t, p, workspace)
	k, err := p.signingKey(t.Context())
	require.NoError(t, err)
	c, err := openCheckpoint(w.verify(t, workspace).Checkpoint, k.verifier, workspace)
	require.NoError(t, err)
	text, err := note.Sign(&note.Note{Text: c.text() + "authenticated\n"}, k.signer)
	require.NoError(t, err)
	w.exec(t, `update proof_checkpoints set note = $2 where workspace_id = $1`, workspace, string(text))
	require.Nil(t, w.verify(t, workspace).Bad)
	w.append(t, workspace, 3)
	catchUp(t, w.prover(t), workspace)
	report := w.verify(t, workspace)
	require.Nil(t, report.Bad)
	require.EqualValues(t, 6, report.Size)
	require.NotContains(t, report.Checkpoint, "authenticated")
}

// MACs under a lost key cannot be checked. Later events need their author's MAC as before.
func TestReplacementSignsUncheckableEvents(t *testing.T) {
	t.Parallel()
	w, workspace := newWorld(t), newID()
	w.append(t, workspace, 30)
	catchUp(t, w.prover(t), workspace)
	lost := w.verify(t, workspace).VerifierKey
	w.append(t, workspace, 5)
	later := w.keyed(t, "b")
	require.Nil(t, later.replaceKey(t, "b", lost, workspace).Bad)
	p := New(w.db, ringOf(t, "b"), "svc.example.com", always, slog.New(slog.DiscardHandler))
	later.append(t, workspace, 4)
	catchUp(t, p, workspace)
	require.EqualValues(t, 40, w.verify(t, workspace).Size)
	w.exec(t, forge, workspace)
	_, err := p.takePage(t.Context(), []events.ID{workspace})
	require.ErrorIs(t, err, store.ErrForeign)
}
