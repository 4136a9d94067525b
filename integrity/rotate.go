package integrity

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events/store"
)

// RotateProgress authenticates the stored progress with the current key, so that old keys can be removed. Progress
// that nobody of this service wrote is left alone.
func RotateProgress(ctx context.Context, db *pgxpool.Pool, keys store.Authenticator) error {
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		p, mac, err := readProgress(ctx, tx, "for update")
		switch {
		case errors.Is(err, pgx.ErrNoRows), errors.Is(err, errUndecodable):
			return nil
		case err != nil:
			return err
		case keys.CheckMAC(progressPlace, p.text(), mac) != nil:
			return nil
		}
		if mac, err = keys.MAC(progressPlace, p.text()); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `update comparison_progress set mac = $1`, mac)
		return err
	})
	if err != nil {
		return fmt.Errorf("rotate the progress of the comparison: %w", err)
	}
	return nil
}

// DropProgress deletes the stored progress, after the key that authenticates it was lost.
func DropProgress(ctx context.Context, db *pgxpool.Pool) error {
	if _, err := db.Exec(ctx, `delete from comparison_progress`); err != nil {
		return fmt.Errorf("drop the progress of the comparison: %w", err)
	}
	return nil
}
