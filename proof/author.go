package proof

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc/events/store"
)

// settleTime is how long a process must have run before logs require MACs. By then, processes of an
// older build that append events without MACs have ended.
const settleTime = time.Hour

// authorPolicy says what a prover requires of the authors of events.
type authorPolicy struct {
	from       time.Time     // start of the process; zero if no log is to require MACs
	settleTime time.Duration // time after from until logs require MACs
	acceptAny  bool          // accept events of any author
}

// errForeignAuthor says that no event from this one on is signed.
var errForeignAuthor = errors.New("was not appended by this service; it is not signed")

// RequireAuthors makes p refuse to sign an event without its author's MAC, see
// [store.Store.Authenticate], once the log has an event with one and the process has run for an
// hour. The log's checkpoints record the requirement, so it cannot be taken back. Call it before
// Run.
func (p *Prover) RequireAuthors() { p.RequireAuthorsAfter(settleTime) }

// RequireAuthorsAfter is [Prover.RequireAuthors] with another time than an hour.
func (p *Prover) RequireAuthorsAfter(settle time.Duration) {
	p.authors.from, p.authors.settleTime = time.Now(), settle
}

// checkAuthor returns an error if an event to be signed was appended by somebody without the vault
// key. Events of older builds have no MAC and are accepted while the log does not require one.
func (p *Prover) checkAuthor(t *tree, e *stored) error {
	if p.authors.acceptAny || len(e.MAC) == 0 && !t.authenticated {
		return nil
	}
	if err := p.author(e); err != nil {
		return err
	}
	t.authenticated = t.authenticated || !p.authors.from.IsZero() && time.Since(p.authors.from) >= p.authors.settleTime
	return nil
}

func (p *Prover) author(e *stored) error {
	err := store.CheckAuthor(p.secrets.Ring, e.Workspace, e.ID, e.Stream, e.Version, e.Schema, e.Kind, e.Meta, e.Data, e.MAC)
	if err != nil {
		return fmt.Errorf("event %d %w: %w", e.Seq, errForeignAuthor, err)
	}
	return nil
}

// reportAuthor reports the first unsigned event that will not be signed because of its author.
func (p *Prover) reportAuthor(ctx context.Context, k *signingKey, report *Report) error {
	if report.Bad != nil && report.Bad.Seq <= report.Size || report.Unsigned == 0 {
		return nil
	}
	t := &tree{}
	if c, err := openCheckpoint(report.Checkpoint, k.verifier, report.Workspace); err == nil {
		t.authenticated = c.Authenticated
	}
	for after := report.Size; after < report.Head; {
		list, err := readPage(ctx, p.db, report.Workspace, after, report.Head)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, e := range list {
			if report.Bad != nil && report.Bad.Seq < e.Seq {
				return nil
			}
			if p.checkAuthor(t, &e) != nil {
				report.Bad = &Bad{e.Seq, "the record was not appended by this service"}
				return nil
			}
			after = e.Seq
		}
	}
	return nil
}
