package proof

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"svc/events"
	"svc/fault"
)

// A Report is the result of a verification.
type Report struct {
	Workspace     events.ID
	Size          int64       // number of events covered by the newest checkpoint; 0 if there is none
	Head          int64       // number of events in the log
	Unsigned      int64       // number of events beyond Size; only their presence is verified
	UnsignedSince time.Time   // time in the first unsigned event
	Root          tlog.Hash   // recomputed root of the first Size events
	Checkpoint    string      // text of the newest checkpoint
	VerifierKey   string      // key that verified it
	Former        []FormerKey // replaced keys, newest first
	CheckedAt     time.Time
	Bad           *Bad // nil if all is as it was signed
}

// A Bad describes the first bad record. Seq is 0 if the problem is not a record.
type Bad struct {
	Seq    int64
	Reason string
}

var errVerifierKey = errors.New("the verifier key is malformed: want name+hash+key")

// A Check has the inputs of a verification.
type Check struct {
	VerifierKey string // public key of the signer, "" if there is none yet
	Since       string // a kept checkpoint that the log must extend, or ""
	Due         int64  // events up to this one should be signed, see [Due]
	// Progress is called with the number of verified events and their total. It may be nil.
	Progress func(done, total int64)
}

// Verify recomputes the Merkle log of a workspace from its events up to the newest checkpoint, and
// compares it with the stored hashes and every stored checkpoint. Beyond that it checks that no event
// up to the head is missing. It uses constant memory and takes no locks.
func Verify(ctx context.Context, db *pgxpool.Pool, workspace events.ID, c Check) (Report, error) {
	v := &verification{db: db, Check: c, Report: Report{
		Workspace: workspace, VerifierKey: c.VerifierKey, CheckedAt: time.Now().UTC(),
	}}
	if v.Progress == nil {
		v.Progress = func(int64, int64) {}
	}
	if c.VerifierKey != "" {
		var err error
		if v.verifier, err = note.NewVerifier(c.VerifierKey); err != nil {
			return v.Report, errVerifierKey
		}
	}
	err := v.run(ctx)
	return v.Report, fault.Wrap(err, "verify %s", workspace)
}

type verification struct {
	Report
	Check
	db       *pgxpool.Pool
	verifier note.Verifier

	position    int64             // position of the prover as a follower, which an attacker can alter
	computed    tree              // tree over the events
	recorded    tree              // tree over the stored hashes of the events
	confirmed   int64             // events up to this one are confirmed by a checkpoint
	next        *signedCheckpoint // next checkpoint on the way
	doubt       *Bad              // first mismatch, until a checkpoint decides its cause
	leafDiffers bool              // doubt concerns an event's own hash
	newest      *signedCheckpoint // newest checkpoint at the start
	since       *signedCheckpoint // checkpoint given by the caller
	forked      *Bad              // the log does not extend since; the bad record is unknown
}

// A signedCheckpoint is a row of proof_checkpoints. bad says why it is invalid.
type signedCheckpoint struct {
	size int64
	note string
	root tlog.Hash
	bad  string
}

// reportBad records a bad record. The one with the lowest number counts.
func (v *verification) reportBad(seq int64, format string, args ...any) {
	if v.Bad == nil || seq < v.Bad.Seq {
		v.Bad = &Bad{seq, fmt.Sprintf(format, args...)}
	}
}

func (v *verification) run(ctx context.Context) error {
	s, err := v.readSizes(ctx)
	if err != nil {
		return err
	}
	v.checkSizes(s)
	if err := v.findFormerKeys(ctx); err != nil {
		return err
	}
	if v.Check.Since != "" {
		v.since = v.openSince(v.Check.Since)
	}
	switch {
	case v.since == nil:
	case v.since.bad != "": // possibly because the record about its signer is bad
		v.forked = &Bad{0, "the checkpoint that was kept is not signed for this log by the key"}
	case v.since.size > v.Size:
		v.forked = &Bad{v.Size + 1, fmt.Sprintf("the kept checkpoint covers %d records, the newest one %d", v.since.size,
			v.Size)}
	}
	if err := v.verifySigned(ctx); err != nil {
		return err
	}
	if err := v.checkUnsigned(ctx); err != nil {
		return err
	}
	switch {
	case v.Bad != nil:
	case v.forked != nil:
		v.Bad = v.forked
	case v.position != v.Size:
		v.reportBad(min(v.position, v.Size)+1, "%d records count as signed, the newest checkpoint covers %d", v.position, v.Size)
	case v.Due > v.Size:
		v.reportBad(v.Size+1, "records %d to %d were not signed in time", v.Size+1, v.Due)
	}
	return nil
}

// sizes has the sizes of a log and of what is stored about it, read in one statement.
type sizes struct {
	head       int64  // of the log
	checkpoint int64  // size of the newest checkpoint, 0 if there is none
	note       string // text of the newest checkpoint, "" if there is none
	hashes     int64  // number of stored hashes, were none missing
	tiles      int64  // number of tiles, were none missing
	position   int64  // of the prover as a follower
	below      int64  // lowest number of an event below 1, otherwise 1
	beyond     int64  // lowest number of an event beyond the head, otherwise 0
	wrongTime  bool   // the last event has another time than the log
}

func (v *verification) readSizes(ctx context.Context) (s sizes, err error) {
	err = v.db.QueryRow(ctx, `
		with l as (select coalesce(max(head), 0) as head, max(last_at) as last_at from logs where workspace_id = $1)
		select l.head, coalesce(c.size, 0), coalesce(c.note, ''),
			coalesce((select max(index) + 1 from proof_hashes where workspace_id = $1), 0),
			coalesce((select max(number) + 1 from proof_tiles where workspace_id = $1), 0),
			coalesce((select seq from checkpoints where workspace_id = $1 and view = $2), 0),
			coalesce((select min(seq) from events where workspace_id = $1 and seq < 1), 1),
			coalesce((select min(seq) from events where workspace_id = $1 and seq > l.head), 0),
			exists (select from events where workspace_id = $1 and seq = l.head and at <> l.last_at)
		from l left join lateral (
			select size, note from proof_checkpoints where workspace_id = $1 order by size desc limit 1) c on true`,
		v.Workspace, FollowerName).
		Scan(&s.head, &s.checkpoint, &s.note, &s.hashes, &s.tiles, &s.position, &s.below, &s.beyond, &s.wrongTime)
	return s, fault.Wrap(err, "read sizes")
}

// checkSizes reports sizes that contradict each other, and opens the newest checkpoint.
func (v *verification) checkSizes(s sizes) {
	v.Head, v.Size, v.Checkpoint, v.position = s.head, s.checkpoint, s.note, s.position
	if s.below < 1 {
		v.reportBad(s.below, "there is no record of this number")
	}
	if s.beyond > 0 {
		v.reportBad(s.beyond, "the record stands beyond the head of the log")
	}
	if s.note != "" {
		v.newest = v.openCheckpoint(s.checkpoint, s.note)
	}
	// If records that were signed are missing after the head, the log's time is that of the last of them.
	shortened := v.newest != nil && v.newest.bad == "" && s.checkpoint > s.head
	if s.wrongTime && !shortened {
		v.reportBad(v.Head, "the time of the last record is not that of the log")
	}
	if s.note == "" {
		if s.hashes > 0 || s.tiles > 0 || s.position > 0 {
			v.reportBad(1, "the signed checkpoint is missing")
		}
		return
	}
	if v.newest.bad == "" && (s.hashes > tlog.StoredHashCount(s.checkpoint) || s.tiles > s.checkpoint/tileWidth) {
		v.reportBad(s.checkpoint+1, "hashes are stored beyond the newest checkpoint")
	}
}

// openCheckpoint opens a checkpoint. With size 0 the checkpoint states its size itself.
func (v *verification) openCheckpoint(size int64, text string) *signedCheckpoint {
	s := &signedCheckpoint{size: size, note: text}
	if v.verifier == nil {
		s.bad = "there is no verifier key for the checkpoint"
		return s
	}
	c, err := openCheckpoint(text, v.verifier, v.Workspace)
	switch s.root = c.Root; {
	case err != nil:
		s.bad = fmt.Sprintf("the checkpoint of size %d is not signed for this log by the key", size)
	case size == 0: // the size comes from the checkpoint
		s.size = c.Size
	case c.Size != size:
		s.bad = fmt.Sprintf("the checkpoint of size %d says another size", size)
	}
	return s
}

// Workspaces returns every workspace that has a log or a checkpoint.
func Workspaces(ctx context.Context, db *pgxpool.Pool) ([]events.ID, error) {
	rows, _ := db.Query(ctx, `select workspace_id from logs union select workspace_id from proof_checkpoints order by 1`)
	list, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
	return list, fault.Wrap(err, "list workspaces")
}
