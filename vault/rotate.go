package vault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
)

const (
	batchSize  = 100
	batchLimit = 30 * time.Second // for one batch, including waits for locks

	maxUnopened = 20 // named in a Rotation
)

// A Rotation counts what [Rotate] did with the tokens and secrets that were not sealed
// under the ring's first key.
type Rotation struct {
	Resealed  int   // sealed under the first key now
	Overtaken int   // changed, deleted or resealed by somebody else in the meantime
	Unknown   int   // unchanged: under a key that the ring does not hold
	Tampered  int   // unchanged: they do not open
	Left      int64 // not under the first key at the end; if 0, old keys can be removed

	Unopened []string // table and key of the first of those that are unknown or tampered
}

// Stuck reports whether nothing is left but what no key of the ring opens, so that neither keeping a key
// nor rotating again helps.
func (done Rotation) Stuck() bool {
	return done.Left > 0 && done.Left == int64(done.Unknown+done.Tampered)
}

// Rotate reseals all provider tokens and [Secrets] that are under another key than the
// ring's first one. It may be interrupted, repeated, and run by several replicas at once: a
// row changes only if it still holds what was opened, so a token that is stored in the
// meantime stays. ctx limits the whole rotation.
//
// A replica that still has the old ring continues to seal under the old key. Left counts
// those values too: run Rotate again when all replicas have the new ring.
//
// With an error, the counts exclude the batch that failed, which is stored as a whole or
// not at all.
func Rotate(ctx context.Context, db *pgxpool.Pool, ring Ring) (Rotation, error) {
	var done Rotation
	if len(ring.keys) == 0 {
		return done, errors.New("rotate provider tokens: the ring holds no key")
	}
	var last row
	for more := true; more; {
		var err error
		if last, more, err = done.batch(ctx, db, ring, last); err != nil {
			return done, fmt.Errorf("rotate provider tokens: %w", err)
		}
	}
	if err := done.rotateSecrets(ctx, db, ring); err != nil {
		return done, fmt.Errorf("rotate secrets: %w", err)
	}
	err := db.QueryRow(ctx, `
		select (select count(*) from provider_tokens where `+sealedID+` <> $1) + (select count(*)`+fromOldSecrets+`)`,
		ring.sealedIDs()[0]).Scan(&done.Left)
	return done, fault.Wrap(err, "count what is under old keys")
}

type row struct {
	User     events.ID
	Provider string
	Sealed   []byte
}

func (r row) place() string { return tokenPlace(r.User, r.Provider) }

// batch reseals the rows after a row, and returns the last one.
func (done *Rotation) batch(ctx context.Context, db *pgxpool.Pool, ring Ring, after row) (last row, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, batchLimit)
	defer cancel()
	rows, err := rowsAfter(ctx, db, ring, after)
	if err != nil || len(rows) == 0 {
		return after, false, err
	}
	if err = done.reseal(ctx, db, ring, rows); err != nil {
		return after, false, err
	}
	return rows[len(rows)-1], true, nil
}

func rowsAfter(ctx context.Context, db *pgxpool.Pool, ring Ring, after row) ([]row, error) {
	rows, err := db.Query(ctx, `
		select user_id, provider, sealed from provider_tokens
		where `+sealedID+` <> $1 and (user_id, provider) > ($2, $3)
		order by user_id, provider limit $4`, ring.sealedIDs()[0], after.User, after.Provider, batchSize)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[row])
}

// reseal updates a batch in one transaction. All rotations lock rows in the order of the
// primary key, which prevents deadlocks between replicas.
func (done *Rotation) reseal(ctx context.Context, db *pgxpool.Pool, ring Ring, rows []row) error {
	var updates pgx.Batch
	counts := *done // copied back after the commit
	for _, r := range rows {
		sealed, err := counts.sealAgain(ring, r.place(), r.Sealed)
		if err != nil {
			return err
		}
		if sealed == nil {
			continue
		}
		updates.Queue(`
			update provider_tokens set sealed = $4, key_id = $5
			where user_id = $1 and provider = $2 and sealed = $3`,
			r.User, r.Provider, r.Sealed, sealed, ring.ids()[0]).Exec(counts.countUpdate)
	}
	if updates.Len() > 0 {
		if err := db.SendBatch(ctx, &updates).Close(); err != nil {
			return err
		}
	}
	*done = counts
	return nil
}

// sealAgain seals a value under the ring's first key. It counts a value that cannot be opened, and returns
// nil for it.
func (done *Rotation) sealAgain(ring Ring, place string, sealed []byte) ([]byte, error) {
	plain, err := ring.Open(place, sealed)
	switch {
	case errors.Is(err, ErrKeyChanged):
		done.Unknown++
	case errors.Is(err, ErrTampered):
		done.Tampered++
	case err != nil:
		return nil, err
	default:
		return ring.Seal(place, plain)
	}
	if len(done.Unopened) < maxUnopened {
		done.Unopened = append(done.Unopened, place)
	}
	return nil, nil
}

// countUpdate counts the result of one update.
func (done *Rotation) countUpdate(tag pgconn.CommandTag) error {
	if tag.RowsAffected() == 1 {
		done.Resealed++
	} else {
		done.Overtaken++
	}
	return nil
}
