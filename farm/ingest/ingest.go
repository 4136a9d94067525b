// Package ingest stores what runners report of their jobs, and answers them. It holds the leases, by which it is decided
// whose reports are stored.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/farm/joblog"
	"svc/farm/wire"
	"svc/fault"
	"svc/lru"
)

const (
	lanes        = 8
	laneQueued   = 128              // messages that may wait in a lane; when it is full its connections are not read
	laneBytes    = 4 << 20          // data that is stored together, about
	laneCommands = 16               // commands that run at once
	storeTimeout = 20 * time.Second // for a batch
)

// An Item is one message of a runner about a job: an accept, a decline, a [wire.Event] or a
// chunk of its log.
type Item struct {
	From   Connection
	Meta   commands.Meta // of the commands of the runner
	Runner events.ID
	Job    events.ID
	Epoch  int
	Seq    int64

	Report  *farm.JobReport // of a wire.Event
	Accept  bool
	Decline string // reason of a decline, "" otherwise

	At        time.Time // of a chunk of log, as the fields below
	Offset    int64
	Truncated bool
	Data      []byte
}

// A Connection is the one that a message came by. It takes the answer.
type Connection interface {
	Acknowledge(job events.ID, epoch int, upto int64)
	Gap(job events.ID, epoch int, expected int64) // a number before the message is missing
	Stop(job events.ID, epoch int, why string)    // the job is not the runner's
	Malformed(err error)                          // the runner broke the protocol
	Retry()                                       // the message could not be stored: the runner reconnects and sends it again
	Forget(job events.ID, epoch int)              // the runner no longer holds the job
	NoteAccept(ctx context.Context, job events.ID, epoch int) error
	NoteDecline(ctx context.Context, reason string) error
}

// A Config holds what an Ingest works with.
type Config struct {
	DB       *pgxpool.Pool
	Commands *commands.Handler
	Logs     *joblog.Logs
	CountLog func(ctx context.Context, workspace, submitter events.ID, bytes int) (wait time.Duration)
	Warn     func(what string, err error, args ...any)

	Acknowledged, Duplicates *atomic.Int64
}

// needsCommand reports whether the item is a command to run, and not only data to store.
func (it *Item) needsCommand() bool {
	return it.Accept || it.Decline != "" || it.Report != nil && it.Report.Event != nil
}

// An Ingest stores what runners report. All messages of a job pass through the same lane, in order.
// Messages that wait in a lane at the same time are stored together.
type Ingest struct {
	Config
	ctx     context.Context
	lanes   [lanes]chan *Item
	counted *lru.Cache[logKey, int64] // sizes of logs up to which CountLog has counted
	running sync.WaitGroup
}

// A logKey identifies the log of one attempt.
type logKey struct {
	LeaseKey
	epoch int
}

const maxCounted = 10_000

// New returns an Ingest whose work ends with ctx.
func New(ctx context.Context, c Config) *Ingest {
	g := &Ingest{Config: c, ctx: ctx, counted: lru.New[logKey, int64](maxCounted)}
	for i := range g.lanes {
		g.lanes[i] = make(chan *Item, laneQueued)
		g.running.Go(func() { g.runLane(g.lanes[i]) })
	}
	return g
}

// Close waits until all queued items are stored. The caller has ended all connections.
func (g *Ingest) Close() {
	for _, lane := range g.lanes {
		close(lane)
	}
	g.running.Wait()
}

// Put queues an item, and blocks while the lane of its job is full.
func (g *Ingest) Put(ctx context.Context, it *Item) error {
	select {
	case g.lanes[int(it.Job[15])%lanes] <- it:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *Ingest) runLane(lane chan *Item) {
	for it := range lane {
		list, size := []*Item{it}, len(it.Data)
		for size < laneBytes && len(lane) > 0 {
			more, ok := <-lane
			if !ok {
				break
			}
			list, size = append(list, more), size+len(more.Data)
		}
		g.store(list)
	}
}

// jobItems are the items of one job, in order.
type jobItems struct {
	key  LeaseKey
	list []*Item
}

// store stores a batch of items in rounds: the leading log chunks of all jobs together, and at the
// same time the next command of each other job, until no item is left.
func (g *Ingest) store(list []*Item) {
	ctx, cancel := context.WithTimeout(g.ctx, storeTimeout)
	defer cancel()
	for jobs := byJob(list); len(jobs) > 0; {
		var chunks, toRun []*Item
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
		both.Go(func() error {
			if err := g.StoreChunks(ctx, chunks); err != nil {
				for _, it := range chunks {
					g.closeForRetry(it, err)
				}
			}
			return nil
		})
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

func byJob(list []*Item) (jobs []*jobItems) {
	at := map[LeaseKey]*jobItems{}
	for _, it := range list {
		key := LeaseKey{it.Meta.Workspace, it.Job}
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
func (g *Ingest) closeForRetry(it *Item, err error) {
	g.Warn("store a message", err, "job", it.Job)
	it.From.Retry()
}

// runCommands runs one command of each of several jobs, and stores the numbers of those that
// succeeded.
func (g *Ingest) runCommands(ctx context.Context, list []*Item) {
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
	var done []*Item
	for _, it := range list {
		all.Go(func() error {
			if g.runCommand(ctx, it, states[LeaseKey{it.Meta.Workspace, it.Job}]) {
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
func (g *Ingest) runCommand(ctx context.Context, it *Item, l lease) bool {
	c := it.From
	switch {
	case it.Accept:
		_, err := g.Commands.AcceptJob(ctx, commands.AcceptJob{Meta: it.Meta, Job: it.Job, Runner: it.Runner, Epoch: it.Epoch})
		if g.succeeded(it, err) {
			g.acknowledge(it, 0, l.seq) // the runner may begin
			g.Warn("record an accept", c.NoteAccept(ctx, it.Job, it.Epoch))
		}
		return false
	case it.Decline != "":
		done, err := g.Commands.DeclineJob(ctx, commands.DeclineJob{
			Meta: it.Meta, Job: it.Job, Runner: it.Runner, Epoch: it.Epoch, Reason: it.Decline,
		})
		if g.succeeded(it, err) {
			if !done.Idle { // before forget lets it be given another job
				g.Warn("record a decline", c.NoteDecline(ctx, it.Decline))
			}
			c.Forget(it.Job, it.Epoch)
		}
		return false
	}
	switch l.classify(it, it.Seq, it.Seq) {
	case notHolder:
		c.Stop(it.Job, it.Epoch, "not yours")
	case alreadyStored:
		g.acknowledge(it, 1, l.seq)
	case afterGap:
		c.Gap(it.Job, it.Epoch, l.seq+1)
	case inOrder:
		it.Report.Event = placeInLog(it.Report.Event, l)
		_, err := g.Commands.ReportJob(ctx, commands.ReportJob{Meta: it.Meta, Job: it.Job, Runner: it.Runner, Report: *it.Report})
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
func (g *Ingest) storeNumbers(ctx context.Context, list []*Item) {
	if len(list) == 0 {
		return
	}
	slices.SortFunc(list, func(a, b *Item) int {
		return LeaseKey{a.Meta.Workspace, a.Job}.Compare(LeaseKey{b.Meta.Workspace, b.Job})
	})
	var to idArrays
	var epochs []int
	var seqs []int64
	var finished []bool
	for _, it := range list {
		_, ends := it.Report.Event.(events.JobFinished)
		to.add(LeaseKey{it.Meta.Workspace, it.Job})
		epochs, seqs, finished = append(epochs, it.Epoch), append(seqs, it.Seq), append(finished, ends)
	}
	_, err := g.DB.Exec(ctx, `
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
		if _, ends := it.Report.Event.(events.JobFinished); ends {
			it.From.Forget(it.Job, it.Epoch)
			g.Logs.Moved(it.Meta.Workspace, it.Job)
		}
		g.acknowledge(it, 1, it.Seq)
	}
}

// succeeded reports whether a command succeeded, and otherwise answers the runner according to the
// error.
func (g *Ingest) succeeded(it *Item, err error) bool {
	f := fault.As(err)
	switch {
	case err == nil:
		return true
	case errors.Is(err, farm.ErrJobNotOwner) || errors.Is(err, farm.ErrNoJob):
		it.From.Stop(it.Job, it.Epoch, "not yours")
	case f != nil && f.Kind == fault.Invalid:
		it.From.Malformed(fmt.Errorf("%w: %s", wire.ErrFrame, f.DetailText()))
	default:
		g.closeForRetry(it, err)
	}
	return false
}

// acknowledge acknowledges n items of a job, up to number upto.
func (g *Ingest) acknowledge(it *Item, n int, upto int64) {
	g.Acknowledged.Add(int64(n))
	it.From.Acknowledge(it.Job, it.Epoch, upto)
}
