package proof

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/note"

	"svc/events"
	"svc/fault"
)

// A FormerKey is a lost key that signed a log, according to a record in the log.
type FormerKey struct {
	VerifierKey string // its public key
	UpTo        int64  // the last record that it signed
	ReplacedIn  int64  // the record that describes the replacement
	by          string // public key of its replacement
}

// formerKeys returns the keys that were replaced according to the first size records of a log,
// newest first. It skips damaged records.
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
	return list, fault.Wrap(err, "read former keys")
}

// findFormerKeys follows the chain of former keys back from the verifier key. It trusts the signed
// records about them like the rest of the log: if the verification succeeds, they are true.
func (v *verification) findFormerKeys(ctx context.Context) error {
	list, err := formerKeys(ctx, v.db, v.Workspace, v.Size)
	key := v.Check.VerifierKey
	for _, f := range list {
		switch {
		case f.by == key:
			v.Former, key = append(v.Former, f), f.VerifierKey
		case f.VerifierKey == key && v.newest != nil && v.newest.bad != "":
			v.newest.bad = fmt.Sprintf("the newest checkpoint is not signed by this key: record %d says that it was lost and %s took its place",
				f.ReplacedIn, f.by)
		}
	}
	return err
}

// openSince opens a checkpoint that was kept elsewhere, which may be signed by a former key.
func (v *verification) openSince(text string) *signedCheckpoint {
	s := v.openCheckpoint(0, text)
	for _, f := range v.Former {
		if s.bad == "" {
			break
		}
		verifier, err := note.NewVerifier(f.VerifierKey)
		if err != nil {
			continue
		}
		if c, err := openCheckpoint(text, verifier, v.Workspace); err == nil && c.Size <= f.UpTo {
			s = &signedCheckpoint{size: c.Size, note: text, root: c.Root}
		}
	}
	return s
}
