package proof

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/note"

	"svc/events"
)

// purgedLine begins the line of a tombstone that tells it from a checkpoint.
const purgedLine = "purged "

// ErrUnsigned says that a log has events that are not signed yet.
var ErrUnsigned = errors.New("the log is not signed up to its last event")

// Tombstone returns a signed note that a workspace was purged: its last checkpoint, which has to cover the whole log,
// with one more line. It returns [ErrUnsigned] while it does not. tx must hold the lock of the log.
func (p *Prover) Tombstone(ctx context.Context, tx pgx.Tx, workspace events.ID, at time.Time) (text string, err error) {
	var last string
	var head int64
	err = tx.QueryRow(ctx, `
		select l.head, coalesce((select c.note from proof_checkpoints c where c.workspace_id = $1 order by c.size desc limit 1), '')
		from logs l where l.workspace_id = $1`, workspace).Scan(&head, &last)
	if err != nil {
		return "", fmt.Errorf("read the last checkpoint of %s: %w", workspace, err)
	}
	if last == "" {
		return "", ErrUnsigned
	}
	k, err := p.signingKey(ctx)
	if err != nil {
		return "", err
	}
	c, err := openCheckpoint(last, k.verifier, workspace)
	switch {
	case err != nil:
		return "", fmt.Errorf("open the last checkpoint of %s: %w", workspace, err)
	case c.Size != head:
		return "", ErrUnsigned
	}
	signed, err := note.Sign(&note.Note{Text: c.text() + purgedLine + at.UTC().Format(time.RFC3339) + "\n"}, k.signer)
	if err != nil {
		return "", fmt.Errorf("sign the tombstone of %s: %w", workspace, err)
	}
	return string(signed), nil
}

// Purged reports whether a workspace has a tombstone that this service signed.
func (p *Prover) Purged(ctx context.Context, workspace events.ID) (bool, error) {
	var text string
	err := p.db.QueryRow(ctx, `select note from tombstones where workspace_id = $1`, workspace).Scan(&text)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read the tombstone of %s: %w", workspace, err)
	}
	k, err := p.verifyingKey(ctx)
	if err != nil {
		return false, err
	}
	if _, err := openCheckpoint(text, k.verifier, workspace); err != nil || !strings.Contains(text, "\n"+purgedLine) {
		p.log.ErrorContext(ctx, "a tombstone was not signed by this service: ignored", "workspace", workspace, "err", err)
		return false, nil
	}
	return true, nil
}
