package vault

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// FormerSuffix ends the names of lost secrets that were replaced. They are kept as they
// were sealed, and are not rotated.
const FormerSuffix = "/former"

// fromOldSecrets selects the secrets that are not under the ring's first key, $1.
const fromOldSecrets = ` from vault_secrets where ` + sealedID + ` <> $1 and name not like '%` + FormerSuffix + `'`

type secretRow struct {
	Name   string
	Sealed []byte
}

// rotateSecrets does for secrets what [Rotate] does for tokens. Secrets are also resealed
// when they are opened, but nobody knows when that will be.
func (done *Rotation) rotateSecrets(ctx context.Context, db *pgxpool.Pool, ring Ring) error {
	after := ""
	for {
		rows, _ := db.Query(ctx, `select name, sealed`+fromOldSecrets+` and name > $2 order by name limit $3`,
			ring.sealedIDs()[0], after, batchSize)
		list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[secretRow])
		if err != nil || len(list) == 0 {
			return err
		}
		if err := done.resealSecrets(ctx, db, ring, list); err != nil {
			return err
		}
		after = list[len(list)-1].Name
	}
}

func (done *Rotation) resealSecrets(ctx context.Context, db *pgxpool.Pool, ring Ring, list []secretRow) error {
	ctx, cancel := context.WithTimeout(ctx, batchLimit)
	defer cancel()
	for _, r := range list {
		sealed, err := done.sealAgain(ring, secretPlace(r.Name), r.Sealed)
		if err != nil {
			return err
		}
		if sealed == nil {
			continue
		}
		tag, err := db.Exec(ctx, `update vault_secrets set sealed = $3, key_id = $4, updated_at = now() where name = $1 and sealed = $2`,
			r.Name, r.Sealed, sealed, ring.ids()[0])
		if err != nil {
			return err
		}
		_ = done.countUpdate(tag)
	}
	return nil
}

// Lost returns the names of secrets that begin with prefix and are sealed under keys that
// the ring does not hold.
func (s Secrets) Lost(ctx context.Context, prefix string) (names []string, err error) {
	rows, _ := s.DB.Query(ctx, `
		select name from vault_secrets where `+sealedID+` <> all($1) and starts_with(name, $2) order by name`, s.Ring.sealedIDs(), prefix)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for lost secrets: %w", err)
	}
	for _, name := range list {
		if !strings.HasSuffix(name, FormerSuffix) {
			names = append(names, name)
		}
	}
	return names, nil
}
