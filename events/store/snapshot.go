package store

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
)

// snapshots says how a store authenticates snapshots.
type snapshots struct {
	by  Authenticator // nil: the store keeps none
	log *slog.Logger
}

// EnableSnapshots lets s store and load snapshots of long streams. Decisions start from them,
// so a snapshot that by does not authenticate is deleted, which is reported to log. Without
// this call SaveSnapshot and Snapshot do nothing. Call it before the first command.
func (s *Store) EnableSnapshots(by Authenticator, log *slog.Logger) { s.snapshots = snapshots{by, log} }

// A snapshotRow is a row of the table snapshots.
type snapshotRow struct {
	Workspace, Stream events.ID
	events.Snapshot
	MAC []byte
}

// place returns what the MAC of a row covers besides its state.
func (r *snapshotRow) place() string {
	return fmt.Sprintf("snapshots/%s/%s/%d/%d/%d", r.Workspace, r.Stream, r.Form, r.Version, r.Seq)
}

const selectSnapshots = `select workspace_id, stream, form, version, seq, state, mac from snapshots `

// Snapshot returns the newest snapshot of a stream. It is nil if there is none of that
// form.
func (s *Store) Snapshot(ctx context.Context, workspace, stream events.ID, form int) (*events.Snapshot, error) {
	if s.snapshots.by == nil {
		return nil, nil
	}
	if err := s.permit(ctx); err != nil {
		return nil, fmt.Errorf("load snapshot of stream %s: %w", stream, err)
	}
	rows, _ := s.db.Query(ctx, selectSnapshots+`where workspace_id = $1 and stream = $2`, workspace, stream)
	list, err := pgx.CollectRows(rows, scanSnapshot)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	r := list[0]
	if err := s.snapshots.by.CheckMAC(r.place(), r.State, r.MAC); err != nil {
		s.dropForged(ctx, r, err)
		return nil, nil
	}
	if r.Form != form {
		return nil, nil
	}
	return &r.Snapshot, nil
}

// scanSnapshot reads a row of selectSnapshots.
func scanSnapshot(row pgx.CollectableRow) (r snapshotRow, err error) {
	return r, row.Scan(&r.Workspace, &r.Stream, &r.Form, &r.Version, &r.Seq, &r.State, &r.MAC)
}

// dropForged deletes a snapshot whose MAC is wrong, so that SaveSnapshot, which replaces only older
// snapshots, can store a good one. If the delete fails, the next process that loads the
// stream tries again.
func (s *Store) dropForged(ctx context.Context, r snapshotRow, why error) {
	_, err := s.db.Exec(ctx, `delete from snapshots where workspace_id = $1 and stream = $2 and mac = $3`, r.Workspace, r.Stream, r.MAC)
	s.snapshots.log.ErrorContext(ctx, "snapshot was not written by this service: dropped, its stream is folded from the log",
		"workspace", r.Workspace, "stream", r.Stream, "version", r.Version, "err", why, "drop_err", err)
}

// SaveSnapshot stores a snapshot of a stream in place of an older one.
func (s *Store) SaveSnapshot(ctx context.Context, workspace, stream events.ID, shot events.Snapshot) error {
	if s.snapshots.by == nil {
		return nil
	}
	if err := s.permit(ctx); err != nil {
		return fmt.Errorf("save snapshot of stream %s: %w", stream, err)
	}
	r := snapshotRow{Workspace: workspace, Stream: stream, Snapshot: shot}
	mac, err := s.snapshots.by.MAC(r.place(), r.State)
	if err != nil {
		return err
	}
	_, err = s.db.Exec(ctx, `
		insert into snapshots as s (workspace_id, stream, form, version, seq, state, mac) values ($1, $2, $3, $4, $5, $6, $7)
		on conflict (workspace_id, stream) do update
		set form = excluded.form, version = excluded.version, seq = excluded.seq, state = excluded.state, mac = excluded.mac
		where (excluded.form, excluded.version) > (s.form, s.version)`,
		workspace, stream, r.Form, r.Version, r.Seq, r.State, mac)
	return err
}

// DropSnapshot deletes the snapshot of a stream, if there is one.
func (s *Store) DropSnapshot(ctx context.Context, workspace, stream events.ID) error {
	_, err := s.db.Exec(ctx, `delete from snapshots where workspace_id = $1 and stream = $2`, workspace, stream)
	return err
}

// DropSnapshots deletes all snapshots, or only those of workspace if it is not zero.
func DropSnapshots(ctx context.Context, db *pgxpool.Pool, workspace events.ID) (err error) {
	if workspace.IsZero() {
		_, err = db.Exec(ctx, `delete from snapshots`)
	} else {
		_, err = db.Exec(ctx, `delete from snapshots where workspace_id = $1`, workspace)
	}
	return fault.Wrap(err, "forget snapshots")
}

// RotateSnapshots replaces the MACs that were made with an old key, so that old keys can be
// removed. It returns how many it replaced. Snapshots whose MAC is wrong are left alone.
func RotateSnapshots(ctx context.Context, db *pgxpool.Pool, by Authenticator) (done int, err error) {
	rows, _ := db.Query(ctx, `select workspace_id, stream, mac from snapshots`)
	var old []snapshotRow
	var r snapshotRow
	_, err = pgx.ForEachRow(rows, []any{&r.Workspace, &r.Stream, &r.MAC}, func() error {
		if !by.CurrentMAC(r.MAC) {
			old = append(old, r)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("list snapshots: %w", err)
	}
	for _, r := range old {
		changed, err := rotateSnapshot(ctx, db, by, r.Workspace, r.Stream)
		if err != nil {
			return done, fmt.Errorf("rotate snapshot %s/%s: %w", r.Workspace, r.Stream, err)
		}
		done += changed
	}
	return done, nil
}

func rotateSnapshot(ctx context.Context, db *pgxpool.Pool, by Authenticator, workspace, stream events.ID) (int, error) {
	rows, _ := db.Query(ctx, selectSnapshots+`where workspace_id = $1 and stream = $2`, workspace, stream)
	list, err := pgx.CollectRows(rows, scanSnapshot)
	if err != nil || len(list) == 0 || by.CheckMAC(list[0].place(), list[0].State, list[0].MAC) != nil {
		return 0, err
	}
	mac, err := by.MAC(list[0].place(), list[0].State)
	if err != nil {
		return 0, err
	}
	tag, err := db.Exec(ctx, `
		update snapshots set mac = $4 where workspace_id = $1 and stream = $2 and mac = $3`, workspace, stream, list[0].MAC, mac)
	return int(tag.RowsAffected()), err
}
