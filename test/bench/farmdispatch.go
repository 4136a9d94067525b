package main

import (
	"context"
	"log/slog"
	"time"

	"svc/events"
	"svc/events/store"
	"svc/farm/wire"
)

const startGoal = 100 // ms

// farmDispatch measures the time from the answer to a submission, at another process than the one
// to which an idle runner is connected, until the runner's report of the start is acknowledged.
func farmDispatch(ctx context.Context, s *suite) (result, error) {
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
	list, err := f.enrolMachines(ctx, events.NewID(time.Now()), 1, 1)
	if err != nil {
		return result{}, err
	}
	service, err := s.startFarmService(ctx, db)
	if err != nil {
		return result{}, err
	}
	defer service.stop()
	a, err := dial(ctx, service.addr, list[0], 1)
	if err != nil {
		return result{}, err
	}
	defer closeAll([]*agent{a})
	var took []float64
	for i := range 300 {
		ms, err := timeStart(ctx, f, a)
		if err != nil {
			return result{}, err
		}
		if i >= 20 {
			took = append(took, ms)
		}
	}
	p99 := percentile(took, 0.99)
	note := map[string]any{"p50_ms": twoDecimals(percentile(took, 0.5)), "p99_ms": twoDecimals(p99)}
	return result{Ratios: []float64{p99 / startGoal}, Note: note}, nil
}

// timeStart submits a job, runs it to its end, and returns the milliseconds from the submission's answer to the
// acknowledgement of its start.
func timeStart(ctx context.Context, f *farm, a *agent) (ms float64, err error) {
	if _, err := f.submit(ctx, a.workspace); err != nil {
		return 0, err
	}
	from := time.Now()
	e, err := a.receive(ctx, wire.TypeAssign)
	if err != nil {
		return 0, err
	}
	job, err := events.ParseID(e.Job)
	if err != nil {
		return 0, err
	}
	if err := a.send(wire.Accept{}, job, e.Epoch, 0); err != nil {
		return 0, err
	}
	if _, err := a.receive(ctx, wire.TypeAck); err != nil { // the job is this runner's
		return 0, err
	}
	if err := a.send(wire.Event{Kind: wire.EventStarted}, job, e.Epoch, 1); err != nil {
		return 0, err
	}
	if _, err := a.receive(ctx, wire.TypeAck); err != nil {
		return 0, err
	}
	ms = float64(time.Since(from).Microseconds()) / 1000
	if err := a.send(wire.Event{Kind: wire.EventFinished, Outcome: "succeeded"}, job, e.Epoch, 2); err != nil {
		return 0, err
	}
	_, err = a.receive(ctx, wire.TypeAck)
	return ms, err
}
