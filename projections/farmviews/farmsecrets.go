package farmviews

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
	"svc/projections/fold"
)

// FarmSecrets is the view of the secrets that jobs can use. It is inline, so that a removed secret
// is given to nobody.
type FarmSecrets struct{ DB *pgxpool.Pool }

// A FarmSecret is a secret without its value.
type FarmSecret struct {
	Workspace events.ID          `db:"workspace_id"`
	Name      string             `db:"name"`
	Value     events.ID          `db:"value_id"` // id of the value in the vault
	SetBy     string             `db:"set_by"`
	SetAt     time.Time          `db:"set_at"`
	Scope     events.SecretScope `db:"scope"`
}

var farmSecrets = &fold.Table[string, FarmSecret]{
	View: "farm_secrets", Updated: fold.Inline, Key: "name",
	Kinds: []string{"farm_secret"},
	Keys: func(r events.Record) []string {
		switch e := r.Event.(type) {
		case events.FarmSecretSet:
			return []string{e.Name}
		case events.FarmSecretScoped:
			return []string{e.Name}
		case events.FarmSecretRemoved:
			return []string{e.Name}
		}
		return nil
	},
	Apply: func(name string, before *FarmSecret, r events.Record) *FarmSecret {
		switch e := r.Event.(type) {
		case events.FarmSecretSet:
			after := FarmSecret{Workspace: r.Workspace, Name: name, Value: e.Value, SetBy: r.Actor.Name, SetAt: r.At}
			if before != nil {
				after.Scope = before.Scope
			}
			return &after
		case events.FarmSecretScoped:
			after := *before
			after.Scope = e.Scope
			return &after
		}
		return nil
	},
}

// List returns all secrets of a workspace, by name. There are few.
func (v FarmSecrets) List(ctx context.Context, workspace events.ID) ([]FarmSecret, error) {
	rows, _ := v.DB.Query(ctx, `
		select workspace_id, name, value_id, set_by, set_at, scope from farm_secrets
		where workspace_id = $1 order by name collate "C"`, workspace)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[FarmSecret])
	return list, fault.Wrap(err, "list farm secrets")
}
