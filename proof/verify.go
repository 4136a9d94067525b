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
	Workspace   events.ID
	Size        int64     // events that the newest checkpoint speaks for; 0 if there is none yet
	Root        tlog.Hash // as the events were found to be
	Checkpoint  string    // the newest one, as it was signed
	VerifierKey string    // by which it was verified
	CheckedAt   time.Time
	Bad         *Bad // nil if all is as it was signed
}

// A Bad is the first record that is not what was signed for. Seq is 0 if it is
// no record that is bad.
type Bad struct {
	Seq    int64
	Reason string
}

var errKey = errors.New("the verifier key is malformed: want name+hash+key")

// Verify recomputes the Merkle log of a workspace from its events, up to the
// newest checkpoint, and holds it against the stored hashes and against every
// checkpoint that was kept. It takes the same memory however long the log is,
// and locks nothing; progress hears how many events are done, and of how many.
// verifierKey is the public side of the key that signed, "" if there is none yet.
// since is a checkpoint that somebody kept, or "": the log has to lead on from it.
func Verify(ctx context.Context, db *pgxpool.Pool, workspace events.ID, verifierKey, since string, progress func(done, total int64)) (Report, error) {
	v := &verification{db: db, progress: progress, Report: Report{
		Workspace: workspace, VerifierKey: verifierKey, CheckedAt: time.Now().UTC(),
	}}
	if verifierKey != "" {
		var err error
		if v.verifier, err = note.NewVerifier(verifierKey); err != nil {
			return v.Report, errKey
		}
	}
	if since != "" {
		v.since = v.open(0, since)
	}
	if err := v.run(ctx); err != nil {
		return v.Report, fmt.Errorf("verify %s: %w", workspace, err)
	}
	return v.Report, nil
}

type verification struct {
	Report
	db       *pgxpool.Pool
	verifier note.Verifier
	progress func(done, total int64)

	head   int64
	events tree    // as they are
	hashes tree    // as their stored hashes say
	good   int64   // up to there a checkpoint confirmed the events
	next   *signed // the checkpoint that is reached next
	doubt  *Bad    // the first thing that does not fit, until a checkpoint decides what it is
	leaf   bool    // doubt is about an event's own hash
	newest *signed // as it was at the start
	since  *signed // what somebody kept
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
	if v.since != nil && !v.leadsOn() {
		return nil
	}
	if v.newest == nil {
		v.Root = v.events.root()
		return nil
	}
	end := v.newest.size
	if v.newest.bad != "" {
		end = min(end, v.head) // its size is anybody's word
	}
	for v.events.size < end && (v.Bad == nil || v.Bad.Seq > v.events.size) {
		more, err := v.page(ctx, end)
		if err != nil {
			return err
		}
		if v.progress(v.events.size, end); !more {
			break
		}
	}
	v.Root = v.events.root()
	if v.doubt != nil {
		v.blame(v.doubt.Seq, "%s", v.doubt.Reason)
	}
	if v.newest.bad != "" {
		v.blame(end, "%s", v.newest.bad)
	}
	return nil
}

// leadsOn tells whether the log may lead on from the checkpoint that was kept.
func (v *verification) leadsOn() bool {
	switch {
	case v.since.bad != "":
		v.blame(0, "the checkpoint that was kept is not signed for this log by the key")
	case v.since.size > v.Size:
		v.blame(v.Size+1, "the checkpoint that was kept speaks for %d records, the newest one for %d", v.since.size, v.Size)
	default:
		return true
	}
	return false
}

// survey looks at how long everything is, at one moment.
func (v *verification) survey(ctx context.Context) error {
	var size, hashes, position, below, beyond int64
	var text string
	err := v.db.QueryRow(ctx, `
		with l as (select coalesce(max(head), 0) as head from logs where workspace_id = $1)
		select l.head, coalesce(c.size, 0), coalesce(c.note, ''),
			coalesce((select max(index) + 1 from proof_hashes where workspace_id = $1), 0),
			coalesce((select seq from checkpoints where workspace_id = $1 and view = $2), 0),
			coalesce((select min(seq) from events where workspace_id = $1 and seq < 1), 1),
			coalesce((select min(seq) from events where workspace_id = $1 and seq > l.head), 0)
		from l left join lateral (
			select size, note from proof_checkpoints where workspace_id = $1 order by size desc limit 1) c on true`,
		v.Workspace, View).Scan(&v.head, &size, &text, &hashes, &position, &below, &beyond)
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
	case text == "" && (hashes > 0 || position > 0):
		v.blame(1, "the signed checkpoint is missing")
		return nil
	case text == "":
		return nil
	}
	v.newest = v.open(size, text)
	if v.newest.bad == "" && hashes > tlog.StoredHashCount(size) {
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

// page goes through the next events. It reports whether to go on.
func (v *verification) page(ctx context.Context, end int64) (more bool, err error) {
	records, err := read(ctx, v.db, v.Workspace, v.events.size, end)
	if err != nil {
		return false, err
	}
	kept, err := v.keptHashes(ctx, v.events.size, min(v.events.size+page, end))
	if err != nil {
		return false, err
	}
	for _, r := range records {
		if v.next == nil || v.next.size <= v.events.size {
			if err := v.findNext(ctx); err != nil {
				return false, err
			}
		}
		if r.Seq != v.events.size+1 {
			break
		}
		kept = v.take(&r, kept)
		if v.since != nil && v.since.size == v.events.size && v.since.root != v.events.root() {
			v.blame(1, "records 1 to %d are not those that the kept checkpoint was signed for", v.since.size)
			return false, nil
		}
		if v.events.size == v.next.size && !v.judge() {
			return false, nil
		}
	}
	if n := int64(len(records)); n < page && v.events.size < end || n > 0 && records[n-1].Seq != v.events.size {
		v.blame(v.events.size+1, "the record is missing")
		return false, nil
	}
	return true, nil
}

// keptHashes reads the stored hashes of the events after a number up to another,
// in their order; nil in the place of one that is missing or no hash.
func (v *verification) keptHashes(ctx context.Context, after, upTo int64) ([]*tlog.Hash, error) {
	first, end := tlog.StoredHashCount(after), tlog.StoredHashCount(upTo)
	list := make([]*tlog.Hash, end-first)
	rows, _ := v.db.Query(ctx, `select index, hash from proof_hashes where workspace_id = $1 and index >= $2 and index < $3`, v.Workspace, first, end)
	var index int64
	var hash []byte
	_, err := pgx.ForEachRow(rows, []any{&index, &hash}, func() error {
		if len(hash) == tlog.HashSize {
			h := tlog.Hash(hash)
			list[index-first] = &h
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read hashes: %w", err)
	}
	return list, nil
}

// take adds an event and compares what it comes to with the stored hashes, the
// first of kept. It returns those of the events that follow.
func (v *verification) take(r *stored, kept []*tlog.Hash) []*tlog.Hash {
	own := r.hash()
	hashes := v.events.add(own)
	said := own
	if kept[0] != nil {
		said = *kept[0]
	}
	v.hashes.add(said)
	for level, h := range hashes {
		if v.doubt != nil {
			break
		}
		switch k := kept[level]; {
		case k == nil:
			v.doubt = &Bad{r.Seq, "its stored hash is missing"}
		case *k != h && level == 0:
			v.doubt, v.leaf = &Bad{r.Seq, "the record or its stored hash was changed"}, true
		case *k != h:
			v.doubt = &Bad{r.Seq, "a stored hash over it was changed"}
		}
	}
	return kept[len(hashes):]
}

// judge holds the log against the checkpoint that it has reached. It reports
// whether to go on.
func (v *verification) judge() bool {
	switch {
	case v.next.bad != "":
		if v.next.size < v.newest.size {
			v.blame(v.next.size, "%s", v.next.bad)
		}
		return v.doubt != nil // a later one may decide
	case v.events.root() == v.next.root && v.doubt == nil:
		v.good = v.next.size
		return true
	case v.events.root() == v.next.root && v.leaf:
		v.doubt.Reason = "its stored hash was changed"
	case v.events.root() == v.next.root: // doubt says it already
	case v.leaf && v.hashes.root() == v.next.root:
		v.doubt.Reason = "the record was changed"
	case v.doubt == nil:
		v.doubt = &Bad{v.good + 1, fmt.Sprintf("records %d to %d are not those that were signed for", v.good+1, v.next.size)}
	}
	return false
}

// findNext finds the checkpoint that comes after where the log is.
func (v *verification) findNext(ctx context.Context) error {
	v.next = v.newest
	var size int64
	var text string
	err := v.db.QueryRow(ctx, `
		select size, note from proof_checkpoints where workspace_id = $1 and size > $2 and size < $3 order by size limit 1`,
		v.Workspace, v.events.size, v.newest.size).Scan(&size, &text)
	switch {
	case errors.Is(err, pgx.ErrNoRows): // or it was thinned out since
		return nil
	case err != nil:
		return fmt.Errorf("read checkpoint: %w", err)
	}
	v.next = v.open(size, text)
	return nil
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
