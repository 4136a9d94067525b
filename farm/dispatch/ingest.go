package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sync/errgroup"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/farm/wire"
	"svc/fault"
	"svc/lru"
)

const (
	lanes        = 8
	laneQueued   = 128     // messages that may wait in a lane; when it is full its connections are not read
	laneBytes    = 4 << 20 // data that is stored together, about
	laneCommands = 16      // commands that run at once
)

// An item is one message of a runner about a job: an accept, a decline, a [wire.Event] or a
// chunk of its log.
type item struct {
	c     *connection
	job   events.ID
	epoch int
	seq   int64

	report  *aggregates.JobReport // of a wire.Event
	accept  bool
	decline string // reason of a decline, "" otherwise

	at        time.Time // of a chunk of log, as the fields below
	offset    int64
	truncated bool
	data      []byte
}

// needsCommand reports whether the item is a command to run, and not only data to store.
func (it *item) needsCommand() bool {
	return it.accept || it.decline != "" || it.report != nil && it.report.Event != nil
}

// ingest stores what runners report. All messages of a job pass through the same lane, in order.
// Messages that wait in a lane at the same time are stored together.
type ingest struct {
	d       *Dispatcher
	lanes   [lanes]chan *item
	counted *lru.Cache[logKey, int64] // sizes of logs up to which CountLog has counted
	running sync.WaitGroup
}

// A logKey identifies the log of one attempt.
type logKey struct {
	leaseKey
	epoch int
}

const maxCounted = 10_000

func newIngest(d *Dispatcher) *ingest {
	g := &ingest{d: d, counted: lru.New[logKey, int64](maxCounted)}
	for i := range g.lanes {
		g.lanes[i] = make(chan *item, laneQueued)
		g.running.Go(func() { g.runLane(g.lanes[i]) })
	}
	return g
}

// close waits until all queued items are stored. The caller has ended all connections.
func (g *ingest) close() {
	for _, lane := range g.lanes {
		close(lane)
	}
	g.running.Wait()
}

// put queues an item, and blocks while the lane of its job is full.
func (g *ingest) put(ctx context.Context, it *item) error {
	select {
	case g.lanes[int(it.job[15])%lanes] <- it:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *ingest) runLane(lane chan *item) {
	for it := range lane {
		list, size := []*item{it}, len(it.data)
		for size < laneBytes && len(lane) > 0 {
			more, ok := <-lane
			if !ok {
				break
			}
			list, size = append(list, more), size+len(more.data)
		}
		g.store(list)
	}
}

// jobItems are the items of one job, in order.
type jobItems struct {
	key  leaseKey
	list []*item
}

// store stores a batch of items in rounds: the leading log chunks of all jobs together, and at the
// same time the next command of each other job, until no item is left.
func (g *ingest) store(list []*item) {
	ctx, cancel := context.WithTimeout(g.d.ctx, workTimeout)
	defer cancel()
	for jobs := byJob(list); len(jobs) > 0; {
		var chunks, toRun []*item
		var left []*jobItems
		for _, j := range jobs {
			n := j.storeOnly()
			chunks = append(chunks, j.list[:n]...)
			if n == 0 {
				toRun, n = append(toRun, j.list[0]), 1
			}
			if j.list = j.list[n:]; len(j.list) > 0 {
				left = append(left, j)
			}
		}
		var both errgroup.Group
		both.Go(func() error { g.storeChunks(ctx, chunks); return nil })
		both.Go(func() error { g.runCommands(ctx, toRun); return nil })
		_ = both.Wait() // no function returns an error
		jobs = left
	}
}

// storeOnly returns how many items at the head of the list need no command.
func (j *jobItems) storeOnly() (n int) {
	for n < len(j.list) && !j.list[n].needsCommand() {
		n++
	}
	return n
}

func byJob(list []*item) (jobs []*jobItems) {
	at := map[leaseKey]*jobItems{}
	for _, it := range list {
		key := leaseKey{it.c.runner.Workspace, it.job}
		j := at[key]
		if j == nil {
			j = &jobItems{key: key}
			at[key] = j
			jobs = append(jobs, j)
		}
		j.list = append(j.list, it)
	}
	return jobs
}

// closeForRetry closes the connection of an item that could not be stored. The runner reconnects
// and sends it again.
func (g *ingest) closeForRetry(it *item, err error) {
	g.d.warn("store a message", err, "job", it.job)
	it.c.out.close(websocket.CloseTryAgainLater, "try again")
}

// runCommands runs one command of each of several jobs, and stores the numbers of those that
// succeeded.
func (g *ingest) runCommands(ctx context.Context, list []*item) {
	if len(list) == 0 {
		return
	}
	states, err := g.readLeases(ctx, list)
	if err != nil {
		for _, it := range list {
			g.closeForRetry(it, err)
		}
		return
	}
	var all errgroup.Group
	all.SetLimit(laneCommands)
	var mu sync.Mutex
	var done []*item
	for _, it := range list {
		all.Go(func() error {
			if g.runCommand(ctx, it, states[leaseKey{it.c.runner.Workspace, it.job}]) {
				mu.Lock()
				done = append(done, it)
				mu.Unlock()
			}
			return nil
		})
	}
	_ = all.Wait() // no function returns an error
	g.storeNumbers(ctx, done)
}

// runCommand runs the command of one item, and reports whether its number has to be stored.
func (g *ingest) runCommand(ctx context.Context, it *item, l lease) bool {
	c := it.c
	switch {
	case it.accept:
		_, err := g.d.Commands.AcceptJob(ctx, commands.AcceptJob{Meta: c.runner.Meta(), Job: it.job, Runner: c.runner.ID, Epoch: it.epoch})
		if g.succeeded(it, err) {
			g.acknowledge(it, 0, l.seq) // the runner may begin
			g.d.warn("record an accept", c.noteAccept(ctx, it.job, it.epoch))
		}
		return false
	case it.decline != "":
		c.slots.markDeclined(it.job, it.epoch)
		done, err := g.d.Commands.DeclineJob(ctx, commands.DeclineJob{
			Meta: c.runner.Meta(), Job: it.job, Runner: c.runner.ID, Epoch: it.epoch, Reason: it.decline,
		})
		if g.succeeded(it, err) {
			if !done.Idle { // before forget lets it be given another job
				g.d.warn("record a decline", c.noteDecline(ctx, it.decline))
			}
			c.forget(it.job, it.epoch)
		}
		return false
	}
	switch l.classify(it, it.seq, it.seq) {
	case notHolder:
		c.stop(it.job, it.epoch, "not yours")
	case alreadyStored:
		g.acknowledge(it, 1, l.seq)
	case afterGap:
		c.sendGap(it.job, it.epoch, l.seq+1)
	case inOrder:
		it.report.Event = placeInLog(it.report.Event, l)
		_, err := g.d.Commands.ReportJob(ctx, commands.ReportJob{Meta: c.runner.Meta(), Job: it.job, Runner: c.runner.ID, Report: *it.report})
		return g.succeeded(it, err)
	}
	return false
}

// placeInLog adds to the start of a step where its output begins. The runner has sent all earlier output before.
func placeInLog(e events.Event, l lease) events.Event {
	if begun, ok := e.(events.JobStepStarted); ok && l.line > 0 {
		begun.LogFrom, begun.LogLine = l.bytes, l.line
		return begun
	}
	return e
}

// storeNumbers stores the numbers of successful reports for which nothing was appended, and
// acknowledges all of them. Where something was appended, [Leases] has stored the number. A job
// that reported its end is forgotten.
func (g *ingest) storeNumbers(ctx context.Context, list []*item) {
	if len(list) == 0 {
		return
	}
	slices.SortFunc(list, func(a, b *item) int {
		return leaseKey{a.c.runner.Workspace, a.job}.compare(leaseKey{b.c.runner.Workspace, b.job})
	})
	var to idArrays
	var epochs []int
	var seqs []int64
	var finished []bool
	for _, it := range list {
		_, ends := it.report.Event.(events.JobFinished)
		to.add(leaseKey{it.c.runner.Workspace, it.job})
		epochs, seqs, finished = append(epochs, it.epoch), append(seqs, it.seq), append(finished, ends)
	}
	_, err := g.d.DB.Exec(ctx, `
		update job_leases l set last_seq = k.seq, finished = l.finished or k.finished
		from unnest($1::uuid[], $2::uuid[], $3::int[], $4::bigint[], $5::bool[]) as k (workspace_id, job_id, epoch, seq, finished)
		where l.workspace_id = k.workspace_id and l.job_id = k.job_id and l.epoch = k.epoch and l.last_seq < k.seq`,
		to.workspaces, to.jobs, epochs, seqs, finished)
	if err != nil {
		for _, it := range list {
			g.closeForRetry(it, err)
		}
		return
	}
	for _, it := range list {
		if _, ends := it.report.Event.(events.JobFinished); ends {
			it.c.forget(it.job, it.epoch)
			g.d.Logs.Moved(it.c.runner.Workspace, it.job)
		}
		g.acknowledge(it, 1, it.seq)
	}
}

// succeeded reports whether a command succeeded, and otherwise answers the runner according to the
// error.
func (g *ingest) succeeded(it *item, err error) bool {
	f := fault.As(err)
	switch {
	case err == nil:
		return true
	case errors.Is(err, aggregates.ErrJobNotOwner) || errors.Is(err, aggregates.ErrNoJob):
		it.c.stop(it.job, it.epoch, "not yours")
	case f != nil && f.Kind == fault.Invalid:
		it.c.end(malformed(fmt.Errorf("%w: %s", wire.ErrFrame, f.DetailText())))
	default:
		g.closeForRetry(it, err)
	}
	return false
}

// acknowledge acknowledges n items of a job, up to number upto.
func (g *ingest) acknowledge(it *item, n int, upto int64) {
	g.d.counts.acknowledged.Add(int64(n))
	it.c.send(wire.Ack{Upto: upto}, it.job, it.epoch)
}
