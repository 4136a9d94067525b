package proof

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc/events/store"
)

// settleTime is for how long a process has to have run before a log needs MACs:
// processes of a build before, which append without, have ended by then.
const settleTime = time.Hour

// authors is what a prover asks of the authors of events.
type authors struct {
	from   time.Time     // when the process began, zero if no log is to need MACs
	settle time.Duration // from then on
	any    bool          // it takes what anybody has appended
}

// errAuthor says that nothing is to be signed for from there on.
var errAuthor = errors.New("was not appended by this service; it is not signed for")

// RequireAuthors has p sign for no event without the MAC of who appended it, see
// [store.Store.Authenticate], in each log that has an event with one: from the next
// on, but not before the process has run for an hour. The log's checkpoints say so,
// so that nobody can take it back. Call it before Run.
func (p *Prover) RequireAuthors() { p.RequireAuthorsAfter(settleTime) }

// RequireAuthorsAfter is [Prover.RequireAuthors] with another time than an hour.
func (p *Prover) RequireAuthorsAfter(settle time.Duration) {
	p.authors.from, p.authors.settle = time.Now(), settle
}

// checkAuthor returns an error if an event that follows what is signed for was
// appended by somebody who has no vault key. Events of builds before have no MAC,
// and are taken as long as the log does not need one.
func (p *Prover) checkAuthor(t *tree, e *stored) error {
	if p.authors.any || len(e.MAC) == 0 && !t.authenticated {
		return nil
	}
	if err := p.author(e); err != nil {
		return err
	}
	t.authenticated = t.authenticated || !p.authors.from.IsZero() && time.Since(p.authors.from) >= p.authors.settle
	return nil
}

func (p *Prover) author(e *stored) error {
	err := store.CheckAuthor(p.secrets.Ring, e.Workspace, e.ID, e.Stream, e.Version, e.Schema, e.Kind, e.Meta, e.Data, e.MAC)
	if err != nil {
		return fmt.Errorf("event %d %w: %w", e.Seq, errAuthor, err)
	}
	return nil
}

// blameAuthor names the first unsigned event that will not be signed for.
func (p *Prover) blameAuthor(ctx context.Context, k *key, report *Report) error {
	if report.Bad != nil && report.Bad.Seq <= report.Size || report.Unsigned == 0 {
		return nil
	}
	t := &tree{}
	if c, err := openCheckpoint(report.Checkpoint, k.verifier, report.Workspace); err == nil {
		t.authenticated = c.Authenticated
	}
	for after := report.Size; after < report.Head; {
		list, err := read(ctx, p.db, report.Workspace, after, report.Head)
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
