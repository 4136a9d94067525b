// Package limit keeps callers from asking too often.
package limit

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"

	"svc/events"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/reply"
)

// ErrLimited says that a caller has to wait.
var ErrLimited = fault.New(fault.RateLimited, "rate_limited", "Too many requests. Wait as long as Retry-After says.")

// callers is how many callers a limit remembers; it forgets the ones that were
// quiet longest.
const callers = 100_000

// tries is how often at most a request is counted anew because another one of its
// caller's was counted at the same moment.
const tries = 10_000

// A Limit is a number of requests a minute, for each caller by itself. It is
// kept in the process: each replica has its own. A nil Limit lets all pass.
type Limit struct {
	limiter *throttled.GCRARateLimiterCtx
	refused atomic.Int64
}

// PerMinute returns a limit of n requests a minute, all of which may come at
// once. n = 0 is no limit.
func PerMinute(n int) (*Limit, error) {
	if n == 0 {
		return nil, nil
	}
	store, err := memstore.NewCtx(callers)
	if err != nil {
		return nil, fmt.Errorf("limit of %d: %w", n, err)
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerMin(n), MaxBurst: n - 1})
	if err != nil {
		return nil, fmt.Errorf("limit of %d: %w", n, err)
	}
	limiter.SetMaxCASAttemptsLimit(tries)
	return &Limit{limiter: limiter}, nil
}

// Allow counts a request of caller, tells the caller by headers what is
// left, and returns [ErrLimited] if they have to wait.
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

// Caller is how a limit knows a person or a service account, by whichever door
// they come.
func Caller(id events.ID) string { return id.String() }

// network is how many bits of an IPv6 address are given to one customer at least.
// The rest is theirs to choose.
const network = 64

// Address is how a limit knows a caller who has not said, or shown, who they are:
// by an IPv4 address, or the network of an IPv6 one.
func Address(r *http.Request) string {
	text := middleware.Address(r)
	if ip, err := netip.ParseAddr(text); err == nil {
		text = ip.Unmap().String()
		if ip.Unmap().Is6() {
			text = netip.PrefixFrom(ip.WithZone(""), network).Masked().String()
		}
	}
	return "address " + text
}

// Refused returns how many requests had to wait so far.
func (l *Limit) Refused() int64 {
	if l == nil {
		return 0
	}
	return l.refused.Load()
}
