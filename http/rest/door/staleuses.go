package door

import (
	"context"
	"log/slog"
	"time"

	"svc/commands"
	"svc/events"
	"svc/lru"
	"svc/projections"
)

const (
	staleQueueSize   = 256              // uses that wait to be recorded; further ones are dropped
	staleTimeout     = 10 * time.Second // to record one use
	maxStaleAccounts = 10_000           // accounts whose last recorded use is cached
	staleInterval    = time.Hour        // between recorded uses of an account
)

// staleUses records uses of tokens that are no longer current. It does so in the background, so that the
// time of a refusal does not reveal whether the token once existed.
type staleUses struct {
	commands *commands.Handler
	log      *slog.Logger
	waiting  chan commands.NoteStaleToken
	recorded *lru.Cache[events.ID, time.Time] // time of the last record by account; a cache, the command decides
}

func newStaleUses(c *commands.Handler, log *slog.Logger) *staleUses {
	return &staleUses{
		commands: c, log: log, waiting: make(chan commands.NoteStaleToken, staleQueueSize),
		recorded: lru.New[events.ID, time.Time](maxStaleAccounts),
	}
}

// record queues a use of t at now, unless one of its account was recorded lately or the queue is full.
func (u *staleUses) record(t projections.ServiceToken, e events.Envelope, now time.Time) {
	if last, ok := u.recorded.Get(t.Account); ok && now.Sub(last) < staleInterval {
		return
	}
	e.Actor = events.Actor{Type: events.BySystem, Name: "system"}
	e.TokenTail = t.Tail
	use := commands.NoteStaleToken{Meta: commands.Meta{Envelope: e, Workspace: t.Workspace}, Account: t.Account, Tail: t.Tail}
	select {
	case u.waiting <- use:
		u.recorded.Add(t.Account, now)
	default:
	}
}

// run records uses until ctx ends.
func (u *staleUses) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case use := <-u.waiting:
			limited, cancel := context.WithTimeout(ctx, staleTimeout)
			if _, err := u.commands.NoteStaleToken(limited, use); err != nil && ctx.Err() == nil {
				u.log.WarnContext(ctx, "record the use of an old token", "account", use.Account, "err", err)
			}
			cancel()
		}
	}
}
