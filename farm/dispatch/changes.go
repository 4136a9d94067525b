package dispatch

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"svc/commands"
	"svc/events"
)

// What a runner may have the log say of it by coming and going: so often at once, and then
// once in so long. A runner that is broken, or hostile, or on a bad line, would fill the log of
// its workspace. What is gone counts as there for longer then: its last heartbeat tells.
const (
	changesAtOnce = 20
	changesEvery  = 10 * time.Minute
)

// changes count what the log was told of each runner, in this process.
type changes struct {
	of *lru.Cache[events.ID, *rate.Limiter]
}

func newChanges(runners int) changes {
	c, err := lru.New[events.ID, *rate.Limiter](runners)
	if err != nil {
		panic(err) // a size below 1
	}
	return changes{c}
}

func (c changes) limit(runner events.ID) *rate.Limiter {
	fresh := rate.NewLimiter(rate.Every(changesEvery), changesAtOnce)
	if l, ok, _ := c.of.PeekOrAdd(runner, fresh); ok {
		c.of.Get(runner) // it was used
		return l
	}
	return fresh
}

// announce says in the log that the runner is there, and what it says of itself. Where it does
// that too often, what has changed about it has to wait: the connection is late.
func (c *connection) announce(ctx context.Context) error {
	limit, now := c.d.changes.limit(c.runner.ID), c.d.Now()
	c.mu.Lock()
	hello := c.hello
	c.mu.Unlock()
	quiet := limit.TokensAt(now) < 1
	done, err := c.d.Commands.ConnectRunner(ctx, commands.ConnectRunner{
		Meta: c.runner.meta(), Runner: c.runner.ID, Hello: hello, Quiet: quiet,
	})
	if err != nil {
		return err
	}
	if !done.Idle {
		limit.AllowN(now, 1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = quiet && done.Idle
	return nil
}

// leave says in the log that the runner goes, unless it comes and goes too often: then the
// clock says so, once it was silent for a while.
func (c *connection) leave(ctx context.Context) error {
	if !c.d.changes.limit(c.runner.ID).AllowN(c.d.Now(), 1) {
		return nil
	}
	return c.d.disappear(ctx, c.runner, c.id, events.OfflineDrained)
}
