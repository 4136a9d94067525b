package sessions

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/crypto/bcrypt"

	"svc/events"
	"svc/fault"
	"svc/input"
)

// Passwords stores the passwords of the demonstration's people. In production nobody has
// one.
type Passwords struct{ DB *pgxpool.Pool }

// dummyHash is compared if there is no such person, so that a refusal takes as long as for
// one who exists. It is computed on first use, because most processes never compare a
// password.
var dummyHash = sync.OnceValue(func() []byte {
	hash, err := bcrypt.GenerateFromPassword([]byte("nobody has this password"), bcrypt.DefaultCost)
	if err != nil {
		panic(err) // only for a password over 72 bytes
	}
	return hash
})

// Set sets a person's password.
func (p Passwords) Set(ctx context.Context, user events.ID, password string) error {
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	if err != nil {
		return fmt.Errorf("hash password of %s: %w", user, err)
	}
	_, err = p.DB.Exec(ctx, `
		insert into passwords (user_id, hash) values ($1, $2)
		on conflict (user_id) do update set hash = excluded.hash`, user, string(hash))
	return fault.Wrap(err, "set password of %s", user)
}

// Check returns the person with that verified address and password, and their personal
// workspace. ok is false if either is wrong.
func (p Passwords) Check(ctx context.Context, email, password string) (user, workspace events.ID, ok bool, err error) {
	var hash string
	err = p.DB.QueryRow(ctx, `
		select u.user_id, u.workspace_id, p.hash
		from global_keys k
		join users u on u.user_id = k.owner
		join passwords p on p.user_id = u.user_id
		where k.key = 'email/' || $1`, input.Lower(email)).Scan(&user, &workspace, &hash)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		_ = bcrypt.CompareHashAndPassword(dummyHash(), []byte(password))
		return user, workspace, false, nil
	case err != nil:
		return user, workspace, false, fmt.Errorf("look up password: %w", err)
	}
	return user, workspace, bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil, nil
}
