package rest

import (
	"context"
	"log/slog"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"svc/commands"
	"svc/events"
	"svc/projections"
)

const (
	staleWaiting    = 256              // uses that may wait to be recorded; further ones are left out
	staleLimit      = 10 * time.Second // for one of them
	staleRemembered = 10_000           // accounts of which a process remembers that a use was recorded
	staleAgain      = time.Hour        // before another use of the same account is looked at
)

// staleUses records the use of tokens that are no longer current, behind the
// refusal's back: who is refused learns nothing from how long it took.
type staleUses struct {
	commands *commands.Handler
	log      *slog.Logger
	waiting  chan commands.NoteStaleToken
	recorded *lru.Cache[events.ID, time.Time] // by account; the log has the last word
}

func newStaleUses(c *commands.Handler, log *slog.Logger) *staleUses {
	recorded, err := lru.New[events.ID, time.Time](staleRemembered)
	if err != nil {
		panic(err) // only for a size below one
	}
	return &staleUses{commands: c, log: log, waiting: make(chan commands.NoteStaleToken, staleWaiting), recorded: recorded}
}

func (s *Server) noteStale(t projections.ServiceToken, e events.Envelope) {
	if last, ok := s.stale.recorded.Get(t.Account); ok && s.now().Sub(last) < staleAgain {
		return
	}
	e.Actor = events.Actor{Type: events.BySystem, Name: "system"}
	e.TokenTail = t.Tail
	use := commands.NoteStaleToken{Meta: commands.Meta{Envelope: e, Workspace: t.Workspace}, Account: t.Account, Tail: t.Tail}
	select {
	case s.stale.waiting <- use:
		s.stale.recorded.Add(t.Account, s.now())
	default: // somebody hammers; the first of their uses are recorded
	}
}

// run records uses until ctx ends.
func (u *staleUses) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case use := <-u.waiting:
			limited, cancel := context.WithTimeout(ctx, staleLimit)
			if _, err := u.commands.NoteStaleToken(limited, use); err != nil && ctx.Err() == nil {
				u.log.WarnContext(ctx, "record the use of an old token", "account", use.Account, "err", err)
			}
			cancel()
		}
	}
}
