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
	ingestRows       = 128  // in a plain insert
	ingestWriters    = 8    // connections for plain inserts
	ingestBytes      = 1000 // of a message
)

// farmIngest compares acknowledged messages of jobs with multi-row inserts of the same rows.
func farmIngest(ctx context.Context, s *suite) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	f := newFarm(db, notifyNobody)
	defer f.log.Close()
	var list []machine
	for range ingestWorkspaces {
		workspace := events.NewID(time.Now())
		more, err := f.enrolMachines(ctx, workspace, ingestAgents/ingestWorkspaces, 1)
		if err != nil {
			return result{}, err
		}
		if err := f.submitMany(ctx, workspace, len(more)); err != nil {
			return result{}, err
		}
		list = append(list, more...)
	}
	service, err := s.startFarmService(ctx, db)
	if err != nil {
		return result{}, err
	}
	defer service.stop()
	agents, err := dialAll(ctx, service.addr, list, 1)
	defer closeAll(agents)
	if err != nil {
		return result{}, err
	}
	var sayers []*logSender
	for _, a := range agents {
		w := newLogSender(a)
		sayers = append(sayers, w)
		if err := w.acceptJob(ctx); err != nil {
			return result{}, err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var beating sync.WaitGroup
	beating.Go(func() { renewLeases(ctx, sayers) })
	defer beating.Wait()
	defer stop()
	if _, err := db.Exec(ctx, `create table plain_logs (like job_logs including all)`); err != nil {
		return result{}, err
	}
	plain := &plainLogs{db: db, offsets: make([]int64, ingestWriters), jobs: newIDs(ingestWriters)}
	// A turn ends when everything is acknowledged, or the service would store the rest in the turn of the inserts.
	return compare(ctx,
		func() (work, error) {
			from := time.Now()
			sent, err := measure(ctx, len(sayers), func(ctx context.Context, i int) error { return sayers[i].sendChunk(ctx) })
			for _, w := range sayers {
				if err == nil {
					err = w.awaitAcks(ctx, 0)
				}
			}
			return work{sent.done, time.Since(from)}, err
		},
		func() (work, error) {
			inserted, err := measure(ctx, ingestWriters, plain.insert)
			inserted.done *= ingestRows
			return inserted, err
		})
}

// renewLeases sends heartbeats for all agents, which keeps their leases, until ctx is done.
func renewLeases(ctx context.Context, list []*logSender) {
	again := time.NewTicker(wire.HeartbeatEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		for _, w := range list {
			_ = w.a.send(wire.Heartbeat{Held: []wire.Held{{Job: w.job.String(), Epoch: w.epoch}}}, events.ID{}, 0, 0)
		}
	}
}

// A logSender writes the log of a job as fast as the window of unacknowledged messages allows.
type logSender struct {
	a           *agent
	job         events.ID
	epoch       int
	seq         int64
	offset      int64
	ackedSeq    atomic.Int64
	windowMoved chan struct{}
	data        []byte
}

// newLogSender returns a sender. Its chunks begin with the id of the agent, so that they differ between agents.
func newLogSender(a *agent) *logSender {
	w := &logSender{a: a, windowMoved: make(chan struct{}, 1), data: make([]byte, ingestBytes)}
	for i := range w.data {
		w.data[i] = "0123456789abcdef"[(i*i*31+i*7)%16]
	}
	hex.Encode(w.data[:32], a.id[:])
	a.onAck = func(_ wire.Envelope, upto int64) {
		w.ackedSeq.Store(upto)
		select {
		case w.windowMoved <- struct{}{}:
		default:
		}
	}
	return w
}

// acceptJob waits for a job, accepts it and reports its start.
func (w *logSender) acceptJob(ctx context.Context) error {
	e, err := w.a.receive(ctx, wire.TypeAssign)
	if err != nil {
		return err
	}
	if w.job, err = events.ParseID(e.Job); err != nil {
		return err
	}
	w.epoch, w.seq = e.Epoch, 1
	if err := w.a.send(wire.Accept{}, w.job, w.epoch, 0); err != nil {
		return err
	}
	return w.a.send(wire.Event{Kind: wire.EventStarted}, w.job, w.epoch, 1)
}

// awaitAcks waits until at most so many messages are not acknowledged.
func (w *logSender) awaitAcks(ctx context.Context, most int64) error {
	for w.seq-w.ackedSeq.Load() > most {
		select {
		case <-w.windowMoved:
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Minute):
			return fmt.Errorf("nothing is acknowledged: %w", errConnectionEnded)
		}
	}
	return nil
}

// sendChunk sends one chunk once the window has room.
func (w *logSender) sendChunk(ctx context.Context) error {
	if err := w.awaitAcks(ctx, wire.WindowMessages-1); err != nil {
		return err
	}
	w.seq++
	c := wire.Chunk{Job: [16]byte(w.job), Epoch: w.epoch, Seq: w.seq, Offset: w.offset, At: time.Now(), Data: w.data}
	if w.offset += ingestBytes; w.offset > wire.MaxLog-ingestBytes {
		return fmt.Errorf("the log is full: %w", errConnectionEnded)
	}
	w.a.mu.Lock()
	defer w.a.mu.Unlock()
	return w.a.socket.WriteMessage(websocket.BinaryMessage, c.AppendTo(nil))
}

// plainLogs inserts rows like those of job logs into the table plain_logs.
type plainLogs struct {
	db      *pgxpool.Pool
	jobs    []events.ID
	offsets []int64
}

// insert inserts ingestRows rows in one statement.
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
		p.offsets[worker] += ingestBytes
		workspaces, jobs, epochs = append(workspaces, p.jobs[worker]), append(jobs, p.jobs[worker]), append(epochs, 1)
		from, at, data = append(from, p.offsets[worker]), append(at, time.Now()), append(data, text)
	}
	_, err := p.db.Exec(ctx, `
		insert into plain_logs (workspace_id, job_id, epoch, from_byte, at, data)
		select * from unnest($1::uuid[], $2::uuid[], $3::int[], $4::bigint[], $5::timestamptz[], $6::bytea[])`, workspaces, jobs, epochs, from,
		at, data)
	return err
}
