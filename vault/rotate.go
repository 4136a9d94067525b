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
)

const (
	batchSize  = 100
	batchLimit = 30 * time.Second // for one batch, its waits for locks among it
)

// A Rotation counts what a call of [Rotate] did with the tokens and secrets that were
// not sealed under the ring's first key.
type Rotation struct {
	Resealed  int   // now under the first key
	Overtaken int   // put, deleted or resealed by someone else meanwhile
	Unknown   int   // left alone: under a key that the ring does not hold
	Tampered  int   // left alone: they do not open
	Left      int64 // not under the first key when it ended; at 0 the old keys may go
}

// Rotate seals every provider token and every secret of [Secrets] that is under another
// key anew, under the first key of the ring. It may be interrupted, repeated, and run by several
// replicas at once: a row changes only if it still holds what was opened, so a
// token that is put meanwhile stays. ctx bounds the whole of it.
//
// A replica that still has the old ring goes on to seal under the old key.
// Left counts that too: run Rotate again when all have the new one.
//
// Beside an error the counts leave out the batch that it cut short, which is
// stored as a whole or not at all.
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
	err := db.QueryRow(ctx, `select (select count(*) from provider_tokens where key_id <> $1) + (select count(*)`+ofOld+`)`, ring.ids()[0]).Scan(&done.Left)
	if err != nil {
		return done, fmt.Errorf("count what is under old keys: %w", err)
	}
	return done, nil
}

type row struct {
	User     events.ID
	Provider string
	Sealed   []byte
}

func (r row) place() string { return tokenPlace(r.User, r.Provider) }

// batch does the rows that follow one, and returns the last it did.
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
		where key_id <> $1 and (user_id, provider) > ($2, $3)
		order by user_id, provider limit $4`, ring.ids()[0], after.User, after.Provider, batchSize)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[row])
}

// reseal sends a batch's updates as one transaction. All who do lock rows in
// the order of the primary key, so replicas wait for each other and never in
// a circle.
func (done *Rotation) reseal(ctx context.Context, db *pgxpool.Pool, ring Ring, rows []row) error {
	var updates pgx.Batch
	counts := *done // counted once committed
	for _, r := range rows {
		plain, err := ring.Open(r.place(), r.Sealed)
		switch {
		case errors.Is(err, ErrKeyChanged):
			counts.Unknown++
			continue
		case errors.Is(err, ErrTampered):
			counts.Tampered++
			continue
		case err != nil:
			return err
		}
		sealed, err := ring.Seal(r.place(), plain)
		if err != nil {
			return err
		}
		updates.Queue(`
			update provider_tokens set sealed = $4, key_id = $5
			where user_id = $1 and provider = $2 and sealed = $3`,
			r.User, r.Provider, r.Sealed, sealed, ring.ids()[0]).Exec(counts.updated)
	}
	if updates.Len() > 0 {
		if err := db.SendBatch(ctx, &updates).Close(); err != nil {
			return err
		}
	}
	*done = counts
	return nil
}

// updated counts one update's answer.
func (done *Rotation) updated(tag pgconn.CommandTag) error {
	if tag.RowsAffected() == 1 {
		done.Resealed++
	} else {
		done.Overtaken++
	}
	return nil
}
