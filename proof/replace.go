package proof

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/note"

	"svc/events"
	"svc/vault"
)

// formerSecretName is the name under which a replaced signing key stays in the vault, still sealed.
const formerSecretName = secretName + vault.FormerSuffix

// Reasons why a signing key is not replaced.
var (
	ErrNoKey      = errors.New("there is no signing key yet")
	ErrKeyOpens   = errors.New("the signing key can be opened with SVC_VAULT_MASTER_KEY: nothing has to be replaced")
	ErrForeignKey = errors.New("no newest checkpoint is signed by -verifier-key: it is not the key that was lost, or all logs go on with " +
		"another one already")
)

// A Replacement is a new signing key that replaces a lost one.
type Replacement struct {
	From, To string // public keys
	lost     note.Verifier
	key      *signingKey
	prover   *Prover
}

// Replace creates a signing key that replaces one that no key of the ring unseals, or that somebody has
// deleted. lost is the public key of the lost one, to verify what it signed. It must come from a copy kept elsewhere,
// because whoever can write to the database could have replaced it together with all signatures.
// Replace resumes a replacement that was interrupted.
func Replace(ctx context.Context, db *pgxpool.Pool, ring vault.Ring, lost string) (*Replacement, error) {
	r := &Replacement{From: lost}
	var err error
	if r.lost, err = note.NewVerifier(lost); err != nil {
		return nil, errVerifierKey
	}
	public, err := PublicKey(ctx, db)
	if err != nil {
		return nil, err
	}
	r.prover = New(db, ring, r.lost.Name(), func(string) bool { return true }, slog.New(slog.DiscardHandler))
	if err := r.checkLostKey(ctx, public); err != nil {
		return nil, err
	}
	err = r.prover.secrets.Replace(ctx, secretName, formerSecretName, r.prover.newKey)
	if err != nil && !errors.Is(err, vault.ErrNotLost) {
		return nil, err
	}
	opened := err != nil
	// MACs under a lost key of the vault cannot be checked. If only the signing key was changed or deleted, they can.
	_, _, err = r.prover.secrets.Get(ctx, formerSecretName)
	if err != nil && !errors.Is(err, vault.ErrKeyChanged) && !errors.Is(err, vault.ErrTampered) {
		return nil, err
	}
	r.prover.acceptAny = errors.Is(err, vault.ErrKeyChanged)
	if r.key, err = r.prover.signingKey(ctx); err != nil {
		return nil, err
	}
	if r.To = r.key.public; opened {
		err = r.checkInterrupted(ctx)
	}
	return r, err
}

// checkLostKey returns an error unless the lost key signed the logs.
func (r *Replacement) checkLostKey(ctx context.Context, public string) error {
	rows, _ := r.prover.db.Query(ctx,
		`select distinct on (workspace_id) workspace_id, note from proof_checkpoints order by workspace_id, size desc`)
	var workspace events.ID
	var text string
	some, signed := false, false
	_, err := pgx.ForEachRow(rows, []any{&workspace, &text}, func() error {
		if some = true; !signed {
			_, err := openCheckpoint(text, r.lost, workspace)
			signed = err == nil
		}
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("read checkpoints: %w", err)
	case !some && public == "":
		return ErrNoKey
	case !signed && (some || public != r.From):
		return ErrForeignKey
	}
	return nil
}

// checkInterrupted returns an error unless the key that can be unsealed comes from an interrupted replacement.
func (r *Replacement) checkInterrupted(ctx context.Context) error {
	var former bool
	err := r.prover.db.QueryRow(ctx, `select exists (select from vault_secrets where name = $1)`, formerSecretName).Scan(&former)
	if err == nil && (!former || r.From == r.To) {
		err = ErrKeyOpens
	}
	return err
}

// Log verifies a log with the lost key, has record append an event about the replacement and the
// last record that the lost key signed, and continues signing with the new key. The new key signs
// nothing before that event, even if Log is interrupted; it can then be called again. A log that
// does not verify is left alone, and the report says why. done is false if the new key has signed
// the log already.
func (r *Replacement) Log(ctx context.Context, workspace events.ID, record func(upTo int64) error,
	progress func(done, total int64)) (report Report, done bool, err error) {
	db := r.prover.db
	if already, err := r.alreadySigned(ctx, workspace); already || err != nil {
		return report, false, err
	}
	report, err = Verify(ctx, db, workspace, Check{VerifierKey: r.From, Progress: progress})
	if err == nil {
		err = r.prover.reportAuthor(ctx, &report)
	}
	if err != nil || report.Bad != nil {
		return report, false, err
	}
	list, err := formerKeys(ctx, db, workspace, report.Head)
	if err != nil {
		return report, false, err
	}
	if !slices.ContainsFunc(list, func(f FormerKey) bool { return f.VerifierKey == r.From && f.by == r.To }) {
		if err := record(report.Size); err != nil {
			return report, false, fmt.Errorf("record in %s that the key was replaced: %w", workspace, err)
		}
	}
	if err := r.countersign(ctx, workspace); err != nil {
		return report, false, fmt.Errorf("sign the checkpoints of %s: %w", workspace, err)
	}
	for more := []events.ID{workspace}; len(more) > 0; {
		if more, err = r.prover.takePage(ctx, more); err != nil {
			return report, false, err
		}
	}
	return report, true, nil
}

// alreadySigned reports whether the new key has signed a log already.
func (r *Replacement) alreadySigned(ctx context.Context, workspace events.ID) (bool, error) {
	var text string
	err := r.prover.db.QueryRow(ctx, `
		select note from proof_checkpoints where workspace_id = $1 order by size desc limit 1`, workspace).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the newest checkpoint of %s: %w", workspace, err)
	}
	_, err = openCheckpoint(text, r.key.verifier, workspace)
	return err == nil, nil
}

// countersign adds the new key's signature to every checkpoint that the lost key signed, after they
// were verified. They stay valid without the lost key.
func (r *Replacement) countersign(ctx context.Context, workspace events.ID) error {
	return pgx.BeginFunc(ctx, r.prover.db, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, `select size, note from proof_checkpoints where workspace_id = $1 order by size for update`, workspace)
		var sizes []int64
		var notes []string
		var size int64
		var text string
		_, err := pgx.ForEachRow(rows, []any{&size, &text}, func() error {
			n, err := note.Open([]byte(text), note.VerifierList(r.lost))
			if err != nil {
				return fmt.Errorf("open checkpoint of size %d: %w", size, err)
			}
			both, err := note.Sign(n, r.key.signer)
			sizes, notes = append(sizes, size), append(notes, string(both))
			return err
		})
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			update proof_checkpoints c set note = s.note from unnest($2::bigint[], $3::text[]) as s (size, note)
			where c.workspace_id = $1 and c.size = s.size`, workspace, sizes, notes)
		return err
	})
}
