package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc/events"
)

// storeReport stores a report unless a newer one is stored.
func (p *Prover) storeReport(ctx context.Context, r Report) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write report of %s: %w", r.Workspace, err)
	}
	_, err = p.db.Exec(ctx, `
		insert into verifications as v (workspace_id, checked_at, report) values ($1, $2, $3)
		on conflict (workspace_id) do update set checked_at = excluded.checked_at, report = excluded.report
		where v.workspace_id = $1 and v.checked_at < excluded.checked_at`, r.Workspace, r.CheckedAt, text)
	if err != nil {
		return fmt.Errorf("keep report of %s: %w", r.Workspace, err)
	}
	return nil
}

// Last returns the stored report of the last [Prover.Verify] of a log. ok is false if there is
// none. Whoever can write to the database may have forged it.
func (p *Prover) Last(ctx context.Context, workspace events.ID) (r Report, ok bool, err error) {
	var text []byte
	err = p.db.QueryRow(ctx, `select report from verifications where workspace_id = $1`, workspace).Scan(&text)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return r, false, nil
	case err != nil:
		return r, false, fmt.Errorf("last report of %s: %w", workspace, err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, false, fmt.Errorf("read report of %s: %w", workspace, err)
	}
	return r, true, nil
}
