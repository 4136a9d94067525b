// Package follow keeps consumers of the logs up to date: views, Merkle logs, the bus.
//
// A consumer's position in a log is a row of checkpoints. It changes in the transaction
// that does the work, so a process that dies in the middle has done nothing, and if two
// processes work on the same log, the row's lock lets only one of them proceed.
//
// Up to 128 logs share a transaction, so that a thousand logs that grow a little cost about
// as much as one that grows a lot. Logs that are far behind share it with fewer others. A
// busy follower pauses between rounds, which leaves the database to those who append. Logs
// that have more than a page are continued during the pauses, so that they do not delay others.
// Appends wake it; because a wake-up may be lost, it also checks all logs every second.
package follow

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

const (
	batchSize  = 128                    // logs that are followed in one transaction
	batchWork  = 1000                   // limit of the events that the logs of a batch are behind together, as far as known
	minRound   = 10 * time.Millisecond  // minimum time between the starts of two rounds, in which more logs grow
	workShare  = 4                      // rounds take at most one part in workShare of the time; appends need the rest
	maxPause   = 250 * time.Millisecond // between the end of a round and the start of the next
	poll       = time.Second            // between queries for logs that it was not notified about
	minBackoff = time.Second            // of a log that cannot be followed; it doubles up to maxBackoff
	maxBackoff = 15 * time.Second
)

// PageTimeout is how long a handler may take for a page, and a follower for a query of its own. After it, the
// follower assumes that the database hangs, reports an error and tries again. It is many times what a full page takes,
// and less than the 30 s of silence after which the server ends the transaction of [LockCheckpoints].
const PageTimeout = 25 * time.Second

// A Follower finds the logs that have grown. Any number of processes may run one of the
// same name: only the leader works.
type Follower struct {
	db           *pgxpool.Pool
	name         string
	names        func() []string // names of its checkpoints: only name, or several that share the work
	leads        func(name string) bool
	onlyNotified bool // it follows only logs that it was notified about
	log          *slog.Logger
	wake         chan struct{}
	minInterval  time.Duration // minimum time between the starts of two rounds
	pageTimeout  time.Duration

	behind [][]events.ID // batches that have more than the page they had; only for Run and Finish

	mu    sync.Mutex
	grown map[events.ID]bool // logs that have grown; the zero ID means any log may have
	stuck map[events.ID]Backoff
}

// A Handler processes the next events of logs in one transaction, and returns the logs that
// may have more. If it fails for several logs, it is called again for each of them separately.
// ctx ends after [PageTimeout].
type Handler func(ctx context.Context, workspaces []events.ID) (more []events.ID, err error)

// A Backoff is the time until a log that cannot be followed is tried again.
type Backoff struct {
	wait  time.Duration
	until time.Time
}

// Longer returns the backoff that starts now and is twice as long as b, up to a limit.
func (b Backoff) Longer() Backoff {
	wait := min(max(2*b.wait, minBackoff), maxBackoff)
	return Backoff{wait, time.Now().Add(wait)}
}

// Over reports whether the log may be tried again.
func (b Backoff) Over() bool { return !time.Now().Before(b.until) }

// New returns a follower that does nothing until Run is called. It moves the checkpoints
// called name.
func New(db *pgxpool.Pool, name string, leads func(name string) bool, log *slog.Logger) *Follower {
	return &Follower{
		db: db, name: name, names: func() []string { return []string{name} }, leads: leads, log: log.With("view", name),
		wake: make(chan struct{}, 1), grown: map[events.ID]bool{}, stuck: map[events.ID]Backoff{}, pageTimeout: PageTimeout,
	}
}

// NewShared returns a follower for several consumers that share the work: it finds the logs
// in which any of them is behind. names returns those that this process leads at the
// moment.
func NewShared(db *pgxpool.Pool, names func() []string, log *slog.Logger) *Follower {
	f := New(db, "shared", func(string) bool { return len(names()) > 0 }, log)
	f.names = names
	return f
}

// OnlyNotified makes f follow only the logs that it is notified about, until they have been
// processed, and look for no others. Call it before Run.
func (f *Follower) OnlyNotified() { f.onlyNotified = true }

// AtMostEvery makes f follow each log no more often than that, except for a log that has
// more than a page of new events. Call it before Run.
func (f *Follower) AtMostEvery(every time.Duration) { f.minInterval = every }

// TimeOutPagesAfter makes pages time out after that instead of [PageTimeout]. Call it before Run.
func (f *Follower) TimeOutPagesAfter(timeout time.Duration) { f.pageTimeout = timeout }

// Moved notifies f that a log has grown, or that any may have if workspace is zero. It does
// not block.
func (f *Follower) Moved(workspace events.ID) {
	f.mu.Lock()
	f.grown[workspace] = true
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default: // it has been woken already
	}
}

// Stuck returns how many logs cannot be followed at present.
func (f *Follower) Stuck() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.stuck)
}

// Run follows the logs until ctx ends.
func (f *Follower) Run(ctx context.Context, handle Handler) {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for all := true; ctx.Err() == nil; {
		began := time.Now()
		f.round(ctx, all, handle)
		took := time.Since(began)
		next := began.Add(max(pause(took)+took, f.minInterval))
		all = false
		if len(f.behind) > 0 {
			f.continueBehind(ctx, next, handle)
			select {
			case <-ticker.C:
				all = true
			default:
			}
		} else {
			select {
			case <-ctx.Done():
			case <-ticker.C:
				all = true
			case <-f.wake:
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(next)):
		}
	}
}

// continueBehind follows the first batch that is behind, and then those after it, until the next round, but at
// least for a page.
func (f *Follower) continueBehind(ctx context.Context, until time.Time, handle Handler) {
	for more := true; more; more = len(f.behind) > 0 && ctx.Err() == nil && time.Now().Before(until) {
		f.behind = append(f.followPage(ctx, f.behind[0], handle), f.behind[1:]...)
	}
}

// Finish processes what is left, whether or not f leads, and returns when that is done or
// ctx ends. Call it after Run, when nothing is appended any more.
func (f *Follower) Finish(ctx context.Context, handle Handler) {
	list, err := f.laggingLogs(ctx)
	if err != nil {
		f.log.WarnContext(ctx, "stopped without reading what is left", "err", err)
		return
	}
	for f.behind = batches(list); len(f.behind) > 0 && ctx.Err() == nil; {
		f.continueBehind(ctx, time.Time{}, handle)
	}
}

// pause returns how long a follower pauses after a round of that duration.
func pause(took time.Duration) time.Duration {
	return min(max(minRound-took, (workShare-1)*took), maxPause)
}

func (f *Follower) round(ctx context.Context, all bool, handle Handler) {
	if f.onlyNotified && all {
		f.retryStuck()
	}
	list := f.takeGrown()
	if !f.leads(f.name) {
		f.mu.Lock()
		clear(f.stuck) // the leader has its own
		f.mu.Unlock()
		f.behind = nil
		return
	}
	work := make([]laggingLog, len(list))
	for i, workspace := range list {
		work[i].Workspace = workspace
	}
	if !f.onlyNotified && (all || slices.Contains(list, events.ID{})) {
		var err error
		if work, err = f.laggingLogs(ctx); err != nil {
			f.logError(ctx, "finding logs that have grown", err)
			return
		}
	}
	if all && len(f.behind) > 0 {
		f.behind = append(f.behind[1:], f.behind[0]) // it has had a second
	}
	continued := map[events.ID]bool{}
	for _, batch := range f.behind {
		for _, workspace := range batch {
			continued[workspace] = true
		}
	}
	work = slices.DeleteFunc(work, func(b laggingLog) bool { return continued[b.Workspace] || f.backingOff(b.Workspace) })
	for _, batch := range batches(work) {
		if ctx.Err() != nil {
			return
		}
		f.behind = append(f.behind, f.followPage(ctx, batch, handle)...)
	}
}

// A laggingLog is a log that has grown, and by how many events, 0 if that is not known.
type laggingLog struct {
	Workspace events.ID
	Events    int64
}

// batches divides logs into those that share transactions. Logs that are far behind share
// with fewer others: they divide a page among them, and each page has a fixed cost that
// does not pay for a few events of each log. Logs that are less behind come first, so that
// they do not wait for the others.
func batches(list []laggingLog) (all [][]events.ID) {
	slices.SortStableFunc(list, func(a, b laggingLog) int { return cmp.Compare(a.Events, b.Events) })
	for len(list) > 0 {
		n := 1
		for n < min(len(list), batchSize) && list[n].Events <= int64(batchWork/(n+1)) {
			n++
		}
		batch := make([]events.ID, n)
		for i := range batch {
			batch[i] = list[i].Workspace
		}
		all, list = append(all, batch), list[len(batch):]
	}
	return all
}

// followPage processes the next page of some logs, and returns those that have more. If one of them fails, each is
// followed by itself.
func (f *Follower) followPage(ctx context.Context, batch []events.ID, handle Handler) (left [][]events.ID) {
	more, err := f.handlePage(ctx, batch, handle)
	switch {
	case err == nil:
		f.clearBackoff(batch)
		if len(more) > 0 {
			left = append(left, more)
		}
	case f.ping(ctx) != nil:
		f.logError(ctx, "the database", err)
	case len(batch) == 1:
		f.backOff(ctx, batch[0], err)
	default:
		for _, workspace := range batch {
			left = append(left, f.followPage(ctx, []events.ID{workspace}, handle)...)
		}
	}
	return left
}

func (f *Follower) handlePage(ctx context.Context, batch []events.ID, handle Handler) (more []events.ID, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.pageTimeout)
	defer cancel()
	return handle(ctx, batch)
}

func (f *Follower) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, PageTimeout)
	defer cancel()
	return f.db.Ping(ctx)
}

// takeGrown returns and forgets the logs that f was notified about.
func (f *Follower) takeGrown() (list []events.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for workspace := range f.grown {
		list = append(list, workspace)
	}
	clear(f.grown)
	return list
}

// laggingLogs returns the logs that have grown beyond their checkpoints.
func (f *Follower) laggingLogs(ctx context.Context) ([]laggingLog, error) {
	ctx, cancel := context.WithTimeout(ctx, f.pageTimeout)
	defer cancel()
	names := f.names()
	if len(names) != 1 {
		return f.laggingInAny(ctx, names)
	}
	rows, _ := f.db.Query(ctx, `
		select l.workspace_id, l.head - greatest(c.seq, 0) from logs l
		left join checkpoints c on c.workspace_id = l.workspace_id and c.view = $1
		where l.head > greatest(c.seq, 0)`, names[0])
	return pgx.CollectRows(rows, pgx.RowToStructByPos[laggingLog])
}

// laggingInAny returns the logs that have grown beyond the checkpoint of any of names.
func (f *Follower) laggingInAny(ctx context.Context, names []string) ([]laggingLog, error) {
	rows, _ := f.db.Query(ctx, `
		select l.workspace_id, l.head - greatest(c.seq, 0) from logs l
		left join (select workspace_id, min(seq) as seq, count(*) as n from checkpoints where view = any($1) group by 1) c
			on c.workspace_id = l.workspace_id and c.n = $2
		where l.head > greatest(c.seq, 0)`, names, len(names))
	return pgx.CollectRows(rows, pgx.RowToStructByPos[laggingLog])
}

func (f *Follower) backingOff(workspace events.ID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.stuck[workspace].Over() // a later query finds the log again
}

func (f *Follower) backOff(ctx context.Context, workspace events.ID, err error) {
	if ctx.Err() != nil {
		return
	}
	f.mu.Lock()
	backoff := f.stuck[workspace].Longer()
	f.stuck[workspace] = backoff
	f.mu.Unlock()
	f.logError(ctx, "a log", err, "workspace", workspace, "again_in", backoff.wait)
}

// clearBackoff clears the backoff of logs that were followed successfully. If one of them was
// stuck, its cause may have held up the others too, so they are retried at once.
func (f *Follower) clearBackoff(list []events.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.ContainsFunc(list, func(workspace events.ID) bool { return f.stuck[workspace].wait > 0 }) {
		return
	}
	for workspace := range f.stuck {
		if !slices.Contains(list, workspace) {
			f.grown[workspace] = true
		}
	}
	clear(f.stuck)
	select {
	case f.wake <- struct{}{}:
	default: // it has been woken already
	}
}

// retryStuck makes f retry the logs that are stuck.
func (f *Follower) retryStuck() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for workspace := range f.stuck {
		f.grown[workspace] = true
	}
}

func (f *Follower) logError(ctx context.Context, what string, err error, more ...any) {
	if ctx.Err() == nil {
		f.log.ErrorContext(ctx, "following failed", append(more, "at", what, "err", err)...)
	}
}
