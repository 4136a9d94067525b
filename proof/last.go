package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/fault"
)

// storeReport stores a report unless a newer one is stored. One of the future does not count as newer: a process
// whose clock is ahead would hide later reports for as long.
func (p *Prover) storeReport(ctx context.Context, r Report) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode report of %s: %w", r.Workspace, err)
	}
	mac, err := p.secrets.Ring.MAC(reportPlace(r.Workspace, r.CheckedAt), text)
	if err != nil {
		return err
	}
	_, err = p.db.Exec(ctx, `
		insert into verifications as v (workspace_id, checked_at, report, mac) values ($1, $2, $3, $4)
		on conflict (workspace_id) do update set checked_at = excluded.checked_at, report = excluded.report, mac = excluded.mac
		where v.workspace_id = $1 and (v.checked_at < excluded.checked_at or v.checked_at > now() + interval '1 minute')`,
		r.Workspace, r.CheckedAt, text, mac)
	return fault.Wrap(err, "store report of %s", r.Workspace)
}

// reportPlace returns what the MAC of a stored report covers besides its text.
func reportPlace(workspace events.ID, checkedAt time.Time) string {
	return fmt.Sprintf("verifications/%s/%d", workspace, checkedAt.UnixMicro())
}

const selectReport = `select checked_at, report, mac from verifications where workspace_id = $1`

// Last returns the stored report of the last [Prover.Verify] of a log. ok is false if there is
// none. A report that no holder of the vault key wrote is deleted, so that it neither counts nor
// prevents storing a later one. Whoever can write to the database can still restore an older
// genuine report.
func (p *Prover) Last(ctx context.Context, workspace events.ID) (r Report, ok bool, err error) {
	var checkedAt time.Time
	var text, mac []byte
	err = p.db.QueryRow(ctx, selectReport, workspace).Scan(&checkedAt, &text, &mac)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return r, false, nil
	case err != nil:
		return r, false, fmt.Errorf("read report of %s: %w", workspace, err)
	}
	if forged := p.secrets.Ring.CheckMAC(reportPlace(workspace, checkedAt), text, mac); forged != nil {
		_, err := p.db.Exec(ctx, `delete from verifications where workspace_id = $1 and mac = $2`, workspace, mac)
		p.log.ErrorContext(ctx, "stored report of a verification was not written by this service: dropped",
			"workspace", workspace, "err", forged, "drop_err", err)
		return r, false, nil
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, false, fmt.Errorf("decode report of %s: %w", workspace, err)
	}
	return r, true, nil
}
