package sessions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/fault"
)

// StateLifetime is how long a sign-in may take at the provider.
const StateLifetime = 10 * time.Minute

// errorURLKept is how long after expiry the error URL of a sign-in is kept, for callbacks
// that are late or repeated.
const errorURLKept = time.Hour

// States stores the sign-ins that are under way at a provider.
type States struct {
	DB  *pgxpool.Pool
	Now func() time.Time
}

// A State is a sign-in under way. It can be taken once.
type State struct {
	Provider         string
	Verifier         string // PKCE code verifier
	CallbackURL      string // where to send the browser afterwards
	ErrorCallbackURL string
	NewUserURL       string
}

// Begin stores a sign-in under a random text that only the browser and the provider know.
// It also deletes old ones.
func (s States) Begin(ctx context.Context, random string, state State) error {
	now := s.Now()
	_, err := s.DB.Exec(ctx, `
		with gone as (delete from oauth_states where expires_at <= $8)
		insert into oauth_states (state_hash, provider, verifier, callback_url, error_callback_url, new_user_url, expires_at)
		values ($1, $2, $3, $4, $5, $6, $7)`,
		digest(random), state.Provider, state.Verifier, state.CallbackURL, state.ErrorCallbackURL, state.NewUserURL,
		now.Add(StateLifetime), now.Add(-errorURLKept))
	return fault.Wrap(err, "begin sign-in")
}

// Take consumes a sign-in. ok is false if there is none, it has expired, or it was taken
// before; state then has only ErrorCallbackURL, if that is still known.
func (s States) Take(ctx context.Context, random string) (state State, ok bool, err error) {
	err = s.DB.QueryRow(ctx, `
		with taken as (
			update oauth_states set taken_at = $2, verifier = '' where state_hash = $1 and taken_at is null
			returning expires_at > $2 as in_time
		)
		select provider, verifier, callback_url, error_callback_url, new_user_url, coalesce((select in_time from taken), false)
		from oauth_states where state_hash = $1`, digest(random), s.Now(), // the row before the update
	).Scan(&state.Provider, &state.Verifier, &state.CallbackURL, &state.ErrorCallbackURL, &state.NewUserURL, &ok)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return State{}, false, nil
	case err != nil:
		return State{}, false, fmt.Errorf("resume sign-in: %w", err)
	case !ok:
		return State{ErrorCallbackURL: state.ErrorCallbackURL}, false, nil
	}
	return state, true, nil
}

// ErrorURL returns where to send the errors of a sign-in, "" if that is not known, and whether
// the sign-in is known. It does not consume the sign-in.
func (s States) ErrorURL(ctx context.Context, random string) (url string, known bool, err error) {
	rows, _ := s.DB.Query(ctx, `select error_callback_url from oauth_states where state_hash = $1`, digest(random))
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", false, fmt.Errorf("look up sign-in: %w", err)
	}
	return strings.Join(list, ""), len(list) > 0, nil // one, or none
}
