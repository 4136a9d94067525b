package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	strangers   = 40                     // service accounts of one person, each with two reads and a stream under way
	strangerGap = 200 * time.Millisecond // until one that was refused asks again
	callerGap   = 15 * time.Millisecond  // of somebody else between two requests
)

// fairly compares how long requests of a workspace take, at the 95th percentile, while a
// stranger insists on something, with how long they take otherwise.
func fairly(storm func(context.Context, *pgxpool.Pool) ([]insisted, error), env ...string) func(context.Context, *site) (result, error) {
	return func(ctx context.Context, s *site) (r result, err error) {
		db, err := s.database(ctx)
		if err != nil {
			return r, err
		}
		defer db.Close()
		one, err := newReader(ctx, db, 10_000, 1000)
		if err != nil {
			return r, err
		}
		wanted, err := storm(ctx, db)
		if err != nil {
			return r, err
		}
		server, err := s.rest(ctx, db.Config().ConnString(), env...)
		if err != nil {
			return r, err
		}
		defer server.stop()
		return inTurns(ctx, server, one, wanted)
	}
}

// inTurns measures calm and storm in turns.
func inTurns(ctx context.Context, server *rest, one *reader, wanted []insisted) (r result, err error) {
	callers := newCallers(server.addr)
	defer callers.close()
	var calms, storms []float64
	for range *rounds {
		before, err := latency(callers, one.asked())
		if err != nil {
			return r, err
		}
		end, err := storm(ctx, server.addr, wanted)
		if err != nil {
			return r, err
		}
		during, err := latency(callers, one.asked())
		end()
		if err != nil {
			return r, fmt.Errorf("while a stranger asks: %w", err)
		}
		calms, storms = append(calms, before), append(storms, during)
		r.Ratios = append(r.Ratios, during/before)
	}
	peak, err := server.peak()
	r.Note = map[string]any{"calm_ms": median(calms), "storm_ms": median(storms), "peak_mib": peak}
	return r, errors.Join(err, ctx.Err())
}

// latency returns the 95th percentile of how many milliseconds a request takes of
// four who ask again and again with a pause. None may be refused.
func latency(callers *callers, ask []byte) (float64, error) {
	var mu sync.Mutex
	var took []float64
	var first error
	var all sync.WaitGroup
	end := time.Now().Add(*turn)
	for worker := range 4 {
		all.Go(func() {
			for time.Now().Before(end) {
				from := time.Now()
				err := callers.send(worker, ask, http.StatusOK)
				mu.Lock()
				took = append(took, float64(time.Since(from).Microseconds())/1000)
				if err != nil && first == nil {
					first = err
				}
				mu.Unlock()
				if err != nil {
					return
				}
				<-time.After(callerGap)
			}
		})
	}
	all.Wait()
	return percentile(took, 0.95), first
}
