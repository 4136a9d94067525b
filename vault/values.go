package vault

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Put stores a secret that somebody else made, under a name that is used once.
func (s Secrets) Put(ctx context.Context, name string, secret []byte) error {
	_, _, err := s.GetOrMake(ctx, name, func() ([]byte, string, error) { return secret, "", nil })
	return err
}

// Get returns a secret. ok is false if there is none; the error of one that does not open
// wraps [ErrKeyChanged] or [ErrTampered].
func (s Secrets) Get(ctx context.Context, name string) (secret []byte, ok bool, err error) {
	secret, _, err = s.get(ctx, name)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	return secret, err == nil, err
}

// Delete forgets a secret. None is no error.
func (s Secrets) Delete(ctx context.Context, name string) error {
	if _, err := s.DB.Exec(ctx, `delete from vault_secrets where name = $1`, name); err != nil {
		return fmt.Errorf("delete secret %s: %w", name, err)
	}
	return nil
}
