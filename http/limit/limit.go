// Package limit limits what each caller uses in a time, such as requests a minute or bytes a day.
package limit

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"svc/events"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/reply"
	"svc/lru"
)

// ErrLimited says that a caller has exceeded its rate.
var ErrLimited = fault.New(fault.RateLimited, "rate_limited", "Too many requests. Wait as long as Retry-After says.")

// callers is how many callers a limit remembers. It forgets the least recently seen ones.
const callers = 100_000

// A Limit is a rate of requests, or of other units, for each caller. It is kept in the process, so each
// replica has its own. A nil Limit allows everything.
type Limit struct {
	units   int
	every   time.Duration // after which one more unit is allowed
	buckets *lru.Cache[string, *rate.Limiter]
	refused atomic.Int64
}

// PerMinute returns a limit of n requests a minute, all of which may come in one burst. For n = 0
// it returns nil, which is no limit.
func PerMinute(n int) (*Limit, error) { return newLimit(n, time.Minute) }

// PerDay is like PerMinute, for n units in any 24 hours.
func PerDay(n int) (*Limit, error) { return newLimit(n, 24*time.Hour) }

func newLimit(n int, period time.Duration) (*Limit, error) {
	switch {
	case n < 0:
		return nil, fmt.Errorf("make limit of %d: want 0 or more", n)
	case n == 0:
		return nil, nil
	}
	return &Limit{units: n, every: period / time.Duration(n), buckets: lru.New[string, *rate.Limiter](callers)}, nil
}

// use takes n of a caller's units if there are as many. It returns the time until all units are there again.
func (l *Limit) use(caller string, n int) (taken bool, full time.Duration) {
	bucket, ok := l.buckets.Get(caller)
	if !ok {
		bucket = rate.NewLimiter(rate.Every(l.every), l.units)
		if known, ok, _ := l.buckets.PeekOrAdd(caller, bucket); ok {
			bucket = known
		}
	}
	now := time.Now()
	taken = bucket.AllowN(now, n)
	return taken, time.Duration(math.Round((float64(l.units) - bucket.TokensAt(now)) * float64(l.every)))
}

// Allow counts a request of caller, which is the id of a person or account, or what [Address] returns. It
// sets the RateLimit headers, and returns [ErrLimited] with Retry-After if the caller has exceeded its rate.
func (l *Limit) Allow(header http.Header, caller string) error {
	if l == nil {
		return nil
	}
	allowed, full := l.use(caller, 1)
	left := time.Duration(l.units)*l.every - full
	header.Set("RateLimit-Limit", strconv.Itoa(l.units))
	header.Set("RateLimit-Remaining", strconv.Itoa(int(left/l.every)))
	header.Set("RateLimit-Reset", reply.Seconds(full))
	if allowed {
		return nil
	}
	l.refused.Add(1)
	header.Set("Retry-After", reply.Seconds(l.every-left))
	return ErrLimited.After(l.every - left)
}

// Return gives back the unit of a request that [Limit.Allow] has counted, and that turned out not to count.
func (l *Limit) Return(caller string) {
	if l != nil {
		l.use(caller, -1)
	}
}

// Take takes n units of caller's, and returns the time until there are enough if there are too few.
// If n is above the limit, it takes the whole limit.
func (l *Limit) Take(caller string, n int) (wait time.Duration) {
	if l == nil {
		return 0
	}
	n = min(n, l.units)
	taken, full := l.use(caller, n)
	if taken {
		return 0
	}
	l.refused.Add(1)
	return full - time.Duration(l.units-n)*l.every
}

// Wait returns the time until there are n units of caller's, 0 if there are. It takes none, and counts
// as a refusal if there are too few.
func (l *Limit) Wait(caller string, n int) (wait time.Duration) {
	if l == nil {
		return 0
	}
	_, full := l.use(caller, 0)
	wait = max(0, full-time.Duration(l.units-min(n, l.units))*l.every)
	if wait > 0 {
		l.refused.Add(1)
	}
	return wait
}

// TakeShare is Take for a workspace, of whose units each submitter may use three quarters, so that
// none locks out the others. What the workspace has no room for does not count for the submitter.
func (l *Limit) TakeShare(_ context.Context, workspace, submitter events.ID, n int) (wait time.Duration) {
	all := workspace.String()
	if wait = l.Wait(all, n); wait == 0 {
		wait = l.Take(all+"/"+submitter.String(), n*4/3)
	}
	if wait == 0 {
		wait = l.Take(all, n)
	}
	return wait
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
