package dispatch_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/dispatch"
	"svc/farm/wire"
)

// A claimStall stalls the process that first makes a connection the current one of its runner, before or
// after it does so in the database.
type claimStall struct {
	after            bool
	taken            atomic.Bool
	stalled, release chan struct{}
}

type claimKey struct{}

func (c *claimStall) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	if !strings.Contains(query.SQL, "insert into runner_presence") || !c.taken.CompareAndSwap(false, true) {
		return ctx
	}
	if !c.after {
		c.stall()
	}
	return context.WithValue(ctx, claimKey{}, true)
}

func (c *claimStall) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if c.after && ctx.Value(claimKey{}) != nil {
		c.stall()
	}
}

func (c *claimStall) stall() {
	close(c.stalled)
	<-c.release
}

// A process is slow to handle the hello of a connection that has broken since. It does not supersede the
// connection that the runner has made instead.
func TestLateHelloSupersedesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ after, elsewhere bool }{
		"in the same process":                  {false, false},
		"in another process":                   {false, true},
		"in the same process, between the two": {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			stall := &claimStall{after: c.after, stalled: make(chan struct{}), release: make(chan struct{})}
			release := sync.OnceFunc(func() { close(stall.release) })
			defer release()
			slow := s.replica(func(c *dispatch.Config) {
				c.DB = s.connect(func(c *pgxpool.Config) { c.ConnConfig.Tracer = stall })
			})
			other, left := slow, int64(1)
			if c.elsewhere {
				other, left = s.replica(), 0
			}
			runner := s.enrol(slow, "builder", 1, 0)
			late := dial(t, slow, s.ws, runner)
			late.send(hello, events.ID{}, 0, 0)
			select {
			case <-stall.stalled:
			case <-time.After(waitLimit):
				require.FailNow(t, "the hello is not handled")
			}
			late.cut()
			a := dial(t, other, s.ws, runner)
			a.greet()
			release()
			require.Eventually(t, func() bool { return slow.Stats().Connected == left }, waitLimit, time.Millisecond)
			a.send(wire.Heartbeat{Seq: 1, Free: 1}, events.ID{}, 0, 0)
			a.next(wire.TypeHeartbeatAck)
			s.submit(other)
			a.assigned()
		})
	}
}
