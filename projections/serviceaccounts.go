package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
	"svc/fault"
	"svc/input"
	"svc/projections/fold"
	"svc/projections/query"
)

// ServiceAccounts is the view of service accounts and their tokens. It is inline, so that a rotated
// token is refused once the command was answered.
type ServiceAccounts struct{ DB *pgxpool.Pool }

type serviceAccountRow struct {
	Workspace events.ID      `db:"workspace_id"`
	ID        events.ID      `db:"account_id"`
	Name      string         `db:"name"`
	Scopes    []events.Scope `db:"scopes"`
	Tail      string         `db:"tail"`
	Status    string         `db:"status"` // active, revoked
	CreatedBy string         `db:"created_by"`
	CreatedAt time.Time      `db:"created_at"`
	RotatedAt *time.Time     `db:"rotated_at"`
	RevokedAt *time.Time     `db:"revoked_at"`
}

var serviceAccounts = &fold.Table[events.ID, serviceAccountRow]{
	View: "service_accounts", Updated: fold.Inline, Key: "account_id",
	Kinds: []string{"service_account"},
	Keys: func(r events.Record) []events.ID {
		switch r.Event.(type) {
		case events.ServiceAccountCreated, events.ServiceAccountRotated, events.ServiceAccountRevoked:
			return []events.ID{r.Stream}
		}
		return nil
	},
	Apply: func(id events.ID, a *serviceAccountRow, r events.Record) *serviceAccountRow {
		if e, ok := r.Event.(events.ServiceAccountCreated); ok {
			return &serviceAccountRow{
				Workspace: r.Workspace, ID: id, Name: e.Name, Scopes: e.Scopes, Tail: e.Tail, Status: "active",
				CreatedBy: r.Actor.Name, CreatedAt: r.At,
			}
		}
		after := *a
		switch e := r.Event.(type) {
		case events.ServiceAccountRotated:
			after.Tail, after.RotatedAt = e.Tail, &r.At
		case events.ServiceAccountRevoked:
			after.Status, after.RevokedAt = "revoked", &r.At
		}
		return &after
	},
}

type serviceTokenRow struct {
	Fingerprint events.Fingerprint `db:"fingerprint"`
	Workspace   events.ID          `db:"workspace_id"`
	Account     events.ID          `db:"account_id"`
	Name        string             `db:"name"`
	Scopes      []events.Scope     `db:"scopes"`
	Tail        string             `db:"tail"`
	Status      string             `db:"status"`
}

var serviceTokens = &fold.Table[events.Fingerprint, serviceTokenRow]{
	View: "service_tokens", Updated: fold.Inline, Key: "fingerprint", GlobalKey: true,
	Kinds: []string{"service_account"},
	Keys: func(r events.Record) []events.Fingerprint {
		switch e := r.Event.(type) {
		case events.ServiceAccountCreated:
			return []events.Fingerprint{e.Fingerprint}
		case events.ServiceAccountRotated:
			return []events.Fingerprint{e.From, e.Fingerprint}
		case events.ServiceAccountRevoked:
			return []events.Fingerprint{e.Fingerprint}
		}
		return nil
	},
	Apply: func(key events.Fingerprint, t *serviceTokenRow, r events.Record) *serviceTokenRow {
		switch e := r.Event.(type) {
		case events.ServiceAccountCreated:
			return &serviceTokenRow{
				Fingerprint: key, Workspace: r.Workspace, Account: r.Stream,
				Name: e.Name, Scopes: e.Scopes, Tail: e.Tail, Status: TokenCurrent,
			}
		case events.ServiceAccountRotated:
			if key == e.Fingerprint {
				return &serviceTokenRow{
					Fingerprint: key, Workspace: r.Workspace, Account: r.Stream,
					Name: e.Name, Scopes: e.Scopes, Tail: e.Tail, Status: TokenCurrent,
				}
			}
			after := *t
			after.Status = TokenRotated
			return &after
		case events.ServiceAccountRevoked:
			after := *t
			after.Status = TokenRevoked
			return &after
		}
		return t
	},
}

// The status of a token. Only the current token of an account is accepted.
const (
	TokenCurrent = "current"
	TokenRotated = "rotated"
	TokenRevoked = "revoked"
)

// A ServiceToken is the data of a token, found by its fingerprint.
type ServiceToken struct {
	Fingerprint events.Fingerprint
	Workspace   events.ID
	Slug        string // of the workspace; "" if that was deleted
	Account     events.ID
	Name        string // of the account, without the prefix "service:"
	Scopes      []events.Scope
	Tail        string
	Status      string
}

// Tokens returns tokens by their fingerprints. Fingerprints that never existed are left out.
func (v ServiceAccounts) Tokens(ctx context.Context, list []events.Fingerprint) (map[events.Fingerprint]ServiceToken, error) {
	rows, _ := v.DB.Query(ctx, `
		select r.* from unnest((select $1::bytea[])) as k (fingerprint) cross join lateral (
			select t.fingerprint, t.workspace_id, coalesce(w.slug, ''), t.account_id, t.name, t.scopes, t.tail, t.status
			from service_tokens t left join workspaces w on w.workspace_id = t.workspace_id
			where t.fingerprint = k.fingerprint offset 0) r`, list)
	return byKey(rows, func(t ServiceToken) events.Fingerprint { return t.Fingerprint }, "service tokens")
}

// A ServiceAccount is a row of the Service accounts section.
type ServiceAccount struct {
	ID         events.ID
	Name       string
	Scopes     []events.Scope
	Tail       string
	Status     string // active, revoked
	CreatedBy  string
	CreatedAt  time.Time
	RotatedAt  *time.Time
	RevokedAt  *time.Time
	LastUsedAt *time.Time
}

const selectAccounts = `
	select a.account_id, a.name, a.scopes, a.tail, a.status, a.created_by, a.created_at, a.rotated_at, a.revoked_at, u.last_used_at
	from service_accounts a
	left join service_account_usage u on u.workspace_id = a.workspace_id and u.account_id = a.account_id
	where a.workspace_id = $1 `

// Page returns the service accounts of a workspace, active ones first, by name, and the number on
// all pages.
func (v ServiceAccounts) Page(ctx context.Context, workspace events.ID, limit, offset int) (list []ServiceAccount, total int, err error) {
	rows, _ := v.DB.Query(ctx, selectAccounts+`order by a.status, a.name, a.account_id limit $2 offset $3`, workspace, limit, offset)
	list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[ServiceAccount])
	if err != nil {
		return nil, 0, fmt.Errorf("read service accounts of %s: %w", workspace, err)
	}
	err = v.DB.QueryRow(ctx, `select count(*) from service_accounts where workspace_id = $1`, workspace).Scan(&total)
	return list, total, fault.Wrap(err, "count service accounts of %s", workspace)
}

// SearchByName returns up to limit service accounts with a text in their name, active ones first, by
// name. It searches the newest 1,000 of the workspace.
func (v ServiceAccounts) SearchByName(ctx context.Context, workspace events.ID, text string, limit int) ([]query.Named, error) {
	rows, _ := v.DB.Query(ctx, `
		select account_id, name, status from (
			select account_id, name, status from service_accounts where workspace_id = $1 order by account_id desc limit 1000) a
		where strpos(name, $2) > 0 order by status, name, account_id limit $3`, workspace, input.SearchText(text), limit)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[query.Named])
	return list, fault.Wrap(err, "search service accounts of %s", workspace)
}

// Issuer returns the person who issued the current token of a service account: who created the
// account or last rotated the token, according to the log. It returns the zero ID if that was not a
// person. Nobody checks that this service appended the event: it only tells in whose share the token's requests
// wait, and they are answered also while the vault's key is unknown.
func (v ServiceAccounts) Issuer(ctx context.Context, workspace, account events.ID) (person events.ID, err error) {
	rows, _ := v.DB.Query(ctx, `
		select workspace_id, seq, id, stream, version, kind, schema, at, meta, null::json from events
		where workspace_id = $1 and stream = $2 and kind in ('service_account.created', 'service_account.rotated')
		order by version desc limit 1`, workspace, account)
	list, err := pgx.CollectRows(rows, store.Scan)
	if err != nil {
		return person, fmt.Errorf("read issuer of the token of service account %s: %w", account, err)
	}
	for _, r := range list {
		if r.Actor.Type == events.ByUser {
			person = r.Actor.ID
		}
	}
	return person, nil
}

// Get returns one service account of a workspace. ok is false if there is none.
func (v ServiceAccounts) Get(ctx context.Context, workspace, account events.ID) (a ServiceAccount, ok bool, err error) {
	rows, _ := v.DB.Query(ctx, selectAccounts+`and a.account_id = $2`, workspace, account)
	return query.Optional[ServiceAccount](rows, "service account "+account.String())
}
