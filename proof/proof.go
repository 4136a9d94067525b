package proof

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/note"

	"svc/events"
	"svc/events/follow"
	"svc/fault"
	"svc/lru"
	"svc/vault"
)

const (
	page               = 1000 // events that are hashed or verified together
	checkpointInterval = 1024 // of each so many events, the last checkpoint stays stored
	secretName         = "proof_signer"

	// minSignInterval is the shortest time between two signatures for a log: signing takes longer than hashing
	// the events of a second. A verification does not wait for it.
	minSignInterval = time.Second

	// FollowerName is the name of the prover's checkpoints in table checkpoints, and of its lease.
	FollowerName = "proof"
)

// ErrSigningKey says that the signing key cannot be unsealed, or is missing.
var ErrSigningKey = fault.New(fault.Unavailable, "signing_key_unavailable",
	"The key that the audit log is signed with is missing, or was sealed under another master key than the service has. Its operator "+
		"can mend that.")

// errKeyMissing says that somebody has deleted the signing key.
var errKeyMissing = errors.New("it is missing, although logs are signed: restore it from a backup, or see svc-db replace-key")

// A Prover extends and verifies the Merkle logs. Any number of processes may run one.
type Prover struct {
	db      *pgxpool.Pool
	secrets vault.Secrets
	host    string
	follow  *follow.Follower
	overdue *overdueWatch
	log     *slog.Logger
	own     *lru.Cache[events.ID, ownCheckpoint] // newest checkpoints that this process signed itself

	acceptAny bool // sign events of any author
}

// An ownCheckpoint is a checkpoint with its signed text.
type ownCheckpoint struct {
	checkpoint checkpoint
	text       string
}

// ownCacheSize is how many logs have their newest checkpoint cached.
const ownCacheSize = 10_000

// A signingKey signs checkpoints. public is its verifier key, derived from the private key; stored is the
// verifier key in the database.
type signingKey struct {
	signer         note.Signer
	verifier       note.Verifier
	public, stored string
}

// New returns a prover that does nothing until Run. host is the service's public host, with which
// checkpoints begin. The prover works while it leads [FollowerName].
func New(db *pgxpool.Pool, ring vault.Ring, host string, leads func(view string) bool, log *slog.Logger) *Prover {
	p := &Prover{
		db: db, secrets: vault.Secrets{DB: db, Ring: ring}, host: host, overdue: &overdueWatch{db: db, log: log}, log: log,
		own:    lru.New[events.ID, ownCheckpoint](ownCacheSize),
		follow: follow.New(db, FollowerName, leads, log),
	}
	p.follow.AtMostEvery(minSignInterval)
	return p
}

// Overdue returns the number of logs that are not signed in time.
func (p *Prover) Overdue() int { return int(p.overdue.count.Load()) }

// Verify verifies the Merkle log of a workspace like the function [Verify]. Callers must limit
// concurrent calls. progress, unless nil, is called after each page and may sleep.
func (p *Prover) Verify(ctx context.Context, workspace events.ID, since string, progress func(done, total int64)) (Report, error) {
	k, err := p.verifyingKey(ctx)
	if err != nil {
		return Report{}, err
	}
	if err := p.signNow(ctx, workspace); err != nil {
		return Report{}, err
	}
	due, err := Due(ctx, p.db, workspace)
	if err != nil {
		return Report{}, err
	}
	return p.verify(ctx, k, workspace, Check{Since: since, Due: due[workspace], Progress: progress})
}

// verifyingKey returns the signing key, or [ErrSigningKey] if it is lost.
func (p *Prover) verifyingKey(ctx context.Context) (*signingKey, error) {
	k, err := p.signingKey(ctx)
	if errors.Is(err, vault.ErrKeyChanged) || errors.Is(err, vault.ErrTampered) || errors.Is(err, errKeyMissing) {
		err = fmt.Errorf("%w: %w", ErrSigningKey, err)
	}
	return k, err
}

func (p *Prover) verify(ctx context.Context, k *signingKey, workspace events.ID, c Check) (Report, error) {
	c.VerifierKey = k.public
	report, err := Verify(ctx, p.db, workspace, c)
	if err == nil && report.Bad == nil && k.stored != k.public {
		report.Bad = &Bad{Reason: "the verifier key that is stored in clear was replaced"}
	}
	if err == nil {
		err = p.reportAuthor(ctx, &report)
	}
	if err == nil && c.Since == "" { // with Since, the result depends on the caller's checkpoint
		if failed := p.storeReport(ctx, report); failed != nil {
			p.log.WarnContext(ctx, "store the result of a verification", "workspace", workspace, "err", failed)
		}
	}
	return report, err
}

// Sign signs the events that logs have now, up to a page of each, without the lease. It only logs a failure.
func (p *Prover) Sign(ctx context.Context, list []events.ID) error {
	tails, err := unsignedTails(ctx, p.db, list)
	if err != nil {
		return fmt.Errorf("look for what is not signed: %w", err)
	}
	for workspace := range tails {
		if _, err := p.takePage(ctx, []events.ID{workspace}); err != nil {
			p.log.WarnContext(ctx, "sign a log before its verification", "workspace", workspace, "err", err)
		}
	}
	return nil
}

const (
	signAttempts = 4                     // of signNow
	signPause    = 10 * time.Millisecond // before its second attempt; it grows by as much with each
)

// signNow signs the events that a log has now, without the lease. If another round is under way in the
// log, signNow tries again after a pause, because that round may have begun before the last events. It
// only logs a failure, which the verification then reports, and leaves what takes longer to [Due].
func (p *Prover) signNow(ctx context.Context, workspace events.ID) error {
	var head int64
	for attempt := range signAttempts {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(attempt) * signPause):
		}
		tails, err := unsignedTails(ctx, p.db, []events.ID{workspace})
		if err != nil {
			return err
		}
		t, unsigned := tails[workspace]
		if attempt == 0 {
			head = t.head
		}
		if !unsigned || t.signed >= head {
			return nil
		}
		if _, err := p.takePage(ctx, []events.ID{workspace}); err != nil {
			p.log.WarnContext(ctx, "sign a log before its verification", "workspace", workspace, "err", err)
			return nil
		}
	}
	return nil
}

// PublicKey returns the verifier key that is stored in the database, "" if there is none yet.
func PublicKey(ctx context.Context, db *pgxpool.Pool) (public string, err error) {
	err = db.QueryRow(ctx, `select public from vault_secrets where name = $1`, secretName).Scan(&public)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("read the verifier key: %w", err)
	}
	return public, nil
}

// signingKey returns the key. It creates the key when it is first needed, and never if checkpoints are signed with
// one that is missing: nobody would notice that another key signs.
func (p *Prover) signingKey(ctx context.Context) (*signingKey, error) {
	create := func() (private []byte, public string, err error) {
		if signed, err := p.hasCheckpoints(ctx); err != nil || signed {
			return nil, "", cmp.Or(err, errKeyMissing)
		}
		return p.newKey()
	}
	secret, shown, err := p.secrets.GetOrCreate(ctx, secretName, create)
	if errors.Is(err, errKeyMissing) { // or another process has just created it, and signed
		secret, shown, err = p.secrets.GetOrCreate(ctx, secretName, create)
	}
	if err != nil {
		return nil, fmt.Errorf("read signing key: %w", err)
	}
	k := &signingKey{stored: shown}
	if k.signer, err = note.NewSigner(string(secret)); err != nil {
		return nil, errors.New("signing key: the sealed value is not a key") // err may quote it
	}
	if k.public, err = verifierKeyOf(k.signer.Name(), string(secret)); err != nil {
		return nil, err
	}
	k.verifier, err = note.NewVerifier(k.public)
	return k, err
}

func (p *Prover) hasCheckpoints(ctx context.Context) (some bool, err error) {
	err = p.db.QueryRow(ctx, `select exists (select from proof_checkpoints)`).Scan(&some)
	return some, fault.Wrap(err, "look for checkpoints")
}

func (p *Prover) newKey() (private []byte, public string, err error) {
	secret, public, err := note.GenerateKey(rand.Reader, p.host)
	return []byte(secret), public, err
}

// verifierKeyOf derives the verifier key from a private key, whose last part is an algorithm byte and
// the seed of an Ed25519 key.
func verifierKeyOf(name, private string) (string, error) {
	parts := strings.SplitN(private, "+", 5) // PRIVATE, KEY, name, hash, and base64, which may contain a plus
	seed, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(seed) != 1+ed25519.SeedSize {
		return "", errors.New("signing key: the sealed value is not a key")
	}
	return note.NewEd25519VerifierKey(name, ed25519.NewKeyFromSeed(seed[1:]).Public().(ed25519.PublicKey))
}
