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
)

// A Report is what became of a verification.
type Report struct {
	Workspace     events.ID
	Size          int64       // events that the newest checkpoint speaks for; 0 if there is none yet
	Head          int64       // events that the log has
	Unsigned      int64       // those beyond Size, whose numbers alone are verified
	UnsignedSince time.Time   // when the first of those was recorded, as it says itself
	Root          tlog.Hash   // of the first Size events, as they were found to be
	Checkpoint    string      // the newest one, as it was signed
	VerifierKey   string      // by which it was verified
	Former        []FormerKey // that it took the place of, the newest first
	CheckedAt     time.Time
	Bad           *Bad // nil if all is as it was signed
}

// A Bad is the first record that is not what was signed for. Seq is 0 if it is
// no record that is bad.
type Bad struct {
	Seq    int64
	Reason string
}

var errKey = errors.New("the verifier key is malformed: want name+hash+key")

// A Check is what a log is verified by.
type Check struct {
	VerifierKey string // the public side of the key that signed, "" if there is none yet
	Since       string // a checkpoint that somebody kept, or "": the log has to lead on from it
	Due         int64  // events up to this one had time enough to be signed for, see [Due]
	// Progress hears how many signed events are done, and of how many. It may be nil.
	Progress func(done, total int64)
}

// Verify recomputes the Merkle log of a workspace from its events, up to the
// newest checkpoint, and holds it against the stored hashes and against every
// checkpoint that was kept. Beyond it goes on to the head of the log, where
// nothing may be missing. It takes the same memory however long the log is, and
// locks nothing.
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
			return v.Report, errKey
		}
	}
	if err := v.run(ctx); err != nil {
		return v.Report, fmt.Errorf("verify %s: %w", workspace, err)
	}
	return v.Report, nil
}

type verification struct {
	Report
	Check
	db       *pgxpool.Pool
	verifier note.Verifier

	position int64   // of the prover
	events   tree    // as they are
	hashes   tree    // as their stored hashes say
	good     int64   // up to there a checkpoint confirmed the events
	next     *signed // the checkpoint that is reached next
	doubt    *Bad    // the first thing that does not fit, until a checkpoint decides what it is
	leaf     bool    // doubt is about an event's own hash
	newest   *signed // as it was at the start
	since    *signed // what somebody kept
	forked   *Bad    // the log does not lead on from that; which record is at fault is not known
}

// A signed is a row of checkpoints. bad says why it counts for nothing.
type signed struct {
	size int64
	note string
	root tlog.Hash
	bad  string
}

// blame takes note of something bad. The first record counts.
func (v *verification) blame(seq int64, format string, args ...any) {
	if v.Bad == nil || seq < v.Bad.Seq {
		v.Bad = &Bad{seq, fmt.Sprintf(format, args...)}
	}
}

func (v *verification) run(ctx context.Context) error {
	if err := v.survey(ctx); err != nil {
		return err
	}
	if err := v.knowFormer(ctx); err != nil {
		return err
	}
	if v.Check.Since != "" {
		v.since = v.openKept(v.Check.Since)
	}
	switch {
	case v.since == nil:
	case v.since.bad != "": // a bad record may be why: the one that says whose signature it has
		v.forked = &Bad{0, "the checkpoint that was kept is not signed for this log by the key"}
	case v.since.size > v.Size:
		v.forked = &Bad{v.Size + 1, fmt.Sprintf("the checkpoint that was kept speaks for %d records, the newest one for %d", v.since.size,
			v.Size)}
	}
	if err := v.walk(ctx); err != nil {
		return err
	}
	if err := v.walkOn(ctx); err != nil {
		return err
	}
	switch {
	case v.Bad != nil:
	case v.forked != nil:
		v.Bad = v.forked
	case v.position != v.Size:
		v.blame(min(v.position, v.Size)+1, "%d records count as signed for, the newest checkpoint speaks for %d", v.position, v.Size)
	case v.Due > v.Size:
		v.blame(v.Size+1, "records %d to %d are not signed for although there was time enough", v.Size+1, v.Due)
	}
	return nil
}

// survey looks at how long everything is, at one moment.
func (v *verification) survey(ctx context.Context) error {
	var size, hashes, tiled, below, beyond int64
	var text string
	err := v.db.QueryRow(ctx, `
		with l as (select coalesce(max(head), 0) as head from logs where workspace_id = $1)
		select l.head, coalesce(c.size, 0), coalesce(c.note, ''),
			coalesce((select max(index) + 1 from proof_hashes where workspace_id = $1), 0),
			coalesce((select max(number) + 1 from proof_tiles where workspace_id = $1), 0),
			coalesce((select seq from checkpoints where workspace_id = $1 and view = $2), 0),
			coalesce((select min(seq) from events where workspace_id = $1 and seq < 1), 1),
			coalesce((select min(seq) from events where workspace_id = $1 and seq > l.head), 0)
		from l left join lateral (
			select size, note from proof_checkpoints where workspace_id = $1 order by size desc limit 1) c on true`,
		v.Workspace, View).Scan(&v.Head, &size, &text, &hashes, &tiled, &v.position, &below, &beyond)
	if err != nil {
		return err
	}
	if below < 1 {
		v.blame(below, "there is no record of this number")
	}
	if beyond > 0 {
		v.blame(beyond, "the record stands beyond the head of the log")
	}
	v.Size, v.Checkpoint = size, text
	switch {
	case text == "" && (hashes > 0 || tiled > 0 || v.position > 0):
		v.blame(1, "the signed checkpoint is missing")
		return nil
	case text == "":
		return nil
	}
	v.newest = v.open(size, text)
	if v.newest.bad == "" && (hashes > tlog.StoredHashCount(size) || tiled > size/tileWidth) {
		v.blame(size+1, "hashes are stored beyond the newest checkpoint")
	}
	return nil
}

// open reads a checkpoint.
func (v *verification) open(size int64, text string) *signed {
	s := &signed{size: size, note: text}
	if v.verifier == nil {
		s.bad = "there is no verifier key for the checkpoint"
		return s
	}
	c, err := openCheckpoint(text, v.verifier, v.Workspace)
	switch s.root = c.Root; {
	case err != nil:
		s.bad = fmt.Sprintf("the checkpoint of size %d is not signed for this log by the key", size)
	case size == 0: // it says which itself
		s.size = c.Size
	case c.Size != size:
		s.bad = fmt.Sprintf("the checkpoint of size %d says another size", size)
	}
	return s
}

// All returns every workspace that has a log or a checkpoint.
func All(ctx context.Context, db *pgxpool.Pool) ([]events.ID, error) {
	rows, _ := db.Query(ctx, `select workspace_id from logs union select workspace_id from proof_checkpoints order by 1`)
	list, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	return list, nil
}
