package proof

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
	"svc/vault"
)

// RotateReports replaces the MACs of stored reports that were made with an old key, so that old keys can be
// removed. It returns how many it replaced. Reports whose MAC is wrong are left alone.
func RotateReports(ctx context.Context, db *pgxpool.Pool, ring vault.Ring) (done int, err error) {
	rows, _ := db.Query(ctx, `select workspace_id, mac from verifications`)
	var old []events.ID
	var workspace events.ID
	var mac []byte
	_, err = pgx.ForEachRow(rows, []any{&workspace, &mac}, func() error {
		if !ring.CurrentMAC(mac) {
			old = append(old, workspace)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("list stored reports: %w", err)
	}
	for _, workspace := range old {
		changed, err := rotateReport(ctx, db, ring, workspace)
		if err != nil {
			return done, fmt.Errorf("rotate report of %s: %w", workspace, err)
		}
		done += changed
	}
	return done, nil
}

func rotateReport(ctx context.Context, db *pgxpool.Pool, ring vault.Ring, workspace events.ID) (int, error) {
	var checkedAt time.Time
	var text, before []byte
	err := db.QueryRow(ctx, selectReport, workspace).Scan(&checkedAt, &text, &before)
	place := reportPlace(workspace, checkedAt)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, nil
	case err != nil:
		return 0, err
	case ring.CheckMAC(place, text, before) != nil:
		return 0, nil
	}
	mac, err := ring.MAC(place, text)
	if err != nil {
		return 0, err
	}
	tag, err := db.Exec(ctx, `update verifications set mac = $3 where workspace_id = $1 and mac = $2`, workspace, before, mac)
	return int(tag.RowsAffected()), err
}

// DropReports deletes all stored reports, after the key under which they were stored was lost.
func DropReports(ctx context.Context, db *pgxpool.Pool) error {
	_, err := db.Exec(ctx, `delete from verifications`)
	return fault.Wrap(err, "drop stored reports")
}
