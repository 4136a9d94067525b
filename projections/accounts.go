package projections

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
	"svc/projections/fold"
)

// Accounts is the view of the accounts at identity providers by which people sign in. It is inline.
type Accounts struct{ DB *pgxpool.Pool }

// An Account is a person's account at a provider.
type Account struct {
	Key       string    `db:"account_key"` // see [events.UserAccountLinked.Key]
	Workspace events.ID `db:"workspace_id"`
	User      events.ID `db:"user_id"`
	Provider  string    `db:"provider"`
	AccountID string    `db:"account_id"`
	Login     string    `db:"login"`
	LinkedAt  time.Time `db:"linked_at"`
}

var accounts = &fold.Table[string, Account]{
	View: "accounts", Updated: fold.Inline, Key: "account_key", GlobalKey: true,
	Kinds: []string{"user"},
	Keys: func(r events.Record) []string {
		e, ok := r.Event.(events.UserAccountLinked)
		switch {
		case !ok:
			return nil
		case e.Host == "":
			return []string{e.Key()}
		}
		return []string{e.Key(), e.WithoutHost().Key()}
	},
	Apply: func(key string, a *Account, r events.Record) *Account {
		e, ok := r.Event.(events.UserAccountLinked)
		switch {
		case !ok:
			return a
		case key == e.Key():
			return &Account{
				Key: key, Workspace: r.Workspace, User: e.User, Provider: e.Provider, AccountID: e.Account,
				Login: e.Login, LinkedAt: r.At,
			}
		case a != nil && a.User == e.User: // the same account, whose host is known now
			return nil
		}
		return a
	},
}

// ForUser returns the accounts of a person, the oldest first.
func (v Accounts) ForUser(ctx context.Context, user events.ID) ([]Account, error) {
	rows, _ := v.DB.Query(ctx, `
		select account_key, workspace_id, user_id, provider, account_id, login, linked_at
		from accounts where user_id = $1 order by linked_at, account_key`, user)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Account])
	return list, fault.Wrap(err, "read accounts of %s", user)
}
