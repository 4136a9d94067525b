// Package follow keeps something up with all logs: views, Merkle logs, the bus.
//
// How far it has come in each log is a row of checkpoints, which changes in the
// transaction that has the work. So what dies in the middle has done nothing,
// and where two processes are at the same log, the row lets one of them be.
//
// Up to 128 logs share a transaction, so that a thousand logs that grow a little
// cost about as much as one that grows a lot; of logs that are far behind fewer do.
// A follower that is busy rests between rounds, which leaves the database to those
// who append. It is woken by whoever appends; a hint may be lost, for each second it
// looks at all logs.
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
	batchWork  = 1000                   // events that a batch takes in together, where it is known how far logs are behind
	gather     = 10 * time.Millisecond  // between the beginnings of two rounds, in which more logs grow
	share      = 4                      // of the time, one part in so many is for rounds: those who append come first
	maxPause   = 250 * time.Millisecond // between the end of one and the next
	poll       = time.Second            // how often it looks for what nobody told it of
	minBackoff = time.Second            // of a log that cannot be followed; it grows exponentially, up to
	maxBackoff = 15 * time.Second
)

// A Follower finds the logs that have grown. Any number of processes may have
// one of the same name: the one that leads works.
type Follower struct {
	db    *pgxpool.Pool
	name  string
	names func() []string // whose checkpoints are looked at: those of name, unless several share the work
	leads func(name string) bool
	told  bool // it looks at no log that it was not told of
	log   *slog.Logger
	wake  chan struct{}
	every time.Duration // between the beginnings of two rounds at least

	mu    sync.Mutex
	dirty map[events.ID]bool // logs that have grown; the zero ID: any may have
	stuck map[events.ID]Backoff
}

// A Take takes in the next events of logs, in one transaction, and returns the
// logs of which there may be more. If there is an error in one log of several
// it is called again for each alone.
type Take func(ctx context.Context, workspaces []events.ID) (more []events.ID, err error)

// A Backoff says how long a log that cannot be followed is left alone.
type Backoff struct {
	wait  time.Duration
	until time.Time
}

// Longer returns the backoff that begins now, twice as long as b up to a limit.
func (b Backoff) Longer() Backoff {
	wait := min(max(2*b.wait, minBackoff), maxBackoff)
	return Backoff{wait, time.Now().Add(wait)}
}

// Over reports whether the log may be tried again.
func (b Backoff) Over() bool { return !time.Now().Before(b.until) }

// New returns a follower that does nothing until it runs. Its checkpoints are
// those of that name.
func New(db *pgxpool.Pool, name string, leads func(name string) bool, log *slog.Logger) *Follower {
	return &Follower{
		db: db, name: name, names: func() []string { return []string{name} }, leads: leads, log: log.With("view", name),
		wake: make(chan struct{}, 1), dirty: map[events.ID]bool{}, stuck: map[events.ID]Backoff{},
	}
}

// NewShared returns a follower for several that share the work: it finds the logs
// in which any of them is behind. names are those that this process leads at the moment.
func NewShared(db *pgxpool.Pool, names func() []string, log *slog.Logger) *Follower {
	f := New(db, "shared", func(string) bool { return len(names()) > 0 }, log)
	f.names = names
	return f
}

// OnlyTold has f follow the logs that it is told of, until they have been taken in,
// and find no others by itself. Call it before Run.
func (f *Follower) OnlyTold() { f.told = true }

// AtMostEvery has each log followed no more often than that, but for one of which
// there is more than a page. Call it before Run.
func (f *Follower) AtMostEvery(every time.Duration) { f.every = every }

// Moved tells f that a log has grown, or any if workspace is zero. It does not block.
func (f *Follower) Moved(workspace events.ID) {
	f.mu.Lock()
	f.dirty[workspace] = true
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Stuck returns how many logs cannot be followed at present.
func (f *Follower) Stuck() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.stuck)
}

// Run follows until ctx ends.
func (f *Follower) Run(ctx context.Context, take Take) {
	look := time.NewTicker(poll)
	defer look.Stop()
	for everywhere := true; ctx.Err() == nil; {
		began := time.Now()
		f.round(ctx, everywhere, take)
		took := time.Since(began)
		everywhere = false
		select {
		case <-ctx.Done():
		case <-look.C:
			everywhere = true
		case <-f.wake:
		}
		select {
		case <-ctx.Done():
		case <-time.After(max(pause(took)+took, f.every) - time.Since(began)):
		}
	}
}

// Finish takes in what is left, whoever leads, and returns when that is done or ctx
// ends. Call it after Run, when nothing is appended any more.
func (f *Follower) Finish(ctx context.Context, take Take) {
	list, err := f.behind(ctx)
	if err != nil {
		f.log.WarnContext(ctx, "ends without knowing what is left", "err", err)
		return
	}
	for _, some := range batches(list) {
		f.follow(ctx, some, take)
	}
}

// pause is how long a follower whose round took so long leaves the database to
// others: most of the time, unless there is so much to do that it never comes to rest.
func pause(took time.Duration) time.Duration {
	return min(max(gather-took, (share-1)*took), maxPause)
}

func (f *Follower) round(ctx context.Context, everywhere bool, take Take) {
	if f.told && everywhere {
		f.again()
	}
	list := f.moved()
	if !f.leads(f.name) {
		f.mu.Lock()
		clear(f.stuck) // whoever leads finds out
		f.mu.Unlock()
		return
	}
	work := make([]behind, len(list))
	for i, workspace := range list {
		work[i].Workspace = workspace
	}
	if !f.told && (everywhere || slices.Contains(list, events.ID{})) {
		var err error
		if work, err = f.behind(ctx); err != nil {
			f.complain(ctx, "finding logs that have grown", err)
			return
		}
	}
	work = slices.DeleteFunc(work, func(b behind) bool { return f.rests(b.Workspace) })
	for _, some := range batches(work) {
		f.follow(ctx, some, take)
	}
}

// A behind is a log that has grown by so many events, 0 if that is not known.
type behind struct {
	Workspace events.ID
	Events    int64
}

// batches divides logs into those that share transactions. Of some that are far behind
// fewer do: they share a page, and where each has but a few events of it there is much
// that is done again for the next page. Logs wait for none that is farther behind.
func batches(list []behind) (all [][]events.ID) {
	slices.SortStableFunc(list, func(a, b behind) int { return cmp.Compare(a.Events, b.Events) })
	for len(list) > 0 {
		n := 1
		for n < min(len(list), batchSize) && int64(n+1)*list[n].Events <= batchWork {
			n++
		}
		some := make([]events.ID, n)
		for i := range some {
			some[i] = list[i].Workspace
		}
		all, list = append(all, some), list[len(some):]
	}
	return all
}

// follow takes in what there is of some logs. If something is wrong with one of
// them the others go on.
func (f *Follower) follow(ctx context.Context, some []events.ID, take Take) {
	for len(some) > 0 && ctx.Err() == nil {
		more, err := take(ctx, some)
		switch {
		case err == nil:
			f.release(some)
			some = more
		case f.db.Ping(ctx) != nil:
			f.complain(ctx, "the database", err)
			return
		case len(some) == 1:
			f.leave(ctx, some[0], err)
			return
		default:
			for _, workspace := range some {
				f.follow(ctx, []events.ID{workspace}, take)
			}
			return
		}
	}
}

// moved returns the logs that f was told of since it last asked.
func (f *Follower) moved() (list []events.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for workspace := range f.dirty {
		list = append(list, workspace)
	}
	clear(f.dirty)
	return list
}

// behind finds the logs that have grown.
func (f *Follower) behind(ctx context.Context) ([]behind, error) {
	names := f.names()
	if len(names) != 1 {
		return f.anyBehind(ctx, names)
	}
	rows, _ := f.db.Query(ctx, `
		select l.workspace_id, l.head - coalesce(c.seq, 0) from logs l
		left join checkpoints c on c.workspace_id = l.workspace_id and c.view = $1
		where l.head > coalesce(c.seq, 0)`, names[0])
	return pgx.CollectRows(rows, pgx.RowToStructByPos[behind])
}

// anyBehind finds the logs that have grown beyond the checkpoint of any of names.
func (f *Follower) anyBehind(ctx context.Context, names []string) ([]behind, error) {
	rows, _ := f.db.Query(ctx, `
		select l.workspace_id, l.head - coalesce(c.seq, 0) from logs l
		left join (select workspace_id, min(seq) as seq, count(*) as n from checkpoints where view = any($1) group by 1) c
			on c.workspace_id = l.workspace_id and c.n = $2
		where l.head > coalesce(c.seq, 0)`, names, len(names))
	return pgx.CollectRows(rows, pgx.RowToStructByPos[behind])
}

func (f *Follower) rests(workspace events.ID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.stuck[workspace].Over() // it is found again
}

func (f *Follower) leave(ctx context.Context, workspace events.ID, err error) {
	if ctx.Err() != nil {
		return
	}
	f.mu.Lock()
	again := f.stuck[workspace].Longer()
	f.stuck[workspace] = again
	f.mu.Unlock()
	f.complain(ctx, "a log", err, "workspace", workspace, "again_in", again.wait)
}

// release forgets that logs were stuck. If one of them was, what held it up may have
// held up the others that are: they are tried again at once.
func (f *Follower) release(list []events.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.ContainsFunc(list, func(workspace events.ID) bool { return f.stuck[workspace].wait > 0 }) {
		return
	}
	for workspace := range f.stuck {
		if !slices.Contains(list, workspace) {
			f.dirty[workspace] = true
		}
	}
	clear(f.stuck)
	select {
	case f.wake <- struct{}{}:
	default: // it is awake already
	}
}

// again has f look at the logs that it could not follow.
func (f *Follower) again() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for workspace := range f.stuck {
		f.dirty[workspace] = true
	}
}

func (f *Follower) complain(ctx context.Context, what string, err error, more ...any) {
	if ctx.Err() == nil {
		f.log.ErrorContext(ctx, "standing still", append(more, "at", what, "err", err)...)
	}
}
