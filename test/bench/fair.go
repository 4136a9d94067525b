package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/commands"
	"svc/events"
	"svc/events/store"
	"svc/projections"
)

const (
	strangers   = 40                     // service accounts of one person, each with a read and a stream under way
	strangerGap = 200 * time.Millisecond // until one that was refused asks again
	callerGap   = 15 * time.Millisecond  // of somebody else between two requests
)

// fairShares compares how long requests of a workspace take, at the 95th percentile,
// while a stranger asks for all they can get, with how long they take otherwise.
func fairShares(ctx context.Context, s *site) (r result, err error) {
	db, err := s.database(ctx)
	if err != nil {
		return r, err
	}
	defer db.Close()
	one, err := newReader(ctx, db, 10_000, 1000)
	if err != nil {
		return r, err
	}
	tokens, err := manyTokens(ctx, db)
	if err != nil {
		return r, err
	}
	server, err := s.rest(ctx, db.Config().ConnString())
	if err != nil {
		return r, err
	}
	defer server.stop()
	callers := newCallers(server.addr)
	defer callers.close()
	var calms, storms []float64
	for range *rounds {
		before, err := latency(callers, one.asked())
		if err != nil {
			return r, err
		}
		end, err := storm(ctx, server.addr, tokens)
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
	r.Note = map[string]any{"calm_ms": median(calms), "storm_ms": median(storms)}
	return r, ctx.Err()
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

// manyTokens returns tokens of one person, of service accounts in a workspace with
// runs to read.
func manyTokens(ctx context.Context, db *pgxpool.Pool) (list []string, err error) {
	log := store.New(db, projections.Inline(), nothing)
	defer log.Close()
	w, err := newWorkspace(ctx, commands.New(log, time.Now))
	if err != nil {
		return nil, err
	}
	for i := range strangers {
		token := commands.NewServiceToken()
		_, err := w.handler.CreateServiceAccount(ctx, commands.CreateServiceAccount{
			Meta: w.meta(), Account: events.NewID(time.Now()), Token: token, Name: fmt.Sprint("bot-", i), Scopes: []events.Scope{events.ReadAPI},
		})
		if err != nil {
			return nil, err
		}
		list = append(list, token.Reveal())
	}
	return list, fillRuns(ctx, db, w.id, 10_000, 1000)
}

// storm starts a process of strangers, and returns what stops it. It comes after all
// else on this machine: strangers' own processors would be elsewhere.
func storm(ctx context.Context, addr string, tokens []string) (end func(), err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	process := exec.CommandContext(ctx, "nice", "-n", "19", program, "-storm", addr)
	process.Stdin = strings.NewReader(strings.Join(tokens, "\n"))
	process.Stderr = os.Stderr
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start the strangers: %w", err)
	}
	return func() {
		_ = process.Process.Signal(syscall.SIGTERM)
		_ = process.Wait()
	}, nil
}

// storming asks with each token, a line of in, for runs and for live updates, until it
// is told to stop.
func storming(ctx context.Context, addr string, in io.Reader) error {
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 3 * strangers}}
	var asking sync.WaitGroup
	defer asking.Wait()
	tokens := bufio.NewScanner(in)
	for tokens.Scan() {
		token := tokens.Text()
		for _, path := range []string{"/api/v1/runs?status=active", "/api/v1/runs?status=active", "/api/v1/events/stream"} {
			asking.Go(func() {
				for ctx.Err() == nil {
					if !insist(ctx, client, "http://"+addr+path, token) {
						wait(ctx, strangerGap)
					}
				}
			})
		}
	}
	return tokens.Err()
}

// insist reports whether it was answered.
func insist(ctx context.Context, client *http.Client, url, token string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := client.Do(r)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err == nil && res.StatusCode == http.StatusOK
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
