package dispatch

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"svc/commands"
	"svc/events"
	"svc/lru"
)

// Rate limit on the events that a runner causes by connecting and disconnecting. Without it a
// broken or hostile runner, or one on a bad line, could fill the log of its workspace. A runner over
// its limit that goes away counts as online for longer; its last heartbeat is still shown.
const (
	announceBurst = 20
	announceEvery = 10 * time.Minute
)

// An announceLimiter limits the online and offline events of each runner in this process.
type announceLimiter struct {
	byRunner *lru.Cache[events.ID, *rate.Limiter]
}

func newAnnounceLimiter(runners int) announceLimiter {
	return announceLimiter{lru.New[events.ID, *rate.Limiter](runners)}
}

func (c announceLimiter) limit(runner events.ID) *rate.Limiter {
	fresh := rate.NewLimiter(rate.Every(announceEvery), announceBurst)
	if l, ok, _ := c.byRunner.PeekOrAdd(runner, fresh); ok {
		c.byRunner.Get(runner) // marks it as recently used
		return l
	}
	return fresh
}

// announceOnline records in the log that the runner is online, and what its hello says. Over its
// rate limit a runner's changes are recorded later: the connection is unannounced.
func (c *connection) announceOnline(ctx context.Context) error {
	limit, now := c.d.announcements.limit(c.runner.ID), c.d.Now()
	quiet := limit.TokensAt(now) < 1
	done, err := c.d.Commands.ConnectRunner(ctx, commands.ConnectRunner{
		Meta: c.runner.Meta(), Runner: c.runner.ID, Hello: c.presence.lastHello(), Quiet: quiet,
	})
	if err != nil {
		return err
	}
	if !done.Idle {
		limit.AllowN(now, 1)
	}
	c.presence.setUnannounced(quiet && done.Idle)
	return nil
}

// announceOffline records in the log that the runner has left. Over its rate limit a runner is
// marked offline by the sweep instead, once it has been silent for a while.
func (c *connection) announceOffline(ctx context.Context) error {
	if !c.d.announcements.limit(c.runner.ID).AllowN(c.d.Now(), 1) {
		return nil
	}
	return c.d.markOffline(ctx, c.runner, c.id, events.OfflineDrained)
}
