package proof

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/note"

	"svc/events"
)

// A FormerKey signed a log until it was lost, as the log says itself.
type FormerKey struct {
	VerifierKey string // its public side
	UpTo        int64  // it signed no record after this one
	ReplacedIn  int64  // the record that says so
	by          string // the key that took its place
}

// formerKeys returns the keys that the first size records of a log say were
// replaced, the newest first. A damaged record says nothing.
func formerKeys(ctx context.Context, db *pgxpool.Pool, workspace events.ID, size int64) (list []FormerKey, err error) {
	rows, _ := db.Query(ctx, `select seq, data from events where workspace_id = $1 and stream = $2 and seq <= $3 order by version desc`,
		workspace, events.SigningKeyStream, size)
	var seq int64
	var data []byte
	_, err = pgx.ForEachRow(rows, []any{&seq, &data}, func() error {
		var e events.SigningKeyReplaced
		if json.Unmarshal(data, &e) == nil {
			list = append(list, FormerKey{VerifierKey: e.From, UpTo: e.UpTo, ReplacedIn: seq, by: e.To})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read former keys: %w", err)
	}
	return list, nil
}

// knowFormer finds the keys that led to the verifier key, one after another. What
// signed records say of them is as true as the rest of the log: it counts if the
// verification ends well.
func (v *verification) knowFormer(ctx context.Context) error {
	list, err := formerKeys(ctx, v.db, v.Workspace, v.Size)
	key := v.Check.VerifierKey
	for _, f := range list {
		switch {
		case f.by == key:
			v.Former, key = append(v.Former, f), f.VerifierKey
		case f.VerifierKey == key && v.newest != nil && v.newest.bad != "":
			v.newest.bad = fmt.Sprintf("the newest checkpoint is not signed by this key: record %d says that it was lost and %s took its place", f.ReplacedIn, f.by)
		}
	}
	return err
}

// openKept reads a checkpoint that somebody kept, which may be signed by a key that
// was replaced since.
func (v *verification) openKept(text string) *signed {
	s := v.open(0, text)
	for _, f := range v.Former {
		if s.bad == "" {
			break
		}
		verifier, err := note.NewVerifier(f.VerifierKey)
		if err != nil {
			continue
		}
		if c, err := openCheckpoint(text, verifier, v.Workspace); err == nil && c.Size <= f.UpTo {
			s = &signed{size: c.Size, note: text, root: c.Root}
		}
	}
	return s
}
