package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sync/errgroup"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/farm/wire"
	"svc/fault"
)

const (
	lanes      = 8
	laneQueued = 128     // messages that wait in a lane; then its connections are not read
	laneBytes  = 4 << 20 // that are stored together
	laneEvents = 16      // events that are appended at once
)

// An item is something that a runner says of a job.
type item struct {
	c     *connection
	job   events.ID
	epoch int
	seq   int64

	report  *aggregates.JobReport // an event
	accept  bool
	decline string // why

	at        time.Time // of a piece of log
	offset    int64
	truncated bool
	data      []byte
}

// command reports whether the item is carried out, not only stored.
func (it *item) command() bool {
	return it.accept || it.decline != "" || it.report != nil && it.report.Event != nil
}

// ingest stores what runners say of jobs. All of a job goes through one lane, in its order;
// what waits in a lane at the same moment is stored together.
type ingest struct {
	d       *Dispatcher
	lanes   [lanes]chan *item
	running sync.WaitGroup
}

func newIngest(d *Dispatcher) *ingest {
	g := &ingest{d: d}
	for i := range g.lanes {
		g.lanes[i] = make(chan *item, laneQueued)
		g.running.Go(func() { g.drive(g.lanes[i]) })
	}
	return g
}

// close lets what was taken in be stored. No connection is there any more.
func (g *ingest) close() {
	for _, lane := range g.lanes {
		close(lane)
	}
	g.running.Wait()
}

// put waits for room in the lane of a job.
func (g *ingest) put(ctx context.Context, it *item) error {
	select {
	case g.lanes[int(it.job[15])%lanes] <- it:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *ingest) drive(lane chan *item) {
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

// A queue is what was said of one job.
type queue struct {
	key  leaseKey
	list []*item
}

// store stores what was said of several jobs: pieces of logs of all of them together, and
// then an event of each, until nothing is left.
func (g *ingest) store(list []*item) {
	ctx, cancel := context.WithTimeout(g.d.ctx, workLimit)
	defer cancel()
	for queues := byJob(list); len(queues) > 0; {
		var pieces, orders []*item
		var left []*queue
		for _, q := range queues {
			n := q.stored()
			pieces = append(pieces, q.list[:n]...)
			if n == 0 {
				orders, n = append(orders, q.list[0]), 1
			}
			if q.list = q.list[n:]; len(q.list) > 0 {
				left = append(left, q)
			}
		}
		var both errgroup.Group
		both.Go(func() error { g.storePieces(ctx, pieces); return nil })
		both.Go(func() error { g.carryOut(ctx, orders); return nil })
		_ = both.Wait() // none has an error
		queues = left
	}
}

// stored returns how many of the first items are only stored.
func (q *queue) stored() (n int) {
	for n < len(q.list) && !q.list[n].command() {
		n++
	}
	return n
}

func byJob(list []*item) (queues []*queue) {
	at := map[leaseKey]*queue{}
	for _, it := range list {
		key := leaseKey{it.c.runner.Workspace, it.job}
		q := at[key]
		if q == nil {
			q = &queue{key: key}
			at[key] = q
			queues = append(queues, q)
		}
		q.list = append(q.list, it)
	}
	return queues
}

// broken ends the connection of an item that could not be stored: the runner comes again
// and says it again.
func (g *ingest) broken(it *item, err error) {
	g.d.warn("store what a runner said", err, "job", it.job)
	it.c.close(websocket.CloseTryAgainLater, "try again")
}

// carryOut appends events of several jobs.
func (g *ingest) carryOut(ctx context.Context, list []*item) {
	if len(list) == 0 {
		return
	}
	states, err := g.look(ctx, list)
	if err != nil {
		for _, it := range list {
			g.broken(it, err)
		}
		return
	}
	var all errgroup.Group
	all.SetLimit(laneEvents)
	var mu sync.Mutex
	var done []*item
	for _, it := range list {
		all.Go(func() error {
			if g.order(ctx, it, states[leaseKey{it.c.runner.Workspace, it.job}]) {
				mu.Lock()
				done = append(done, it)
				mu.Unlock()
			}
			return nil
		})
	}
	_ = all.Wait() // none has an error
	g.number(ctx, done)
}

// order carries out what one item says, and reports whether its number is to be stored.
func (g *ingest) order(ctx context.Context, it *item, l lease) bool {
	c := it.c
	switch {
	case it.accept:
		_, err := g.d.Commands.AcceptJob(ctx, commands.AcceptJob{Meta: c.runner.meta(), Job: it.job, Runner: c.runner.ID, Epoch: it.epoch})
		if g.answered(it, err) {
			g.d.warn("note what a runner took", c.took(ctx, it.job, it.epoch))
		}
		return false
	case it.decline != "":
		c.givesBack(it.job, it.epoch)
		done, err := g.d.Commands.DeclineJob(ctx, commands.DeclineJob{
			Meta: c.runner.meta(), Job: it.job, Runner: c.runner.ID, Epoch: it.epoch, Reason: it.decline,
		})
		if g.answered(it, err) {
			if !done.Idle { // before it is given another one
				g.d.warn("note what a runner declined", c.gaveBack(ctx, it.decline))
			}
			c.forget(it.job, it.epoch)
		}
		return false
	}
	switch l.judge(it, it.seq, it.seq) {
	case stopIt:
		c.stop(it.job, it.epoch, "not yours")
	case repeated:
		g.acknowledge(it, 1, l.seq)
	case gapBefore:
		c.gap(it.job, it.epoch, l.seq+1)
	case next:
		_, err := g.d.Commands.ReportJob(ctx, commands.ReportJob{Meta: c.runner.meta(), Job: it.job, Runner: c.runner.ID, Report: *it.report})
		return g.answered(it, err)
	}
	return false
}

// answered reports whether a command about a job of a runner was carried out, and tells the
// runner if the job is not its own.
func (g *ingest) answered(it *item, err error) bool {
	f := fault.As(err)
	switch {
	case err == nil:
		return true
	case errors.Is(err, aggregates.ErrJobNotOwner) || errors.Is(err, aggregates.ErrNoJob):
		it.c.stop(it.job, it.epoch, "not yours")
	case f != nil && f.Kind == fault.Invalid:
		it.c.refuse(malformed(fmt.Errorf("%w: %v", wire.ErrFrame, f.Details)))
	default:
		g.broken(it, err)
	}
	return false
}

// acknowledge answers n items of a job.
func (g *ingest) acknowledge(it *item, n int, upto int64) {
	g.d.counts.taken.Add(int64(n))
	it.c.send(wire.Ack{Upto: upto}, it.job, it.epoch)
}
