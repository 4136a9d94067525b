package vault

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/config"
	"svc/events"
	"svc/fault"
)

// Tokens stores people's tokens at providers such as github, sealed in PostgreSQL. A person
// has one for each provider.
type Tokens struct {
	DB   *pgxpool.Pool
	Ring Ring
}

// Put stores a token, which replaces an earlier one. If the master key has changed, the
// error wraps [fault.ErrUnavailable].
func (t Tokens) Put(ctx context.Context, user events.ID, provider string, token config.Secret) error {
	place := tokenPlace(user, provider)
	if err := t.Ring.confirmKey(ctx, t.DB); err != nil {
		return fmt.Errorf("put %s: %w", place, err)
	}
	sealed, err := t.Ring.Seal(place, []byte(token.Reveal()))
	if err != nil {
		return err
	}
	_, err = t.DB.Exec(ctx, `
		insert into provider_tokens (user_id, provider, sealed, key_id, updated_at) values ($1, $2, $3, $4, now())
		on conflict (user_id, provider) do update
		set sealed = excluded.sealed, key_id = excluded.key_id, updated_at = excluded.updated_at`,
		user, provider, sealed, t.Ring.ids()[0])
	return fault.Wrap(err, "put %s", place)
}

// Get returns a token. ok is false if there is none. If it does not open, the error wraps
// [ErrKeyChanged] or [ErrTampered].
func (t Tokens) Get(ctx context.Context, user events.ID, provider string) (token config.Secret, ok bool, err error) {
	place := tokenPlace(user, provider)
	var sealed []byte
	err = t.DB.QueryRow(ctx, `select sealed from provider_tokens where user_id = $1 and provider = $2`, user, provider).Scan(&sealed)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("get %s: %w", place, err)
	}
	plain, err := t.Ring.Open(place, sealed)
	if err != nil {
		return "", false, err
	}
	return config.Secret(plain), true, nil
}

// Delete deletes a token. It is no error if there is none.
func (t Tokens) Delete(ctx context.Context, user events.ID, provider string) error {
	_, err := t.DB.Exec(ctx, `delete from provider_tokens where user_id = $1 and provider = $2`, user, provider)
	return fault.Wrap(err, "delete %s", tokenPlace(user, provider))
}

// tokenPlace returns a different place for each row, because a user's id has a fixed
// length.
func tokenPlace(user events.ID, provider string) string {
	return "provider_tokens/" + user.String() + "/" + provider
}
