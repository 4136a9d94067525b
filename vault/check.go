package vault

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	checkName  = "master_key"
	checkPlace = "vault_checks/" + checkName
)

// keyChangedAdvice says what happened and what to do. The details follow it.
const keyChangedAdvice = "SVC_VAULT_MASTER_KEY has changed: restore the previous value, or list it after the new one (new,previous); " +
	"if it is lost for good see svc-db replace-key: "

// Check returns an error unless the stored credentials were sealed with keys of this ring.
// The first start stores a row to compare with. A later start renews it if the ring has a
// new first key and still the old one.
//
// If the key has changed, the error wraps [ErrKeyChanged], names SVC_VAULT_MASTER_KEY and
// says what to do. Reads that open no stored credential work regardless, so log the error
// and go on; a [Gate] refuses writes. The error is also returned while single tokens are
// under keys that the ring does not hold: a key was removed from the list before [Rotate]
// was done.
//
// If the previous key is lost for good, so are the credentials: see
// [Ring.ForgetUnopenable].
func (r Ring) Check(ctx context.Context, db *pgxpool.Pool) error {
	if err := r.checkKey(ctx, db); err != nil {
		return err
	}
	return r.checkTokens(ctx, db)
}

func (r Ring) checkRow(ctx context.Context, tx pgx.Tx) error {
	sealed, err := r.Seal(checkPlace, nil)
	if err != nil {
		return err
	}
	// If several replicas start at once, one of them inserts and the others wait for it
	// here.
	_, err = tx.Exec(ctx, `
		insert into vault_checks (name, sealed, key_id, updated_at) values ($1, $2, $3, now())
		on conflict (name) do nothing`, checkName, sealed, r.ids()[0])
	if err != nil {
		return err
	}
	var stored []byte
	var id string
	err = tx.QueryRow(ctx, `select sealed, key_id from vault_checks where name = $1 for update`, checkName).Scan(&stored, &id)
	if err != nil {
		return err
	}
	if _, err = r.Open(checkPlace, stored); err != nil || id == r.ids()[0] {
		return err
	}
	_, err = tx.Exec(ctx, `update vault_checks set sealed = $2, key_id = $3, updated_at = now() where name = $1`,
		checkName, sealed, r.ids()[0])
	return err
}

func (r Ring) checkTokens(ctx context.Context, db *pgxpool.Pool) error {
	var count int64
	var ids []string
	err := db.QueryRow(ctx, `
		select count(*), coalesce(array_agg(distinct key_id), '{}') from provider_tokens where key_id <> all($1)`,
		r.ids()).Scan(&count, &ids)
	if err != nil {
		return fmt.Errorf("check keys of provider tokens: %w", err)
	}
	if count > 0 {
		return fmt.Errorf(keyChangedAdvice+"%d provider tokens under %v: %w", count, ids, ErrKeyChanged)
	}
	return nil
}
