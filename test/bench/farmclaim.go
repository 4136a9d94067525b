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

const claimsPerTurn = 96 // jobs that are assigned in a turn

// farmClaim compares how long it takes to assign a job to a runner where 100,000 jobs wait, half
// of them for a label that no runner has, with how long it takes where 100 wait.
func farmClaim(ctx context.Context, s *suite) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	f := newFarm(db, notifyNobody)
	defer f.log.Close()
	large, small := events.NewID(time.Now()), events.NewID(time.Now())
	many := scaled(100_000)
	if err := f.submitMany(ctx, large, many/2, requireLabel("gpu=a100")); err != nil {
		return result{}, err
	}
	if err := f.submitMany(ctx, large, many/2); err != nil {
		return result{}, err
	}
	if _, err := db.Exec(ctx, `vacuum analyze`); err != nil {
		return result{}, err
	}
	service, err := s.startFarmService(ctx, db)
	if err != nil {
		return result{}, err
	}
	defer service.stop()
	var ratios, long, short []float64
	for range *rounds + 1 {
		msFew, err := f.timeClaims(ctx, service, small, true)
		if err != nil {
			return result{}, err
		}
		msMany, err := f.timeClaims(ctx, service, large, false)
		if err != nil {
			return result{}, err
		}
		ratios, long, short = append(ratios, msMany/msFew), append(long, msMany), append(short, msFew)
	}
	return result{Ratios: ratios[1:],
		Note: map[string]any{"queued": many, "ms_each": twoDecimals(median(long)), "ms_each_of_few": twoDecimals(median(short))}}, nil
}

// farmClaimKey compares how long a job takes to start where 100,000 others wait for the only slot of
// their concurrency key, with how long it takes where nothing else waits.
func farmClaimKey(ctx context.Context, s *suite) (result, error) {
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
	holder, err := f.submit(ctx, large, limitToOne("deploy"))
	if err == nil {
		err = f.submitMany(ctx, large, many, limitToOne("deploy"))
	}
	if err == nil { // makes the holder a job that runs forever
		_, err = db.Exec(ctx, `update jobs set state = 'running', slot = 1, due_at = null where workspace_id = $1 and job_id = $2`, large, holder)
	}
	if err == nil {
		_, err = db.Exec(ctx, `vacuum analyze`)
	}
	if err != nil {
		return result{}, err
	}
	service, err := s.startFarmService(ctx, db)
	if err != nil {
		return result{}, err
	}
	defer service.stop()
	var agents []*agent
	defer func() { closeAll(agents) }()
	for _, workspace := range []events.ID{large, small} {
		list, err := f.enrolMachines(ctx, workspace, 1, 1)
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
		msMany, err := medianStart(ctx, f, agents[0])
		if err != nil {
			return result{}, err
		}
		msFew, err := medianStart(ctx, f, agents[1])
		if err != nil {
			return result{}, err
		}
		ratios, behind, alone = append(ratios, msMany/msFew), append(behind, msMany), append(alone, msFew)
	}
	return result{Ratios: ratios[1:],
		Note: map[string]any{"queued": many, "ms_each": twoDecimals(median(behind)), "ms_each_alone": twoDecimals(median(alone))}}, nil
}

// medianStart returns the median time to start, in milliseconds, of 30 jobs that run one after the other.
func medianStart(ctx context.Context, f *farm, a *agent) (float64, error) {
	var took []float64
	for i := range 30 {
		if err := a.send(wire.Heartbeat{Seq: int64(i), Free: 1}, events.ID{}, 0, 0); err != nil {
			return 0, err
		}
		ms, err := timeStart(ctx, f, a)
		if err != nil {
			return 0, err
		}
		took = append(took, ms)
	}
	return median(took), nil
}

func twoDecimals(x float64) float64 { return float64(int(x*100)) / 100 }

// submitMany submits n jobs.
func (f *farm) submitMany(ctx context.Context, workspace events.ID, n int, change ...func(*events.JobSpec)) error {
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

// timeClaims connects two runners with half of claimsPerTurn slots each, and returns the milliseconds per job
// until all slots are assigned. With submit it submits 100 jobs first.
func (f *farm) timeClaims(ctx context.Context, service *serviceProcess, workspace events.ID, submit bool) (float64, error) {
	if submit {
		if err := f.submitMany(ctx, workspace, 100); err != nil {
			return 0, err
		}
	}
	list, err := f.enrolMachines(ctx, workspace, 2, claimsPerTurn/2)
	if err != nil {
		return 0, err
	}
	from := time.Now()
	agents, err := dialAll(ctx, service.addr, list, claimsPerTurn/2)
	defer closeAll(agents)
	if err != nil {
		return 0, err
	}
	var group errgroup.Group
	for _, a := range agents {
		group.Go(func() error {
			for range claimsPerTurn / 2 {
				if _, err := a.receive(ctx, wire.TypeAssign); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = group.Wait()
	each := float64(time.Since(from).Microseconds()) / 1000 / claimsPerTurn
	// Nobody declines the jobs: their leases expire, and the next turn enrolls its own runners.
	return each, err
}
