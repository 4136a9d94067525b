package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"svc/events"
	"svc/farm/wire"
)

const (
	idleAgents     = 9_000 // each takes two of the 20,000 files that a process may open here
	idleWorkspaces = 10
	memoryGoal     = 30.0 // KiB
	heartbeatGoal  = 1000 // ms
)

// farmAgents measures the memory of the service per idle agent, and the latency of answers to
// heartbeats. The ratio is that of the worse of both to its goal.
func farmAgents(ctx context.Context, s *suite) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	f := newFarm(db, notifyNobody)
	defer f.log.Close()
	n := int(float64(idleAgents) * *scale)
	var list []machine
	for range idleWorkspaces {
		more, err := f.enrolMachines(ctx, events.NewID(time.Now()), n/idleWorkspaces, 1)
		if err != nil {
			return result{}, err
		}
		list = append(list, more...)
	}
	service, err := s.startFarmService(ctx, db)
	if err != nil {
		return result{}, err
	}
	defer service.stop()
	warm, err := dialAll(ctx, service.addr, list[:100], 1)
	if err != nil {
		return result{}, err
	}
	before, err := service.memory()
	if err != nil {
		return result{}, err
	}
	agents, err := dialAll(ctx, service.addr, list[100:], 1)
	agents = append(agents, warm...)
	defer closeAll(agents)
	if err != nil {
		return result{}, err
	}
	var took []float64
	for range 3 {
		more, err := sendHeartbeats(ctx, agents)
		if err != nil {
			return result{}, err
		}
		took = append(took, more...)
	}
	after, err := service.memory()
	if err != nil {
		return result{}, err
	}
	each, p99 := (after-before)*1024/float64(len(agents)-100), percentile(took, 0.99)
	return result{Ratios: []float64{max(each/memoryGoal, p99/heartbeatGoal)}, Note: map[string]any{
		"agents": len(agents), "KiB_each": fmt.Sprintf("%.1f", each), "heartbeat_p99_ms": int(p99), "MiB": int(after),
	}}, nil
}

// sendHeartbeats sends one heartbeat per agent, spread over wire.HeartbeatEvery, and returns the latencies of
// the answers in milliseconds.
func sendHeartbeats(ctx context.Context, agents []*agent) ([]float64, error) {
	var mu sync.Mutex
	var took []float64
	var waiting sync.WaitGroup
	pause := wire.HeartbeatEvery / time.Duration(len(agents))
	begin := time.Now()
	for i, a := range agents {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * pause)))
		from := time.Now()
		waiting.Add(1)
		a.onHeartbeatAck = func(int64) {
			mu.Lock()
			defer mu.Unlock()
			took = append(took, float64(time.Since(from).Microseconds())/1000)
			waiting.Done()
		}
		if err := a.send(wire.Heartbeat{Seq: 1, Free: 1}, events.ID{}, 0, 0); err != nil {
			return nil, err
		}
	}
	done := make(chan struct{})
	go func() { waiting.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	case <-time.After(time.Minute):
		mu.Lock()
		defer mu.Unlock()
		return nil, fmt.Errorf("%d of %d heartbeats were answered", len(took), len(agents))
	}
	return took, ctx.Err()
}
