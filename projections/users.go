package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
	"svc/projections/fold"
)

// Users is the view of all people who ever signed in. It is inline.
type Users struct{ DB *pgxpool.Pool }

// A User is a person. Workspace is the personal workspace, whose log has the events of the person's
// own account.
type User struct {
	ID           events.ID `db:"user_id"`
	Workspace    events.ID `db:"workspace_id"`
	Name         string    `db:"name"`
	Email        string    `db:"email"`  // primary address
	Emails       []string  `db:"emails"` // all verified addresses
	AvatarURL    string    `db:"avatar_url"`
	RegisteredAt time.Time `db:"registered_at"`
}

var users = &fold.Table[events.ID, User]{
	View: "users", Updated: fold.Inline, Key: "user_id", GlobalKey: true,
	Kinds: []string{"user"},
	Keys: func(r events.Record) []events.ID {
		switch e := r.Event.(type) {
		case events.UserRegistered:
			return []events.ID{e.User}
		case events.UserEmailsVerified:
			return []events.ID{e.User}
		}
		return nil
	},
	Apply: func(id events.ID, u *User, r events.Record) *User {
		switch e := r.Event.(type) {
		case events.UserRegistered:
			return &User{
				ID: id, Workspace: r.Workspace, Name: e.Name, Email: e.Emails[0], Emails: e.Emails,
				AvatarURL: e.AvatarURL, RegisteredAt: r.At,
			}
		case events.UserEmailsVerified:
			after := *u
			after.Email, after.Emails = e.Emails[0], e.Emails
			return &after
		}
		return u
	},
}

// Home returns the personal workspace of a person, zero if there is no such person.
func (v Users) Home(ctx context.Context, user events.ID) (workspace events.ID, err error) {
	rows, _ := v.DB.Query(ctx, `select workspace_id from users where user_id = $1`, user)
	_, err = pgx.ForEachRow(rows, []any{&workspace}, func() error { return nil })
	return workspace, fault.Wrap(err, "read home of %s", user)
}

// A Profile is the public profile of a person.
type Profile struct {
	ID        events.ID `db:"user_id"`
	Name      string    `db:"name"`
	AvatarURL string    `db:"avatar_url"`
}

// Profiles returns the public profiles of people. Ids that do not exist are left out.
func (v Users) Profiles(ctx context.Context, ids []events.ID) (map[events.ID]Profile, error) {
	rows, _ := v.DB.Query(ctx, `select user_id, name, avatar_url from users where user_id = any($1)`, ids)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Profile])
	if err != nil {
		return nil, fmt.Errorf("read profiles of people: %w", err)
	}
	found := make(map[events.ID]Profile, len(list))
	for _, f := range list {
		found[f.ID] = f
	}
	return found, nil
}

// Names returns the current names of the people who have these addresses now. Addresses of nobody are left out.
func (v Users) Names(ctx context.Context, addresses []string) (map[string]string, error) {
	keys := make([]string, len(addresses))
	for i, a := range addresses {
		keys[i] = events.EmailKey(a)
	}
	rows, _ := v.DB.Query(ctx, `
		select k.key, u.name from global_keys k join users u on u.user_id = k.owner where k.key = any($1)`, keys)
	found := map[string]string{}
	var key, name string
	_, err := pgx.ForEachRow(rows, []any{&key, &name}, func() error { found[key] = name; return nil })
	if err != nil {
		return nil, fmt.Errorf("read names of people: %w", err)
	}
	names := map[string]string{}
	for i, a := range addresses { // several may be one person's, in other letters
		if name, ok := found[keys[i]]; ok {
			names[a] = name
		}
	}
	return names, nil
}
