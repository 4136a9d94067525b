package limit_test

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/http/limit"
)

// ask counts a request of a caller, and returns the headers.
func ask(t *testing.T, l *limit.Limit, caller string) (http.Header, error) {
	header := http.Header{}
	return header, l.Allow(header, caller)
}

// What is given back can be used again, and no more than that.
func TestReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := perMinute(t, 2)
		for range 20 {
			_, err := ask(t, l, "zoe")
			require.NoError(t, err)
			l.Return("zoe")
		}
		for _, want := range []error{nil, nil, limit.ErrLimited} {
			_, err := ask(t, l, "zoe")
			require.ErrorIs(t, err, want)
		}
		l.Return("zoe")
		_, err := ask(t, l, "zoe")
		require.NoError(t, err)
		_, err = ask(t, l, "zoe")
		require.ErrorIs(t, err, limit.ErrLimited)
		time.Sleep(time.Hour)
		l.Return("zoe") // after its unit was free anyway
		for _, want := range []error{nil, nil, limit.ErrLimited} {
			_, err := ask(t, l, "zoe")
			require.ErrorIs(t, err, want)
		}
		var none *limit.Limit
		none.Return("zoe")
	})
}

func perMinute(t *testing.T, n int) *limit.Limit {
	l, err := limit.PerMinute(n)
	require.NoError(t, err)
	return l
}

func TestBurstOfOneMinuteIsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := perMinute(t, 10)
		for i := range 10 {
			header, err := ask(t, l, "zoe")
			require.NoError(t, err)
			require.Equal(t, http.Header{
				"Ratelimit-Limit":     {"10"},
				"Ratelimit-Remaining": {strconv.Itoa(9 - i)},
				"Ratelimit-Reset":     {strconv.Itoa(6 * (i + 1))}, // seconds until all ten are free again
			}, header)
		}
		header, err := ask(t, l, "zoe")
		require.ErrorIs(t, err, limit.ErrLimited)
		require.Equal(t, http.Header{
			"Ratelimit-Limit": {"10"}, "Ratelimit-Remaining": {"0"}, "Ratelimit-Reset": {"60"}, "Retry-After": {"6"},
		}, header)
		require.EqualValues(t, 1, l.Refused())
	})
}

func TestRetryAfterIsLongEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := perMinute(t, 7) // does not divide 60 seconds
		for range 7 {
			_, err := ask(t, l, "zoe")
			require.NoError(t, err)
		}
		for range 3 {
			header, err := ask(t, l, "zoe")
			require.ErrorIs(t, err, limit.ErrLimited)
			seconds, err := strconv.Atoi(header.Get("Retry-After"))
			require.NoError(t, err)
			require.Positive(t, seconds)
			time.Sleep(time.Duration(seconds) * time.Second)
			_, err = ask(t, l, "zoe")
			require.NoError(t, err)
		}
	})
}

func TestRefusedRequestsDoNotExtendWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := perMinute(t, 1)
		_, err := ask(t, l, "zoe")
		require.NoError(t, err)
		for range 5 {
			time.Sleep(10 * time.Second)
			_, err = ask(t, l, "zoe")
			require.ErrorIs(t, err, limit.ErrLimited)
		}
		time.Sleep(10 * time.Second)
		_, err = ask(t, l, "zoe")
		require.NoError(t, err)
	})
}

func TestBurstIsAllowedAgainAfterMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := perMinute(t, 10)
		for range 2 {
			for range 10 {
				_, err := ask(t, l, "zoe")
				require.NoError(t, err)
			}
			_, err := ask(t, l, "zoe")
			require.ErrorIs(t, err, limit.ErrLimited)
			time.Sleep(time.Minute)
		}
	})
}

func TestCallersHaveSeparateLimits(t *testing.T) {
	l := perMinute(t, 1)
	for _, caller := range []string{"zoe", "yan", ""} {
		_, err := ask(t, l, caller)
		require.NoError(t, err, caller)
	}
	_, err := ask(t, l, "zoe")
	require.ErrorIs(t, err, limit.ErrLimited)
}

func TestLimitsAreIndependent(t *testing.T) {
	for _, l := range []*limit.Limit{perMinute(t, 1), perMinute(t, 1)} {
		_, err := ask(t, l, "zoe")
		require.NoError(t, err)
	}
}

func TestNoLimit(t *testing.T) {
	l := perMinute(t, 0)
	require.Nil(t, l)
	for range 1000 {
		header, err := ask(t, l, "zoe")
		require.NoError(t, err)
		require.Empty(t, header, "nobody is told of a limit that there is not")
	}
}

func TestLimitCannotBeNegative(t *testing.T) {
	_, err := limit.PerMinute(-1)
	require.ErrorContains(t, err, "limit of -1")
}

// Concurrent requests of one caller are each counted exactly once, and none fails because of
// another.
func TestLimitUnderConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its clock does not advance meanwhile
		const allowed, callers, each = 500, 50, 40
		l := perMinute(t, allowed)
		var passed, refused atomic.Int64
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				for range each {
					switch _, err := ask(t, l, "zoe"); {
					case err == nil:
						passed.Add(1)
					case errors.Is(err, limit.ErrLimited):
						refused.Add(1)
					default:
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		require.EqualValues(t, allowed, passed.Load())
		require.EqualValues(t, callers*each-allowed, refused.Load())
	})
}

func TestErrLimitedIsA429(t *testing.T) {
	require.Equal(t, http.StatusTooManyRequests, limit.ErrLimited.Kind.Status())
	require.Equal(t, "rate_limited", limit.ErrLimited.Code)
}

func TestSubmittersShareUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := limit.PerDay(24)
		require.NoError(t, err)
		acme, globex, ann, bob := events.ID{1}, events.ID{2}, events.ID{3}, events.ID{4}
		take := func(workspace, submitter events.ID, n int) time.Duration {
			return l.TakeShare(t.Context(), workspace, submitter, n)
		}
		require.Zero(t, take(acme, ann, 12))
		require.Equal(t, 8*time.Hour, take(acme, ann, 12))
		require.Zero(t, take(acme, ann, 6), "what was refused counts for nobody")
		for range 2 {
			require.Equal(t, 6*time.Hour, take(acme, bob, 12), "of the workspace")
		}
		require.Zero(t, take(acme, bob, 6), "which did not count for the submitter")
		require.Equal(t, time.Hour, take(acme, events.ID{}, 1))
		require.Zero(t, take(globex, ann, 18))
		none, err := limit.PerDay(0)
		require.NoError(t, err)
		require.Zero(t, none.TakeShare(t.Context(), acme, ann, 100))
	})
}

func TestUnitsOfADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := limit.PerDay(24)
		require.NoError(t, err)
		take := l.Take
		waits := func(n int) time.Duration { return l.Wait("acme", n) }
		require.Zero(t, waits(24))
		require.Zero(t, take("acme", 20))
		for range 2 {
			require.Zero(t, waits(4), "asking takes nothing")
			require.Equal(t, time.Hour, waits(5))
			require.Equal(t, 20*time.Hour, waits(100))
		}
		require.Equal(t, time.Hour, take("acme", 5))
		require.Zero(t, take("acme", 4), "a refused one counts for nothing")
		require.Equal(t, 24*time.Hour, take("acme", 100), "a larger job counts as the whole limit")
		require.Zero(t, take("globex", 100))
		time.Sleep(2 * time.Hour)
		require.Zero(t, take("acme", 2))
		require.EqualValues(t, 6, l.Refused(), "two that took, four that asked")
		none, err := limit.PerDay(0)
		require.NoError(t, err)
		require.Zero(t, none.Take("acme", 100))
	})
}
