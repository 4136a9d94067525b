package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/farm/wire"
)

const (
	ingestAgents     = 500
	ingestWorkspaces = 50
	ingestRows       = 128  // of a plain insert
	ingestWriters    = 8    // of plain inserts
	ingestBytes      = 1000 // of a message
)

// farmIngest compares messages of jobs that are acknowledged with plain inserts of the
// same rows, many in a statement.
func farmIngest(ctx context.Context, s *site) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	f := newFarm(db, nothing)
	defer f.log.Close()
	var list []machine
	for range ingestWorkspaces {
		workspace := events.NewID(time.Now())
		more, err := f.machines(ctx, workspace, ingestAgents/ingestWorkspaces, 1)
		if err != nil {
			return result{}, err
		}
		if err := f.fill(ctx, workspace, len(more)); err != nil {
			return result{}, err
		}
		list = append(list, more...)
	}
	service, err := s.farmService(ctx, db)
	if err != nil {
		return result{}, err
	}
	defer service.stop()
	agents, err := dialAll(ctx, service.addr, list, 1)
	defer hangUp(agents)
	if err != nil {
		return result{}, err
	}
	var sayers []*sayer
	for _, a := range agents {
		w := newSayer(a)
		sayers = append(sayers, w)
		if err := w.begin(ctx); err != nil {
			return result{}, err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var beating sync.WaitGroup
	beating.Go(func() { beat(ctx, sayers) })
	defer beating.Wait()
	defer stop()
	if _, err := db.Exec(ctx, `create table plain_logs (like job_logs including all)`); err != nil {
		return result{}, err
	}
	plain := &plainLogs{db: db, next: make([]int64, ingestWriters), jobs: newIDs(ingestWriters)}
	return compare(ctx,
		func() (float64, error) {
			return measure(ctx, len(sayers), func(ctx context.Context, i int) error { return sayers[i].say(ctx) })
		},
		func() (float64, error) {
			rate, err := measure(ctx, ingestWriters, plain.insert)
			return rate * ingestRows, err
		})
}

// beat keeps the leases of jobs.
func beat(ctx context.Context, list []*sayer) {
	again := time.NewTicker(wire.HeartbeatEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		for _, w := range list {
			_ = w.a.say(wire.Heartbeat{Held: []wire.Held{{Job: w.job.String(), Epoch: w.epoch}}}, events.ID{}, 0, 0)
		}
	}
}

// A sayer is an agent that writes a log, as fast as the window lets it. A message counts
// when it was acknowledged.
type sayer struct {
	a      *agent
	job    events.ID
	epoch  int
	seq    int64
	offset int64
	acked  atomic.Int64
	more   chan struct{}
	text   []byte
}

func newSayer(a *agent) *sayer {
	w := &sayer{a: a, more: make(chan struct{}, 1), text: make([]byte, ingestBytes)}
	for i := range w.text {
		w.text[i] = "0123456789abcdef"[(i*i*31+i*7)%16]
	}
	hex.Encode(w.text[:32], a.id[:])
	a.acked = func(_ wire.Envelope, upto int64) {
		w.acked.Store(upto)
		select {
		case w.more <- struct{}{}:
		default:
		}
	}
	return w
}

// begin waits for a job, which the agent takes.
func (w *sayer) begin(ctx context.Context) error {
	e, err := w.a.next(ctx, wire.TypeAssign)
	if err != nil {
		return err
	}
	if w.job, err = events.ParseID(e.Job); err != nil {
		return err
	}
	w.epoch, w.seq = e.Epoch, 1
	if err := w.a.say(wire.Accept{}, w.job, w.epoch, 0); err != nil {
		return err
	}
	return w.a.say(wire.Event{Kind: wire.EventStarted}, w.job, w.epoch, 1)
}

// say says one thing more, once the window has room: so as many are counted as were
// acknowledged, but for a window.
func (w *sayer) say(ctx context.Context) error {
	for w.seq-w.acked.Load() >= wire.WindowMessages {
		select {
		case <-w.more:
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Minute):
			return fmt.Errorf("nothing is acknowledged: %w", errEnded)
		}
	}
	w.seq++
	c := wire.Chunk{Job: [16]byte(w.job), Epoch: w.epoch, Seq: w.seq, Offset: w.offset, At: time.Now(), Data: w.text}
	if w.offset += ingestBytes; w.offset > wire.MaxLog-ingestBytes {
		return fmt.Errorf("the log is full: %w", errEnded)
	}
	w.a.mu.Lock()
	defer w.a.mu.Unlock()
	return w.a.socket.WriteMessage(websocket.BinaryMessage, c.AppendTo(nil))
}

// plainLogs inserts rows as those of logs are.
type plainLogs struct {
	db   *pgxpool.Pool
	jobs []events.ID
	next []int64
}

func (p *plainLogs) insert(ctx context.Context, worker int) error {
	text := make([]byte, ingestBytes)
	for i := range text {
		text[i] = "0123456789abcdef"[(i*i*31+i*7)%16]
	}
	var workspaces, jobs []events.ID
	var epochs []int
	var from []int64
	var at []time.Time
	var data [][]byte
	for range ingestRows {
		p.next[worker] += ingestBytes
		workspaces, jobs, epochs = append(workspaces, p.jobs[worker]), append(jobs, p.jobs[worker]), append(epochs, 1)
		from, at, data = append(from, p.next[worker]), append(at, time.Now()), append(data, text)
	}
	_, err := p.db.Exec(ctx, `
		insert into plain_logs (workspace_id, job_id, epoch, from_byte, at, data)
		select * from unnest($1::uuid[], $2::uuid[], $3::int[], $4::bigint[], $5::timestamptz[], $6::bytea[])`, workspaces, jobs, epochs, from,
		at, data)
	return err
}
