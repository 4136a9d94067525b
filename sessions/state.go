package sessions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// stateLifetime is how long a sign-in may take at the provider.
const stateLifetime = 10 * time.Minute

// States keeps the sign-ins that are under way at a provider.
type States struct {
	DB  *pgxpool.Pool
	Now func() time.Time
}

// A State is a sign-in under way. It can be taken up once.
type State struct {
	Provider         string
	Verifier         string // of PKCE
	CallbackURL      string // where the browser goes afterwards
	ErrorCallbackURL string
	NewUserURL       string
}

// Begin keeps a sign-in under a random text that only the browser and the
// provider are told. It also clears away what was never taken up.
func (s States) Begin(ctx context.Context, random string, state State) error {
	now := s.Now()
	_, err := s.DB.Exec(ctx, `
		with gone as (delete from oauth_states where expires_at <= $8)
		insert into oauth_states (state_hash, provider, verifier, callback_url, error_callback_url, new_user_url, expires_at)
		values ($1, $2, $3, $4, $5, $6, $7)`,
		digest(random), state.Provider, state.Verifier, state.CallbackURL, state.ErrorCallbackURL, state.NewUserURL, now.Add(stateLifetime), now)
	if err != nil {
		return fmt.Errorf("begin sign-in: %w", err)
	}
	return nil
}

// Take takes a sign-in up. ok is false if there is none, its time is up, or it
// was taken up before.
func (s States) Take(ctx context.Context, random string) (state State, ok bool, err error) {
	err = s.DB.QueryRow(ctx, `
		delete from oauth_states where state_hash = $1
		returning provider, verifier, callback_url, error_callback_url, new_user_url, expires_at > $2`, digest(random), s.Now(),
	).Scan(&state.Provider, &state.Verifier, &state.CallbackURL, &state.ErrorCallbackURL, &state.NewUserURL, &ok)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return State{}, false, nil
	case err != nil:
		return State{}, false, fmt.Errorf("take up sign-in: %w", err)
	}
	return state, ok, nil
}
