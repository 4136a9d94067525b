package integrity

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
)

// SetProgress stores that workspaces up to last were compared in this round, and keeps in which problems were found.
func SetProgress(ctx context.Context, db *pgxpool.Pool, keys store.Authenticator, last events.ID) error {
	w := progressWatch{db: db, keys: keys, log: slog.New(slog.DiscardHandler), self: events.ID{1}}
	if err := w.read(ctx); err != nil {
		return err
	}
	_, err := w.write(ctx, last, w.newest.Found, true)
	return err
}

// FoundInProgress returns the workspaces with problems as read from the progress, which need not be authentic.
func FoundInProgress(ctx context.Context, db *pgxpool.Pool) ([]events.ID, error) {
	p, _, err := readProgress(ctx, db, "")
	return p.Found, err
}
