package vault

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"svc/fault"
)

// Put stores a secret under a name that was never used before.
func (s Secrets) Put(ctx context.Context, name string, secret []byte) error {
	_, _, err := s.GetOrCreate(ctx, name, func() ([]byte, string, error) { return secret, "", nil })
	return err
}

// Get returns a secret. ok is false if there is none. If it does not open, the error wraps
// [ErrKeyChanged] or [ErrTampered].
func (s Secrets) Get(ctx context.Context, name string) (secret []byte, ok bool, err error) {
	secret, _, err = s.get(ctx, name)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	return secret, err == nil, err
}

// Size returns the total size of secrets in bytes, without opening them. Names without a
// secret count as 0.
func (s Secrets) Size(ctx context.Context, names []string) (bytes int64, err error) {
	err = s.DB.QueryRow(ctx, `select coalesce(sum(octet_length(sealed) - $2), 0) from vault_secrets where name = any($1)`,
		names, startBytes+extraBytes).Scan(&bytes)
	return bytes, fault.Wrap(err, "size of %d secrets", len(names))
}

// Delete deletes a secret. It is no error if there is none.
func (s Secrets) Delete(ctx context.Context, name string) error {
	_, err := s.DB.Exec(ctx, `delete from vault_secrets where name = $1`, name)
	return fault.Wrap(err, "delete secret %s", name)
}
