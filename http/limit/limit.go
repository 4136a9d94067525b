// Package limit limits what each caller uses in a time, such as requests a minute or bytes a day.
package limit

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"

	"svc/events"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/reply"
)

// ErrLimited says that a caller has exceeded its rate.
var ErrLimited = fault.New(fault.RateLimited, "rate_limited", "Too many requests. Wait as long as Retry-After says.")

// callers is how many callers a limit remembers. It forgets the least recently seen ones.
const callers = 100_000

// maxTries limits the compare-and-swap attempts to count a request while other requests of the same
// caller are counted.
const maxTries = 10_000

// A Limit is a rate of requests, or of other units, for each caller. It is kept in the process, so each
// replica has its own. A nil Limit allows everything.
type Limit struct {
	limiter *throttled.GCRARateLimiterCtx
	units   int
	every   time.Duration // after which one more unit is allowed
	refused atomic.Int64
}

// PerMinute returns a limit of n requests a minute, all of which may come in one burst. For n = 0
// it returns nil, which is no limit.
func PerMinute(n int) (*Limit, error) { return newLimit(n, time.Minute) }

// PerDay is like PerMinute, for n units in any 24 hours.
func PerDay(n int) (*Limit, error) { return newLimit(n, 24*time.Hour) }

func newLimit(n int, period time.Duration) (*Limit, error) {
	if n == 0 {
		return nil, nil
	}
	store, err := memstore.NewCtx(callers)
	if err != nil {
		return nil, fmt.Errorf("make limit of %d: %w", n, err)
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerDuration(n, period), MaxBurst: n - 1})
	if err != nil {
		return nil, fmt.Errorf("make limit of %d: %w", n, err)
	}
	limiter.SetMaxCASAttemptsLimit(maxTries)
	return &Limit{limiter: limiter, units: n, every: period / time.Duration(n)}, nil
}

// Allow counts a request of caller, which is the id of a person or account, or what [Address] returns. It
// sets the RateLimit headers, and returns [ErrLimited] with Retry-After if the caller has exceeded its rate.
func (l *Limit) Allow(ctx context.Context, header http.Header, caller string) error {
	if l == nil {
		return nil
	}
	limited, state, err := l.limiter.RateLimitCtx(ctx, caller, 1)
	if err != nil {
		return fmt.Errorf("count request: %w", err)
	}
	header.Set("RateLimit-Limit", strconv.Itoa(state.Limit))
	header.Set("RateLimit-Remaining", strconv.Itoa(state.Remaining))
	header.Set("RateLimit-Reset", reply.Seconds(state.ResetAfter))
	if limited {
		l.refused.Add(1)
		header.Set("Retry-After", reply.Seconds(state.RetryAfter))
		return ErrLimited.After(state.RetryAfter)
	}
	return nil
}

// Return gives back the unit of a request that [Limit.Allow] has counted, and that turned out not to count.
func (l *Limit) Return(ctx context.Context, caller string) error {
	if l == nil {
		return nil
	}
	_, _, err := l.limiter.RateLimitCtx(ctx, caller, -1)
	return fault.Wrap(err, "return a request of %s", caller)
}

// Take takes n units of caller's, and returns the time until there are enough if there are too few.
// If n is above the limit, it takes the whole limit.
func (l *Limit) Take(ctx context.Context, caller string, n int) (wait time.Duration, err error) {
	if l == nil {
		return 0, nil
	}
	limited, state, err := l.limiter.RateLimitCtx(ctx, caller, min(n, l.units))
	switch {
	case err != nil:
		return 0, fmt.Errorf("count %d of %s: %w", n, caller, err)
	case limited:
		l.refused.Add(1)
		return state.RetryAfter, nil
	}
	return 0, nil
}

// Wait returns the time until there are n units of caller's, 0 if there are. It takes none, and counts
// as a refusal if there are too few.
func (l *Limit) Wait(ctx context.Context, caller string, n int) (time.Duration, error) {
	if l == nil {
		return 0, nil
	}
	_, state, err := l.limiter.RateLimitCtx(ctx, caller, 0)
	if err != nil {
		return 0, fmt.Errorf("read count of %s: %w", caller, err)
	}
	free := time.Duration(l.units-min(n, l.units)) * l.every
	if state.ResetAfter <= free {
		return 0, nil
	}
	l.refused.Add(1)
	return state.ResetAfter - free, nil
}

// TakeShare is Take for a workspace, of whose units each submitter may use three quarters, so that
// none locks out the others. What the workspace has no room for does not count for the submitter.
func (l *Limit) TakeShare(ctx context.Context, workspace, submitter events.ID, n int) (wait time.Duration, err error) {
	all := workspace.String()
	wait, err = l.Wait(ctx, all, n)
	if err == nil && wait == 0 {
		wait, err = l.Take(ctx, all+"/"+submitter.String(), n*4/3)
	}
	if err == nil && wait == 0 {
		wait, err = l.Take(ctx, all, n)
	}
	return wait, err
}

// networkBits is the length of the IPv6 prefix that counts as one caller, since a customer usually gets
// a whole /64.
const networkBits = 64

// Address returns the key of an unauthenticated caller: the IPv4 address, or the network of the
// IPv6 address.
func Address(r *http.Request) string { return Network(r, networkBits) }

// Network is like Address, with a network of another prefix length: many customers get more than one /64.
func Network(r *http.Request, bits int) string {
	text := middleware.Address(r)
	if ip, err := netip.ParseAddr(text); err == nil {
		text = ip.Unmap().String()
		if ip.Unmap().Is6() {
			text = netip.PrefixFrom(ip.WithZone(""), bits).Masked().String()
		}
	}
	return "address " + text
}

// Refused returns the number of requests refused so far.
func (l *Limit) Refused() int64 {
	if l == nil {
		return 0
	}
	return l.refused.Load()
}
