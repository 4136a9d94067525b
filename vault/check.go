package vault

import (
	"context"

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
// and go on; a [Gate] refuses writes. Single credentials may still be under keys that the
// ring does not hold, if a key was removed from the list before [Rotate] was done: Rotate
// counts them.
//
// If the previous key is lost for good, so are the credentials: see
// [Ring.ForgetUnopenable].
func (r Ring) Check(ctx context.Context, db *pgxpool.Pool) error {
	return explained(pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return r.checkRow(ctx, tx) }))
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
	err = tx.QueryRow(ctx, `select sealed from vault_checks where name = $1 for update`, checkName).Scan(&stored)
	if err != nil {
		return err
	}
	if _, err = r.Open(checkPlace, stored); err != nil || r.seals(stored) {
		return err
	}
	_, err = tx.Exec(ctx, `update vault_checks set sealed = $2, key_id = $3, updated_at = now() where name = $1`,
		checkName, sealed, r.ids()[0])
	return err
}
