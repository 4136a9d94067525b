package proof

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"svc/events"
)

// Whatever is changed in the tables, the first affected record is reported.
func TestVerifyReportsFirstBadRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.prover(t)
	key, err := p.signingKey(t.Context())
	require.NoError(t, err)
	_, stolen, err := note.GenerateKey(zeros{}, "svc.example.com")
	require.NoError(t, err)
	require.NotEmpty(t, stolen)
	const size, changed = 2100, "the record was changed"

	type steps []string
	for name, test := range map[string]struct {
		steps  steps // $1 is the workspace
		seq    int64
		reason string
	}{
		"a byte of the data": {steps{`update events set data = replace(data::text, 'compute', 'Compute')::json where workspace_id = $1
			and seq = 700`}, 700, changed},
		"a space in the data": {steps{`update events set data = (data::text || ' ')::json where workspace_id = $1 and seq = 700`}, 700,
			changed},
		"a byte of the meta": {steps{`update events set meta = replace(meta::text, 'system', 'System')::json where workspace_id = $1
			and seq = 1`}, 1, changed},
		"the id":      {steps{`update events set id = gen_random_uuid() where workspace_id = $1 and seq = 1100`}, 1100, changed},
		"the stream":  {steps{`update events set stream = gen_random_uuid() where workspace_id = $1 and seq = 2100`}, 2100, changed},
		"the version": {steps{`update events set version = version + 1000 where workspace_id = $1 and seq = 9`}, 9, changed},
		"the kind":    {steps{`update events set kind = 'run.queued' where workspace_id = $1 and seq = 1024`}, 1024, changed},
		"the schema":  {steps{`update events set schema = 2 where workspace_id = $1 and seq = 1025`}, 1025, changed},
		"the time by the least": {steps{`update events set at = at + interval '1 microsecond' where workspace_id = $1 and seq = 44`}, 44,
			changed},
		"the time without bounds": {steps{`update events set at = 'infinity' where workspace_id = $1 and seq = 44`}, 44, changed},
		"several":                 {steps{`update events set schema = 2 where workspace_id = $1 and seq in (1500, 80, 2000)`}, 80, changed},
		"a deleted row":           {steps{`delete from events where workspace_id = $1 and seq = 1234`}, 1234, "the record is missing"},
		"a deleted first row":     {steps{`delete from events where workspace_id = $1 and seq = 1`}, 1, "the record is missing"},
		"a page of deleted rows": {steps{`delete from events where workspace_id = $1 and seq between 501 and 1800`}, 501,
			"the record is missing"},
		"a deleted row, the gap closed": {steps{
			`delete from events where workspace_id = $1 and seq = 2050`,
			`update events set seq = seq - 1 where workspace_id = $1 and seq > 2050`,
			`update logs set head = head - 1 where workspace_id = $1`}, 2050, "the record or its stored hash was changed"},
		"a swapped pair": {steps{
			`update events set seq = -1 where workspace_id = $1 and seq = 300`,
			`update events set seq = 300 where workspace_id = $1 and seq = 301`,
			`update events set seq = 301 where workspace_id = $1 and seq = -1`}, 300, changed},
		"a row moved elsewhere": {steps{`update events set workspace_id = gen_random_uuid() where workspace_id = $1 and seq = 77`}, 77,
			"the record is missing"},
		"a forged row at the end": {steps{`
			insert into events select workspace_id, 2101, gen_random_uuid(), gen_random_uuid(), 1, kind, schema, at, meta, data
			from events where workspace_id = $1 and seq = 5`}, 2101, "the record stands beyond the head of the log"},
		"a forged row before the first": {steps{`
			insert into events select workspace_id, 0, gen_random_uuid(), gen_random_uuid(), 1, kind, schema, at, meta, data
			from events where workspace_id = $1 and seq = 5`}, 0, "there is no record of this number"},
		"a truncated tail": {steps{
			`delete from events where workspace_id = $1 and seq > 2090`,
			`update logs set head = 2090 where workspace_id = $1`}, 2091, "the record is missing"},
		"the newest row, whose time the log keeps": {steps{
			`delete from events where workspace_id = $1 and seq = 2100`,
			`update logs set head = 2099, last_at = last_at + interval '1 second' where workspace_id = $1`}, 2100, "the record is missing"},
		"a truncated tail with its hashes": {steps{
			`delete from events where workspace_id = $1 and seq > 2048`,
			`delete from proof_hashes where workspace_id = $1 and index >= 4095`,
			`update logs set head = 2048 where workspace_id = $1`,
			`update checkpoints set seq = 2048 where workspace_id = $1`}, 2049, "the record is missing"},
		"everything deleted": {steps{
			`delete from events where workspace_id = $1`, `delete from logs where workspace_id = $1`}, 1, "the record is missing"},
		"the head moved on": {steps{`update logs set head = head + 10 where workspace_id = $1`}, 2101, "the record is missing"},
		"a position that is too high": {steps{`update checkpoints set seq = seq + 10 where workspace_id = $1`}, 2101,
			"2110 records count as signed, the newest checkpoint covers 2100"},
		"a position that is too low": {steps{`update checkpoints set seq = 7 where workspace_id = $1`}, 8,
			"7 records count as signed, the newest checkpoint covers 2100"},
		"no position": {steps{`delete from checkpoints where workspace_id = $1`}, 1,
			"0 records count as signed, the newest checkpoint covers 2100"},
		"a changed hash": {steps{`update proof_tiles set hashes = set_byte(hashes, 32 * 87, get_byte(hashes, 32 * 87) # 1)
			where workspace_id = $1 and number = 2`}, 600, "its stored hash was changed"},
		"a changed hash at the end": {steps{`update proof_hashes set hash = sha256(hash) where workspace_id = $1 and index = (select index
			from leaf(2060))`}, 2060, "its stored hash was changed"},
		"a changed inner hash": {steps{`update proof_hashes set hash = sha256(hash) where workspace_id = $1 and index = (select index
			from leaf(2060)) + 2`}, 2060, "a stored hash over it was changed"},
		"a changed root of a tile": {steps{`update proof_hashes set hash = sha256(hash) where workspace_id = $1 and index = (select index
			from leaf(768)) + 8`}, 768, "a stored hash over it was changed"},
		"a hash that is none": {steps{`update proof_hashes set hash = '\x00' where workspace_id = $1 and index = (select index
			from leaf(2060))`}, 2060, "its stored hash is missing"},
		"a tile that is too short": {steps{`update proof_tiles set hashes = substr(hashes, 1, 32 * 87 + 31) where workspace_id = $1
			and number = 2`}, 600, "its stored hash is missing"},
		"a tile that is too long": {steps{`update proof_tiles set hashes = hashes || hashes where workspace_id = $1 and number = 2`}, 513,
			"its stored hash is missing"},
		"a deleted tile":  {steps{`delete from proof_tiles where workspace_id = $1 and number = 2`}, 513, "its stored hash is missing"},
		"a tile too many": {steps{`insert into proof_tiles values ($1, 8, '')`}, 2101, "hashes are stored beyond the newest checkpoint"},
		"a deleted hash": {steps{`delete from proof_hashes where workspace_id = $1 and index = (select index from leaf(2100))`}, 2100,
			"its stored hash is missing"},
		"a hash too many": {steps{`insert into proof_hashes values ($1, 100000, sha256('x'))`}, 2101,
			"hashes are stored beyond the newest checkpoint"},
		"an event and another's hash": {steps{
			`update events set schema = 2 where workspace_id = $1 and seq = 900`,
			`update proof_tiles set hashes = set_byte(hashes, 32 * 87, get_byte(hashes, 32 * 87) # 1) where workspace_id = $1 and number = 2`}, 600,
			"the record or its stored hash was changed"},
		"no checkpoint": {steps{`delete from proof_checkpoints where workspace_id = $1`}, 1, "the signed checkpoint is missing"},
		"a checkpoint in between": {steps{`update proof_checkpoints set note = replace(note, '1000', '1001') where workspace_id = $1
			and size = 1000`}, 1000, "the checkpoint of size 1000 is not signed for this log by the key"},
		"the newest checkpoint": {steps{`update proof_checkpoints set note = replace(note, '2100', '2000') where workspace_id = $1
			and size = 2100`}, 2100, "the checkpoint of size 2100 is not signed for this log by the key"},
		"a checkpoint of any size": {steps{`insert into proof_checkpoints values ($1, 1000000000000, 'forged', now())`}, 2100,
			"the checkpoint of size 1000000000000 is not signed for this log by the key"},
		"a checkpoint put to another size": {steps{
			`update proof_checkpoints set size = 2099 where workspace_id = $1 and size = 2100`}, 2099,
			"the checkpoint of size 2099 says another size"},
	} {
		t.Run(name, func(t *testing.T) {
			workspace := newID()
			w.append(t, workspace, size)
			catchUp(t, p, workspace)
			require.Nil(t, w.verify(t, workspace).Bad)
			for _, sql := range test.steps {
				w.tamper(t, sql, workspace)
			}
			report := w.verify(t, workspace)
			require.Equal(t, &Bad{test.seq, test.reason}, report.Bad)
		})
	}

	t.Run("an event and all hashes over it", func(t *testing.T) {
		workspace := newID()
		w.append(t, workspace, size)
		catchUp(t, p, workspace)
		w.exec(t, `update events set schema = 2 where workspace_id = $1 and seq = 1500`, workspace)
		w.exec(t, `delete from proof_hashes where workspace_id = $1`, workspace)
		w.exec(t, `delete from proof_tiles where workspace_id = $1`, workspace)
		w.rehash(t, workspace, size)
		require.Equal(t, &Bad{1001, "records 1001 to 2000 are not those that were signed"}, w.verify(t, workspace).Bad)
	})
	t.Run("a checkpoint signed by another", func(t *testing.T) {
		workspace := newID()
		w.append(t, workspace, 10)
		catchUp(t, p, workspace)
		signer, err := note.NewSigner(otherKey(t))
		require.NoError(t, err)
		signed, err := note.Sign(&note.Note{Text: checkpoint{Origin: "svc.example.com/" + workspace.String(), Size: 10,
			Root: tlog.Hash{}}.text()}, signer)
		require.NoError(t, err)
		w.exec(t, `update proof_checkpoints set note = $2 where workspace_id = $1`, workspace, string(signed))
		require.Equal(t, &Bad{10, "the checkpoint of size 10 is not signed for this log by the key"}, w.verify(t, workspace).Bad)
	})
	t.Run("the checkpoint of another workspace", func(t *testing.T) {
		workspace, other := newID(), newID()
		for _, id := range []events.ID{workspace, other} {
			w.append(t, id, 10)
			catchUp(t, p, id)
		}
		w.exec(t, `update proof_checkpoints set note = (select note from proof_checkpoints where workspace_id = $2) where workspace_id = $1`,
			workspace, other)
		require.Equal(t, &Bad{10, "the checkpoint of size 10 is not signed for this log by the key"}, w.verify(t, workspace).Bad)
	})
	t.Run("the key itself", func(t *testing.T) {
		workspace := newID()
		w.append(t, workspace, 10)
		catchUp(t, p, workspace)
		report := w.check(t, workspace, Check{VerifierKey: stolen})
		require.EqualValues(t, 10, report.Bad.Seq)
		report = w.check(t, workspace, Check{})
		require.Equal(t, &Bad{10, "there is no verifier key for the checkpoint"}, report.Bad)
		report = w.check(t, workspace, Check{VerifierKey: key.public})
		require.Nil(t, report.Bad)
	})
}
