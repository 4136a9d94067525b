package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/dev/pgserver"
	"svc/migrations"
)

// A suite is the PostgreSQL server that all benches share. Each bench creates databases of
// its own there.
type suite struct {
	server    *pgserver.Server
	dir       string // removed at the end; empty if it is kept
	databases int
}

// newSuite starts PostgreSQL in dir or, if that is empty, in a temporary folder.
func newSuite(ctx context.Context, dir string) (s *suite, err error) {
	s = &suite{}
	if dir == "" {
		if s.dir, err = os.MkdirTemp("", "bench-"); err != nil {
			return nil, err
		}
		dir = s.dir
	}
	s.server, err = pgserver.Start(ctx, pgserver.Config{Dir: dir, Durable: true})
	if err != nil && s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return s, err
}

func (s *suite) close() error {
	err := s.server.Stop()
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// connections is the number of connections of a pool, and of concurrent callers.
const connections = 32

// database creates a migrated database and returns a pool on it.
func (s *suite) database(ctx context.Context) (*pgxpool.Pool, error) {
	s.databases++
	name := fmt.Sprintf("bench_%d_%d", os.Getpid(), s.databases)
	admin, err := pgx.Connect(ctx, s.server.URL("postgres"))
	if err != nil {
		return nil, err
	}
	defer admin.Close(ctx)
	if _, err := admin.Exec(ctx, "create database "+name); err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, s.server.URL(name))
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	if err := migrations.Migrate(ctx, conn, io.Discard); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(s.server.URL(name))
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns = connections, connections
	return pgxpool.NewWithConfig(ctx, config)
}

// A work is a number of operations and how long they took.
type work struct {
	done int
	took time.Duration
}

// rate returns the operations per second.
func (w work) rate() float64 { return float64(w.done) / w.took.Seconds() }

// A turnFunc is a turn of one side.
type turnFunc func() (work, error)

// measure lets workers repeat an operation for a turn.
func measure(ctx context.Context, workers int, do func(ctx context.Context, worker int) error) (work, error) {
	return measureFor(ctx, *turn, workers, do)
}

// measureFor is like [measure] for a turn of another length.
func measureFor(
	ctx context.Context, turn time.Duration, workers int, do func(ctx context.Context, worker int) error,
) (work, error) {
	var (
		group sync.WaitGroup
		done  atomic.Int64
		once  sync.Once
		first error
		over  atomic.Bool
	)
	from := time.Now()
	for w := range workers {
		group.Go(func() {
			for !over.Load() {
				if err := do(ctx, w); err != nil {
					once.Do(func() { first = err })
					over.Store(true)
					return
				}
				done.Add(1)
			}
		})
	}
	select {
	case <-ctx.Done():
	case <-time.After(turn):
	}
	over.Store(true)
	group.Wait()
	return work{int(done.Load()), time.Since(from)}, first
}

// A measurement is a rate in operations per second, and the processor time of all processes
// per operation. On a machine that does other work as well, processor time is more reliable.
type measurement struct {
	rate    float64
	cpuEach time.Duration
}

// timeTurn measures a turn. Processor time is that of the whole turn, also of what follows the operations.
func timeTurn(turn turnFunc) (r measurement, err error) {
	before, err := processorTime()
	if err != nil {
		return r, err
	}
	w, err := turn()
	if err != nil {
		return r, err
	}
	after, err := processorTime()
	return measurement{w.rate(), time.Duration(float64(after-before) / float64(w.done))}, err
}

// compare lets both sides take turns, after a first round that does not count. A ratio is how
// much faster ours is than theirs. A bench of growth passes the small size as ours, so its
// ratio is how much longer an operation takes at the large size.
func compare(ctx context.Context, ours, theirs turnFunc) (r result, err error) {
	var rates [2][]float64
	var each [2][]time.Duration
	for i := range *rounds + 1 {
		for side, turn := range []turnFunc{ours, theirs} {
			x, err := timeTurn(turn)
			if err != nil {
				return r, err
			}
			if i > 0 {
				rates[side], each[side] = append(rates[side], x.rate), append(each[side], x.cpuEach)
			}
		}
		if i > 0 {
			r.Ratios = append(r.Ratios, rates[0][i-1]/rates[1][i-1])
			r.CPURatios = append(r.CPURatios, float64(each[0][i-1])/float64(each[1][i-1]))
		}
	}
	r.Note = map[string]any{
		"ours": int(median(rates[0])), "ours_cpu": median(each[0]).Round(100 * time.Nanosecond).String(),
		"theirs": int(median(rates[1])), "theirs_cpu": median(each[1]).Round(100 * time.Nanosecond).String(),
	}
	return r, ctx.Err()
}

// compareTimes is like [compare] for few operations that take long: a ratio is how much longer ours takes.
func compareTimes(ctx context.Context, ours, theirs turnFunc) (r result, err error) {
	var ms [2][]float64
	var each [2][]time.Duration
	for i := range *rounds + 1 {
		for side, turn := range []turnFunc{ours, theirs} {
			x, err := timeTurn(turn)
			if err != nil {
				return r, err
			}
			if i > 0 {
				ms[side], each[side] = append(ms[side], 1000/x.rate), append(each[side], x.cpuEach)
			}
		}
		if i > 0 {
			r.Ratios = append(r.Ratios, ms[0][i-1]/ms[1][i-1])
			r.CPURatios = append(r.CPURatios, float64(each[0][i-1])/float64(each[1][i-1]))
		}
	}
	r.Note = map[string]any{
		"fastest": twoDecimals(slices.Min(ms[0]) / slices.Min(ms[1])), // which other work on the machine disturbs least
		"ours_ms": int(median(ms[0])), "ours_cpu": median(each[0]).Round(time.Millisecond).String(),
		"theirs_ms": int(median(ms[1])), "theirs_cpu": median(each[1]).Round(time.Millisecond).String(),
	}
	return r, ctx.Err()
}
