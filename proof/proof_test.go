package proof

import (
	"encoding/hex"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"svc/events"
	"svc/vault"
)

// The leaf of an event never changes.
func TestCanonicalBytesNeverChange(t *testing.T) {
	id := func(last byte) events.ID { return events.ID{15: last} }
	e := eventRow{
		Workspace: id(1), Seq: 2, ID: id(3), Stream: id(4), Version: 5, Kind: "a.b", Schema: 1,
		At: pgtype.Timestamptz{Time: time.UnixMicro(6), Valid: true}, Meta: []byte(`{}`), Data: []byte(`{"ö":1}`),
	}
	require.Equal(t, ""+
		"0000001000000000000000000000000000000001"+
		"000000080000000000000002"+
		"0000001000000000000000000000000000000003"+
		"0000001000000000000000000000000000000004"+
		"000000080000000000000005"+
		"00000003612e62"+
		"000000080000000000000001"+
		"000000080000000000000006"+
		"000000027b7d"+
		"000000087b22c3b6223a317d", hex.EncodeToString(e.canonical()))
}

func TestTreeEqualsReference(t *testing.T) {
	var all []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) (list []tlog.Hash, err error) {
		for _, i := range indexes {
			list = append(list, all[i])
		}
		return list, nil
	})
	var tr tree
	for n := range int64(300) {
		want, err := tlog.TreeHash(n, reader)
		require.NoError(t, err)
		require.Equal(t, want, tr.root(), n)
		var edge []tlog.Hash
		for _, i := range edgeIndexes(n) {
			edge = append(edge, all[i])
		}
		require.Equal(t, append([]tlog.Hash(nil), tr.edge...), edge, n)

		leaf := tlog.RecordHash([]byte{byte(n), byte(n >> 8)})
		should, err := tlog.StoredHashesForRecordHash(n, leaf, reader)
		require.NoError(t, err)
		require.Equal(t, should, tr.add(leaf), n)
		all = append(all, should...)
	}
}

func TestUntouchedLogVerifies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, workspace := w.prover(t), newID()

	require.Equal(t, Report{Workspace: workspace, Root: (&tree{}).root()}, without(w.verify(t, workspace)), "nothing is signed yet")
	total := 0
	for _, n := range []int{1, 1, 2, 3, 1500, 700} {
		w.append(t, workspace, n)
		catchUp(t, p, workspace)
		total += n
		report := w.verify(t, workspace)
		require.Nil(t, report.Bad)
		require.EqualValues(t, total, report.Size)
		verifier, err := note.NewVerifier(report.VerifierKey)
		require.NoError(t, err)
		require.Equal(t, "svc.example.com", verifier.Name())
		signed, err := note.Open([]byte(report.Checkpoint), note.VerifierList(verifier))
		require.NoError(t, err)
		require.Equal(t, checkpoint{Origin: "svc.example.com/" + workspace.String(), Size: report.Size, Root: report.Root}.text(), signed.Text)
	}
	var kept int
	require.NoError(t, w.db.QueryRow(t.Context(), `select count(*) from proof_checkpoints`).Scan(&kept))
	require.Equal(t, 3, kept, "the last of each 1024 events, and the newest")

	var done []int64
	w.check(t, workspace, Check{VerifierKey: w.verify(t, workspace).VerifierKey, Progress: func(n, all int64) {
		require.EqualValues(t, total, all)
		done = append(done, n)
	}})
	require.Equal(t, []int64{1000, 2000, int64(total)}, done)
}

// While a log is verified, it may grow so far that its last tile becomes full, for which hashes are
// removed.
func TestTileBecomesFullDuringVerification(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, workspace := w.prover(t), newID()
	w.append(t, workspace, page+100)
	catchUp(t, p, workspace)
	grown := false
	report := w.check(t, workspace, Check{VerifierKey: w.verify(t, workspace).VerifierKey, Progress: func(done, _ int64) {
		if !grown {
			require.EqualValues(t, page, done)
			w.append(t, workspace, 2*tileWidth)
			catchUp(t, p, workspace)
		}
		grown = true
	}})
	require.Nil(t, report.Bad, "%+v", report.Bad)
	require.EqualValues(t, page+100, report.Size)
	require.Nil(t, w.verify(t, workspace).Bad)
}

func without(r Report) Report {
	r.CheckedAt, r.VerifierKey = time.Time{}, ""
	return r
}

// Two processes sign logs that grow meanwhile.
func TestReplicasFollowEveryLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := newID(), newID()
	one, two := w.prover(t), w.prover(t)
	run(t, one)
	run(t, two)
	for range 10 {
		w.append(t, a, 37)
		one.Moved(a, 0)
		w.append(t, b, 11)
		two.Moved(b, 0)
	}
	w.awaitCheckpoint(t, a, 370)
	w.awaitCheckpoint(t, b, 110)
	for _, workspace := range []events.ID{a, b} {
		require.Nil(t, w.verify(t, workspace).Bad)
	}
	list, err := Workspaces(t.Context(), w.db)
	require.NoError(t, err)
	require.ElementsMatch(t, []events.ID{a, b}, list)
}

func TestChangedRecordsAreNotSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, workspace := w.prover(t), newID()
	w.append(t, workspace, 100)
	catchUp(t, p, workspace)
	w.append(t, workspace, 5)

	w.exec(t, `update proof_hashes set hash = sha256(hash) where index = $1`, tlog.StoredHashIndex(6, 0))
	_, err := p.takePage(t.Context(), []events.ID{workspace})
	require.ErrorIs(t, err, errNotSigned)

	other := newID()
	w.append(t, other, 3)
	w.exec(t, `delete from events where workspace_id = $1 and seq = 2`, other)
	_, err = p.takePage(t.Context(), []events.ID{other})
	require.ErrorContains(t, err, "event 2 is missing, found 3 in its place")
}

func TestKeyOfCheckpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	workspace := newID()
	w.append(t, workspace, 10)
	quiet := slog.New(slog.DiscardHandler)
	catchUp(t, w.prover(t), workspace)
	key, err := PublicKey(t.Context(), w.db)
	require.NoError(t, err)

	again := New(w.db, ringOf(t, "b", "a"), "elsewhere.example.com", always, quiet)
	report, err := again.Verify(t.Context(), workspace, "", nil)
	require.NoError(t, err)
	require.Nil(t, report.Bad)
	require.Equal(t, key, report.VerifierKey, "it is made once")
	w.append(t, workspace, 10)
	catchUp(t, again, workspace)
	require.Nil(t, w.verify(t, workspace).Bad, "the host of the origin may change")

	_, err = New(w.db, ringOf(t, "b"), "svc.example.com", always, quiet).Verify(t.Context(), workspace, "", nil)
	require.NoError(t, err, "it was sealed anew under the first key of the ring")
	_, err = w.prover(t).Verify(t.Context(), workspace, "", nil)
	require.ErrorIs(t, err, vault.ErrKeyChanged)

	_, err = Verify(t.Context(), w.db, workspace, Check{VerifierKey: "svc.example.com+malformed"})
	require.ErrorContains(t, err, "the verifier key is malformed")

	_, other, err := note.GenerateKey(zeros{}, "svc.example.com")
	require.NoError(t, err)
	w.exec(t, `update vault_secrets set public = $1`, other)
	report, err = again.Verify(t.Context(), workspace, "", nil)
	require.NoError(t, err)
	require.Equal(t, &Bad{0, "the verifier key that is stored in clear was replaced"}, report.Bad)
	require.Equal(t, key, report.VerifierKey)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// The memory of a verification does not grow with the log.
func TestVerifyMemoryIsBounded(t *testing.T) {
	w := newWorld(t)
	p, short, long := w.prover(t), newID(), newID()
	w.append(t, short, 2000)
	w.append(t, long, 50_000)
	catchUp(t, p, short)
	catchUp(t, p, long)
	peak := func(workspace events.ID) (most uint64) {
		public, err := PublicKey(t.Context(), w.db)
		require.NoError(t, err)
		report := w.check(t, workspace, Check{VerifierKey: public, Progress: func(int64, int64) {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}})
		require.Nil(t, report.Bad)
		return most
	}
	few := peak(short)
	require.Less(t, float64(peak(long)), 1.3*float64(few))
}
