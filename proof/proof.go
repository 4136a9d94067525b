package proof

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/note"

	"svc/events"
	"svc/events/follow"
	"svc/fault"
	"svc/vault"
)

const (
	page       = 1000 // events that are hashed, or verified, together
	keepEvery  = 1024 // of older checkpoints the last one of each so many events is kept
	secretName = "proof_signer"

	// signEvery is how often a log is signed for at most, which takes longer than to
	// hash the events of so long a time. Whoever verifies does not wait for it.
	signEvery = time.Second

	// View is the name under which the position of a Merkle log is kept among
	// those of the views.
	View = "proof"
)

// ErrSigningKey says that the key that signs cannot be opened.
var ErrSigningKey = fault.New(fault.Unavailable, "signing_key_unavailable",
	"The key that the audit log is signed with cannot be opened: it was sealed under another master key than the service has. Its operator can mend that.")

// A Prover keeps the Merkle logs up to date and verifies them. Any number of
// processes may run one.
type Prover struct {
	db      *pgxpool.Pool
	secrets vault.Secrets
	host    string
	follow  *follow.Follower
	overdue *overdue
	authors authors
	own     *lru.Cache[events.ID, ownNote] // newest checkpoints that this process made itself
}

// An ownNote is a checkpoint, and the signed text that says so.
type ownNote struct {
	checkpoint checkpoint
	text       string
}

// remembered is of how many workspaces a process knows what it signed last.
const remembered = 10_000

// A key signs checkpoints. public is its verifier key, as note writes one, and
// shown what stands in the database in the place of that.
type key struct {
	signer        note.Signer
	verifier      note.Verifier
	public, shown string
}

// New returns a prover that does nothing until it runs. Its checkpoints begin
// with host, that by which people reach the service. It works while it leads [View].
func New(db *pgxpool.Pool, ring vault.Ring, host string, leads func(view string) bool, log *slog.Logger) *Prover {
	cache, err := lru.New[events.ID, ownNote](remembered)
	if err != nil {
		panic(err) // only for a size below one
	}
	late := &overdue{db: db, log: log}
	p := &Prover{
		db: db, secrets: vault.Secrets{DB: db, Ring: ring}, host: host, own: cache, overdue: late,
		// A lease saves work: where nobody signs, whoever finds out does.
		follow: follow.New(db, View, func(view string) bool { return leads(view) || late.count.Load() > 0 }, log),
	}
	p.follow.AtMostEvery(signEvery)
	return p
}

// Overdue returns how many logs should have been signed for and are not.
func (p *Prover) Overdue() int { return int(p.overdue.count.Load()) }

// Verify recomputes the Merkle log of a workspace, as the function of that name
// does. Callers see to it that not too many do so at once. progress, unless it
// is nil, hears of each page, and may take its time.
func (p *Prover) Verify(ctx context.Context, workspace events.ID, since string, progress func(done, total int64)) (Report, error) {
	k, err := p.signingKey(ctx)
	switch {
	case errors.Is(err, vault.ErrKeyChanged), errors.Is(err, vault.ErrTampered):
		return Report{}, fmt.Errorf("%w: %w", ErrSigningKey, err)
	case err != nil:
		return Report{}, err
	}
	if err := p.signNow(ctx, workspace); err != nil {
		return Report{}, err
	}
	due, err := Due(ctx, p.db, workspace)
	if err != nil {
		return Report{}, err
	}
	report, err := Verify(ctx, p.db, workspace, Check{VerifierKey: k.public, Since: since, Due: due[workspace], Progress: progress})
	if err == nil && report.Bad == nil && k.shown != k.public {
		report.Bad = &Bad{Reason: "the verifier key that is stored in clear was replaced"}
	}
	if err == nil {
		err = p.blameAuthor(ctx, k, &report)
	}
	if err == nil && since == "" { // what somebody holds against it says something of that too
		if failed := p.keep(ctx, report); failed != nil {
			p.overdue.log.WarnContext(ctx, "keep what became of a verification", "workspace", workspace, "err", failed)
		}
	}
	return report, err
}

// signNow signs for a page of what is not signed for yet, whoever leads. Why it
// cannot the verification says.
func (p *Prover) signNow(ctx context.Context, workspace events.ID) error {
	tails, err := unsigned(ctx, p.db, []events.ID{workspace})
	if err == nil && len(tails) > 0 {
		if _, failed := p.takePage(ctx, []events.ID{workspace}); failed != nil {
			p.overdue.log.WarnContext(ctx, "sign for a log that is to be verified", "workspace", workspace, "err", failed)
		}
	}
	return err
}

// PublicKey returns the verifier key that stands in the database, "" if there
// is none yet.
func PublicKey(ctx context.Context, db *pgxpool.Pool) (public string, err error) {
	err = db.QueryRow(ctx, `select public from vault_secrets where name = $1`, secretName).Scan(&public)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("read the verifier key: %w", err)
	}
	return public, nil
}

// signingKey returns the key, which is made when it is first needed.
func (p *Prover) signingKey(ctx context.Context) (*key, error) {
	secret, shown, err := p.secrets.GetOrCreate(ctx, secretName, p.newKey)
	if err != nil {
		return nil, fmt.Errorf("key of checkpoints: %w", err)
	}
	k := &key{shown: shown}
	if k.signer, err = note.NewSigner(string(secret)); err != nil {
		return nil, errors.New("key of checkpoints: what was sealed is no key") // err may quote it
	}
	if k.public, err = publicOf(k.signer.Name(), string(secret)); err != nil {
		return nil, err
	}
	k.verifier, err = note.NewVerifier(k.public)
	return k, err
}

func (p *Prover) newKey() (private []byte, public string, err error) {
	secret, public, err := note.GenerateKey(rand.Reader, p.host)
	return []byte(secret), public, err
}

// publicOf derives the verifier key of a signer's: its last part is a byte for
// the algorithm and the seed of an Ed25519 key.
func publicOf(name, private string) (string, error) {
	parts := strings.SplitN(private, "+", 5) // PRIVATE, KEY, name, hash, and base64, which has the sign too
	seed, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(seed) != 1+ed25519.SeedSize {
		return "", errors.New("key of checkpoints: what was sealed is no key")
	}
	return note.NewEd25519VerifierKey(name, ed25519.NewKeyFromSeed(seed[1:]).Public().(ed25519.PublicKey))
}
