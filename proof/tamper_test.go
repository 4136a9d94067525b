package proof

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"svc/events"
)

func otherKey(t *testing.T) string {
	private, _, err := note.GenerateKey(zeros{}, "svc.example.com")
	require.NoError(t, err)
	return private
}

// tamper executes a statement in which leaf(n) is the index of the hash of record n.
func (w *world) tamper(t *testing.T, sql string, workspace events.ID) {
	t.Helper()
	w.exec(t, `create or replace function leaf(n bigint) returns table (index bigint) language sql
		as 'select 2 * (n - 1) - bit_count((n - 1)::bit(64))'`)
	w.exec(t, sql, workspace)
}

// rehash stores the hashes of the present events.
func (w *world) rehash(t *testing.T, workspace events.ID, size int64) {
	t.Helper()
	var tr tree
	open := openTile{}
	store := func() {
		for _, h := range open.hashes {
			w.exec(t, `insert into proof_hashes values ($1, $2, $3)`, workspace, h.index, h.hash[:])
		}
	}
	for tr.size < size {
		records, err := readPage(t.Context(), w.db, workspace, tr.size, size)
		require.NoError(t, err)
		for _, r := range records {
			n := tr.size
			if open.add(n, tr.add(r.hash())); tr.size%tileWidth == 0 {
				full := open.close()
				w.exec(t, `insert into proof_tiles values ($1, $2, $3)`, workspace, full.number, full.leaves)
				store()
				open = openTile{begin: tr.size}
			}
		}
	}
	store()
}

// If all checkpoints are deleted, a log whose events have their MACs is signed again with the genuine key. A kept
// checkpoint reveals what MACs do not cover, such as another time.
func TestKeptCheckpointRevealsResigning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, workspace := w.prover(t), newID()
	w.append(t, workspace, 100)
	catchUp(t, p, workspace)
	before := w.verify(t, workspace)
	w.append(t, workspace, 50)
	catchUp(t, p, workspace)
	later := w.verify(t, workspace)
	since := func(kept string) *Bad {
		return w.check(t, workspace, Check{VerifierKey: before.VerifierKey, Since: kept}).Bad
	}
	require.Nil(t, since(before.Checkpoint))
	require.Nil(t, since(later.Checkpoint))
	require.Equal(t, &Bad{0, "the checkpoint that was kept is not signed for this log by the key"}, since(before.Checkpoint[1:]))

	w.tamper(t, `update events set at = at - interval '1 day' where workspace_id = $1 and seq = 7`, workspace)
	for _, table := range []string{"proof_checkpoints", "proof_hashes", "proof_tiles", "checkpoints"} {
		w.tamper(t, `delete from `+table+` where workspace_id = $1`, workspace)
	}
	require.Equal(t, &Bad{1, "the kept checkpoint covers 100 records, the newest one 0"}, since(before.Checkpoint))
	catchUp(t, p, workspace)
	require.Nil(t, since(""), "nobody can see it in the database alone")
	require.Equal(t, &Bad{1, "records 1 to 100 are not those that the kept checkpoint covers"}, since(before.Checkpoint))
	require.Equal(t, &Bad{1, "records 1 to 150 are not those that the kept checkpoint covers"}, since(later.Checkpoint))
}

// The unsigned tail is verified as far as possible: no record may be missing, and it must be signed
// in time.
func TestUnsignedTailIsVerified(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, workspace := w.prover(t), newID()
	key, err := p.signingKey(t.Context())
	require.NoError(t, err)
	check := func(due int64) Report { return w.check(t, workspace, Check{VerifierKey: key.public, Due: due}) }

	w.append(t, workspace, 1500)
	report := check(0)
	require.Nil(t, report.Bad, "it has just begun")
	require.EqualValues(t, 1500, report.Unsigned)
	require.Equal(t, epoch, report.UnsignedSince)
	require.Equal(t, &Bad{1, "records 1 to 1500 were not signed in time"}, check(1500).Bad)

	catchUp(t, p, workspace)
	report = check(1500)
	require.Nil(t, report.Bad)
	require.Equal(t, []int64{1500, 1500, 0}, []int64{report.Head, report.Size, report.Unsigned})
	require.True(t, report.UnsignedSince.IsZero())

	w.append(t, workspace, 20)
	report = check(1500)
	require.Nil(t, report.Bad)
	require.Equal(t, []int64{1520, 1500, 20}, []int64{report.Head, report.Size, report.Unsigned})
	require.Equal(t, &Bad{1501, "records 1501 to 1510 were not signed in time"}, check(1510).Bad)

	w.exec(t, `delete from events where workspace_id = $1 and seq = 1507`, workspace)
	require.Equal(t, &Bad{1507, "the record is missing"}, check(1500).Bad)
	w.exec(t, `update events set schema = 2 where workspace_id = $1 and seq = 30`, workspace)
	require.Equal(t, &Bad{30, "the record was changed"}, check(1500).Bad)
}

// With a kept checkpoint the same record is reported.
func TestKeptCheckpointReportsSameRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, workspace := w.prover(t), newID()
	w.append(t, workspace, 2900)
	catchUp(t, p, workspace)
	kept := w.verify(t, workspace)
	w.append(t, workspace, 100)
	catchUp(t, p, workspace)
	for _, damage := range []string{
		`update events set schema = 2 where workspace_id = $1 and seq = 2716`,
		`update events set schema = 2 where workspace_id = $1 and seq = 1300`,
		`delete from proof_hashes where workspace_id = $1 and index = (select max(index) from proof_hashes where workspace_id = $1)`,
		`delete from events where workspace_id = $1 and seq = 1200`,
	} {
		w.exec(t, damage, workspace)
		plain := w.verify(t, workspace).Bad
		require.NotNil(t, plain)
		require.Greater(t, plain.Seq, int64(1))
		require.Equal(t, plain, w.check(t, workspace, Check{VerifierKey: kept.VerifierKey, Since: kept.Checkpoint}).Bad, damage)
	}
}

// A log whose hashes were stored before tiles existed is verified and extended after the migration.
func TestMigrationPacksHashesIntoTiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, workspace := w.prover(t), newID()
	w.append(t, workspace, 700)
	catchUp(t, p, workspace)
	tiles := func() (list [][]byte) {
		rows, _ := w.db.Query(t.Context(), `select hashes from proof_tiles order by number`)
		list, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
		require.NoError(t, err)
		return list
	}
	want := tiles()
	require.Len(t, want, 2)

	_, err := w.db.Exec(t.Context(), `truncate proof_hashes; drop table proof_tiles`)
	require.NoError(t, err)
	var tr tree
	records, err := readPage(t.Context(), w.db, workspace, 0, 700)
	require.NoError(t, err)
	for _, r := range records {
		first := tlog.StoredHashCount(tr.size)
		for i, h := range tr.add(r.hash()) {
			w.exec(t, `insert into proof_hashes values ($1, $2, $3)`, workspace, first+int64(i), h[:])
		}
	}
	sql, err := os.ReadFile("../migrations/0030_proof_tiles.sql")
	require.NoError(t, err)
	_, err = w.db.Exec(t.Context(), string(sql))
	require.NoError(t, err)
	require.Equal(t, want, tiles())
	require.Nil(t, w.verify(t, workspace).Bad)
	var left int
	require.NoError(t, w.db.QueryRow(t.Context(), `select count(*) from proof_hashes`).Scan(&left))
	require.EqualValues(t, tlog.StoredHashCount(700)-tlog.StoredHashCount(512)+3, left,
		"of the first 512 events the roots of two tiles and the one over both")
	w.append(t, workspace, 300)
	catchUp(t, p, workspace)
	require.Nil(t, w.verify(t, workspace).Bad)
	require.Len(t, tiles(), 3)
}
