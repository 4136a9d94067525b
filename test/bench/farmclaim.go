package main

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"svc/events"
	"svc/events/store"
	"svc/farm/wire"
)

const claims = 96 // in a turn: what a runner, or two, take at once

// farmClaim compares how long it takes until jobs are with runners where 100,000 wait, half
// of them for a machine that there is not, with how long where 100 do.
func farmClaim(ctx context.Context, s *site) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	f := newFarm(db, nothing)
	defer f.log.Close()
	large, small := events.NewID(time.Now()), events.NewID(time.Now())
	many := scaled(100_000)
	if err := f.fill(ctx, large, many/2, requiring("gpu=a100")); err != nil {
		return result{}, err
	}
	if err := f.fill(ctx, large, many/2); err != nil {
		return result{}, err
	}
	if _, err := db.Exec(ctx, `vacuum analyze`); err != nil {
		return result{}, err
	}
	service, err := s.farmService(ctx, db)
	if err != nil {
		return result{}, err
	}
	defer service.stop()
	var ratios, long, short []float64
	for range *rounds + 1 {
		few, err := f.claims(ctx, service, small, true)
		if err != nil {
			return result{}, err
		}
		full, err := f.claims(ctx, service, large, false)
		if err != nil {
			return result{}, err
		}
		ratios, long, short = append(ratios, full/few), append(long, full), append(short, few)
	}
	return result{Ratios: ratios[1:],
		Note: map[string]any{"queued": many, "ms_each": round2(median(long)), "ms_each_of_few": round2(median(short))}}, nil
}

// farmClaimKey compares how long it takes until a job has started where 100,000 others wait for the
// only slot of their concurrency key, with how long where nothing else waits.
func farmClaimKey(ctx context.Context, s *site) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	hints := store.NewHints(db, db.Config().ConnConfig, slog.New(slog.DiscardHandler), func(events.ID) {})
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { hints.Run(running); close(ended) }()
	defer func() { stop(); <-ended }()
	f := newFarm(db, hints.Moved)
	defer f.log.Close()
	large, small := events.NewID(time.Now()), events.NewID(time.Now())
	many := scaled(100_000)
	holder, err := f.submit(ctx, large, oneOf("deploy"))
	if err == nil {
		err = f.fill(ctx, large, many, oneOf("deploy"))
	}
	if err == nil { // as if a runner had it that never ends it
		_, err = db.Exec(ctx, `update jobs set state = 'running', slot = 1, due_at = null where workspace_id = $1 and job_id = $2`, large, holder)
	}
	if err == nil {
		_, err = db.Exec(ctx, `vacuum analyze`)
	}
	if err != nil {
		return result{}, err
	}
	service, err := s.farmService(ctx, db)
	if err != nil {
		return result{}, err
	}
	defer service.stop()
	var agents []*agent
	defer func() { hangUp(agents) }()
	for _, workspace := range []events.ID{large, small} {
		list, err := f.machines(ctx, workspace, 1, 1)
		if err != nil {
			return result{}, err
		}
		a, err := dial(ctx, service.addr, list[0], 1)
		if err != nil {
			return result{}, err
		}
		agents = append(agents, a)
	}
	var ratios, behind, alone []float64
	for range *rounds + 1 {
		full, err := medianStart(ctx, f, agents[0])
		if err != nil {
			return result{}, err
		}
		few, err := medianStart(ctx, f, agents[1])
		if err != nil {
			return result{}, err
		}
		ratios, behind, alone = append(ratios, full/few), append(behind, full), append(alone, few)
	}
	return result{Ratios: ratios[1:],
		Note: map[string]any{"queued": many, "ms_each": round2(median(behind)), "ms_each_alone": round2(median(alone))}}, nil
}

// medianStart returns how many milliseconds a job took to start, of some one after the other.
func medianStart(ctx context.Context, f *farm, a *agent) (float64, error) {
	var took []float64
	for i := range 30 {
		if err := a.say(wire.Heartbeat{Seq: int64(i), Free: 1}, events.ID{}, 0, 0); err != nil {
			return 0, err
		}
		ms, err := started(ctx, f, a)
		if err != nil {
			return 0, err
		}
		took = append(took, ms)
	}
	return median(took), nil
}

func round2(x float64) float64 { return float64(int(x*100)) / 100 }

// fill lets jobs wait.
func (f *farm) fill(ctx context.Context, workspace events.ID, n int, change ...func(*events.JobSpec)) error {
	var group errgroup.Group
	group.SetLimit(2 * connections)
	for range n {
		group.Go(func() error {
			_, err := f.submit(ctx, workspace, change...)
			return err
		})
	}
	return group.Wait()
}

// claims returns how many milliseconds each of some jobs took to be with a runner that
// connects.
func (f *farm) claims(ctx context.Context, service *rest, workspace events.ID, fill bool) (float64, error) {
	if fill {
		if err := f.fill(ctx, workspace, 100); err != nil {
			return 0, err
		}
	}
	list, err := f.machines(ctx, workspace, 2, claims/2)
	if err != nil {
		return 0, err
	}
	from := time.Now()
	agents, err := dialAll(ctx, service.addr, list, claims/2)
	defer hangUp(agents)
	if err != nil {
		return 0, err
	}
	var group errgroup.Group
	for _, a := range agents {
		group.Go(func() error {
			for range claims / 2 {
				if _, err := a.next(ctx, wire.TypeAssign); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = group.Wait()
	each := float64(time.Since(from).Microseconds()) / 1000 / claims
	// They are declined by nobody: leases run out, and the next turn has runners of its own.
	return each, err
}
