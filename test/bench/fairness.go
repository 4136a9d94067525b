package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	stormAccounts   = 40                     // service accounts of readStorm, each with two reads and a stream at once
	stormRetryPause = 200 * time.Millisecond // of the storm, after a request was refused
	readerPause     = 15 * time.Millisecond  // between two measured requests of a caller
)

// fairness returns a bench that compares the latency of reads in one workspace while another tenant
// floods the service with requests (a storm), with their latency otherwise.
func fairness(newStorm stormFunc, env ...string) func(context.Context, *suite) (result, error) {
	return func(ctx context.Context, s *suite) (r result, err error) {
		db, err := s.database(ctx)
		if err != nil {
			return r, err
		}
		defer db.Close()
		victim, err := newReader(ctx, db, 10_000, 1000)
		if err != nil {
			return r, err
		}
		requests, err := newStorm(ctx, db)
		if err != nil {
			return r, err
		}
		server, err := s.startRest(ctx, db.Config().ConnString(), env...)
		if err != nil {
			return r, err
		}
		defer server.stop()
		r, all, err := compareLatencies(ctx, server, victim, requests)
		if err == nil && len(env) == 0 && all.Refusals > all.Answers/2 { // with a rate limit they are part of what is measured
			err = fmt.Errorf("%d of %d requests of the storm were refused", all.Refusals, all.Answers)
		}
		return r, err
	}
}

// compareLatencies alternates between rounds without and with the storm.
func compareLatencies(
	ctx context.Context, server *serviceProcess, victim *reader, requests []stormRequest,
) (r result, all stormTally, err error) {
	callers := newCallers(server.addr)
	defer callers.close()
	var calms, storms []float64
	for range *rounds {
		before, err := p95Latency(callers, victim.listRequest())
		if err != nil {
			return r, all, err
		}
		end, err := startStorm(ctx, server.addr, requests)
		if err != nil {
			return r, all, err
		}
		during, err := p95Latency(callers, victim.listRequest())
		tally, failed := end()
		if err := errors.Join(err, failed); err != nil {
			return r, all, fmt.Errorf("during the storm: %w", err)
		}
		all.Answers, all.Refusals = all.Answers+tally.Answers, all.Refusals+tally.Refusals
		calms, storms = append(calms, before), append(storms, during)
		r.Ratios = append(r.Ratios, during/before)
	}
	peak, err := server.peakMemory()
	r.Note = map[string]any{"calm_ms": median(calms), "storm_ms": median(storms), "peak_mib": peak,
		"answers": all.Answers, "refusals": all.Refusals}
	return r, all, errors.Join(err, ctx.Err())
}

// p95Latency returns the 95th percentile of the latency in milliseconds of a request that four
// callers repeat with a pause. Any answer but 200 is an error.
func p95Latency(callers *callers, request []byte) (float64, error) {
	var mu sync.Mutex
	var took []float64
	var first error
	var all sync.WaitGroup
	end := time.Now().Add(*turn)
	for worker := range 4 {
		all.Go(func() {
			for time.Now().Before(end) {
				from := time.Now()
				err := callers.send(worker, request, http.StatusOK)
				mu.Lock()
				took = append(took, float64(time.Since(from).Microseconds())/1000)
				if err != nil && first == nil {
					first = err
				}
				mu.Unlock()
				if err != nil {
					return
				}
				<-time.After(readerPause)
			}
		})
	}
	all.Wait()
	return percentile(took, 0.95), first
}
