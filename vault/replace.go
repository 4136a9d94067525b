package vault

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/fault"
)

// ErrNotLost means that a secret can be opened, so that there is no reason to replace it.
var ErrNotLost = errors.New("the secret can be opened: it is not lost")

// Replace replaces a secret that no key of the ring opens, or that was deleted, with a new one. It
// keeps the lost one, sealed as it is, under the name former; if it was deleted, an empty one that
// is [ErrTampered]. If the secret can be opened, it returns [ErrNotLost] and changes nothing; so of
// two callers at the same moment one replaces it.
func (s Secrets) Replace(ctx context.Context, name, former string, create func() (secret []byte, public string, err error)) error {
	secret, public, err := create()
	if err != nil {
		return fmt.Errorf("make secret %s: %w", name, err)
	}
	sealed, err := s.Ring.Seal(secretPlace(name), secret)
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			insert into vault_secrets (name, sealed, key_id, public, updated_at) values ($1, '', '', '', now()) on conflict do nothing`, name)
		if err != nil {
			return err
		}
		var lost []byte
		if err := tx.QueryRow(ctx, `select sealed from vault_secrets where name = $1 for update`, name).Scan(&lost); err != nil {
			return err
		}
		switch _, err := s.Ring.Open(secretPlace(name), lost); {
		case err == nil:
			return ErrNotLost
		case !errors.Is(err, ErrKeyChanged) && !errors.Is(err, ErrTampered):
			return err
		}
		b := &pgx.Batch{}
		b.Queue(`
			insert into vault_secrets (name, sealed, key_id, public, updated_at)
			select $2, sealed, key_id, public, now() from vault_secrets where name = $1
			on conflict (name) do update
			set sealed = excluded.sealed, key_id = excluded.key_id, public = excluded.public, updated_at = excluded.updated_at`, name, former)
		b.Queue(`update vault_secrets set sealed = $2, key_id = $3, public = $4, updated_at = now() where name = $1`,
			name, sealed, s.Ring.ids()[0], public)
		return tx.SendBatch(ctx, b).Close()
	})
	return fault.Wrap(err, "replace secret %s", name)
}

// ForgetUnopenable deletes the credentials that no key of the ring opens, if the key that
// sealed them is lost for good: people connect again when they sign in. Afterwards
// [Ring.Check] accepts this ring. It returns how many credentials it deleted.
func (r Ring) ForgetUnopenable(ctx context.Context, db *pgxpool.Pool) (tokens int64, err error) {
	sealed, err := r.Seal(checkPlace, nil)
	if err != nil {
		return 0, err
	}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `delete from provider_tokens where `+sealedID+` <> all($1)`, r.sealedIDs())
		if err != nil {
			return err
		}
		tokens = tag.RowsAffected()
		_, err = tx.Exec(ctx, `
			insert into vault_checks (name, sealed, key_id, updated_at) values ($1, $2, $3, now())
			on conflict (name) do update set sealed = excluded.sealed, key_id = excluded.key_id, updated_at = excluded.updated_at`,
			checkName, sealed, r.ids()[0])
		return err
	})
	return tokens, fault.Wrap(err, "forget what cannot be opened")
}
