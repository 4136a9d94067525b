package vault

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Secrets stores secrets of the service, such as signing keys, sealed in PostgreSQL, each
// with its public part in clear.
type Secrets struct {
	DB   *pgxpool.Pool
	Ring Ring
}

// GetOrCreate returns the secret of a name, and creates it on the first call; concurrent
// callers get the same secret. A secret that is sealed under an old key of the ring is
// resealed. If it does not open, the error wraps [ErrKeyChanged] or [ErrTampered], and it
// is not replaced. If the master key has changed, no secret is created and the error wraps
// [fault.ErrUnavailable].
func (s Secrets) GetOrCreate(ctx context.Context, name string,
	create func() (secret []byte, public string, err error)) (secret []byte, public string, err error) {
	if secret, public, err = s.get(ctx, name); !errors.Is(err, pgx.ErrNoRows) {
		return secret, public, err
	}
	if err := s.Ring.confirmKey(ctx, s.DB); err != nil {
		return nil, "", fmt.Errorf("make secret %s: %w", name, err)
	}
	if secret, public, err = create(); err != nil {
		return nil, "", fmt.Errorf("make secret %s: %w", name, err)
	}
	sealed, err := s.Ring.Seal(secretPlace(name), secret)
	if err != nil {
		return nil, "", err
	}
	_, err = s.DB.Exec(ctx, `
		insert into vault_secrets (name, sealed, key_id, public, updated_at) values ($1, $2, $3, $4, now())
		on conflict (name) do nothing`, name, sealed, s.Ring.ids()[0], public)
	if err != nil {
		return nil, "", fmt.Errorf("put secret %s: %w", name, err)
	}
	return s.get(ctx, name)
}

func (s Secrets) get(ctx context.Context, name string) (secret []byte, public string, err error) {
	var sealed []byte
	err = s.DB.QueryRow(ctx, `select sealed, public from vault_secrets where name = $1`, name).Scan(&sealed, &public)
	if err != nil {
		return nil, "", fmt.Errorf("get secret %s: %w", name, err)
	}
	if secret, err = s.Ring.Open(secretPlace(name), sealed); err != nil || s.Ring.seals(sealed) {
		return secret, public, err
	}
	again, err := s.Ring.Seal(secretPlace(name), secret)
	if err != nil {
		return nil, "", err
	}
	_, err = s.DB.Exec(ctx, `
		update vault_secrets set sealed = $3, key_id = $4, updated_at = now() where name = $1 and sealed = $2`,
		name, sealed, again, s.Ring.ids()[0])
	if err != nil {
		return nil, "", fmt.Errorf("seal secret %s anew: %w", name, err)
	}
	return secret, public, nil
}

func secretPlace(name string) string { return "vault_secrets/" + name }
