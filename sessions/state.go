package sessions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// StateLifetime is how long a sign-in may take at the provider.
const StateLifetime = 10 * time.Minute

// stateRemembered is for how long it is known afterwards where a sign-in that was
// late, or came twice, is to be sent with its error.
const stateRemembered = time.Hour

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
// provider are told. It also clears away those that were long ago.
func (s States) Begin(ctx context.Context, random string, state State) error {
	now := s.Now()
	_, err := s.DB.Exec(ctx, `
		with gone as (delete from oauth_states where expires_at <= $8)
		insert into oauth_states (state_hash, provider, verifier, callback_url, error_callback_url, new_user_url, expires_at)
		values ($1, $2, $3, $4, $5, $6, $7)`,
		digest(random), state.Provider, state.Verifier, state.CallbackURL, state.ErrorCallbackURL, state.NewUserURL,
		now.Add(StateLifetime), now.Add(-stateRemembered))
	if err != nil {
		return fmt.Errorf("begin sign-in: %w", err)
	}
	return nil
}

// Take takes a sign-in up. ok is false if there is none, its time is up, or it
// was taken up before; then the state says where its errors go, as far as that is
// known, and nothing else.
func (s States) Take(ctx context.Context, random string) (state State, ok bool, err error) {
	err = s.DB.QueryRow(ctx, `
		with taken as (
			update oauth_states set taken_at = $2, verifier = '' where state_hash = $1 and taken_at is null
			returning expires_at > $2 as in_time
		)
		select provider, verifier, callback_url, error_callback_url, new_user_url, coalesce((select in_time from taken), false)
		from oauth_states where state_hash = $1`, digest(random), s.Now(), // as it was before
	).Scan(&state.Provider, &state.Verifier, &state.CallbackURL, &state.ErrorCallbackURL, &state.NewUserURL, &ok)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return State{}, false, nil
	case err != nil:
		return State{}, false, fmt.Errorf("take up sign-in: %w", err)
	case !ok:
		return State{ErrorCallbackURL: state.ErrorCallbackURL}, false, nil
	}
	return state, true, nil
}

// ErrorURL says where the errors of a sign-in go, "" if that is not known. It does
// not take the sign-in up.
func (s States) ErrorURL(ctx context.Context, random string) (string, error) {
	rows, _ := s.DB.Query(ctx, `select error_callback_url from oauth_states where state_hash = $1`, digest(random))
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", fmt.Errorf("look up sign-in: %w", err)
	}
	return strings.Join(list, ""), nil // one, or none
}
