// Package feed delivers new events of a workspace's log to watchers, for live updates.
//
// Like a follower, a feed is notified of logs that have grown and also polls.
// Unlike a follower it keeps no checkpoint: it reads only for those who are watching.
package feed

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
)

const (
	pageSize     = 500              // events that are read together
	tailSize     = 1000             // of the newest events of a watched log, kept in memory
	pollInterval = 2 * time.Second  // how often heads are read, in case a notification was lost
	queryTimeout = 10 * time.Second // limit for a query
)

// A Feed delivers new events of logs to watchers.
//
// [Feed.Moved] notifies it that a log has grown; it also polls the heads of logs. Events
// are always read from the log, so no watcher misses one or gets one twice or out of order,
// whatever happens to notifications. Watchers of the same workspace share what was read.
// Watchers that are far behind read for themselves, one at a time.
//
// A log may also be set back: a backup is restored, or a replica without the newest events
// becomes the primary. Watchers are told so by [ErrSetBack] and start again.
type Feed struct {
	db    *pgxpool.Pool
	log   *slog.Logger
	turns turns // for watchers that are far behind
	poll  time.Duration
	wake  chan struct{} // holds a value when there are hints

	mu    sync.Mutex
	tails map[events.ID]*tail // of watched logs
	hints map[events.ID]bool  // watched logs that have grown to an unknown head
}

// New returns a Feed. It does not poll until Run is called.
func New(db *pgxpool.Pool, log *slog.Logger) *Feed {
	return &Feed{
		db: db, log: log, turns: newTurns(), poll: pollInterval, wake: make(chan struct{}, 1),
		tails: map[events.ID]*tail{}, hints: map[events.ID]bool{},
	}
}

// News is what watchers are told of an event: what kind of thing happened to what, and
// when. The target has no name.
type News struct {
	Seq    int64
	At     time.Time
	Kind   string
	Target events.Target
}

// A tail is the end of a log that somebody watches. A log that was set back gets a new one.
type tail struct {
	workspace events.ID
	watches   map[*Watch]bool // guarded by Feed.mu
	head      int64           // the highest known head, guarded by Feed.mu
	newest    mark            // the newest event whose id is known, guarded by Feed.mu
	setBack   bool            // the log was set back and the tail is no longer used, guarded by Feed.mu

	reading sync.Mutex // held while one watcher reads; the others then find what it read
	from    int64      // number of the event before list; -1 if nothing was read
	list    []News
}

// A mark is an event that a log had.
type mark struct {
	seq int64
	id  events.ID // zero if it is unknown
}

// A Watch watches one workspace's log. Close it after use. Only one goroutine at a time may
// use it.
type Watch struct {
	// Moved holds a value when there may be more to read.
	Moved chan struct{}

	feed  *Feed
	tail  *tail
	nouns []string // nouns of interest whose target is in the event's data
}

// namingTarget returns the nouns whose events contain their target. The target of other
// events is their stream, so their data need not be decoded.
func namingTarget() []string {
	return events.NounsWhere(func(n events.Noun) bool { return n.NamesTarget })
}

// Watch starts watching a workspace. The target may be missing in events whose noun is not
// in nouns.
func (f *Feed) Watch(workspace events.ID, nouns []string) *Watch {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &Watch{Moved: make(chan struct{}, 1), feed: f}
	f.join(w, workspace)
	for _, noun := range namingTarget() {
		if slices.Contains(nouns, noun) {
			w.nouns = append(w.nouns, noun)
		}
	}
	return w
}

// join adds w to the watches of a log.
func (f *Feed) join(w *Watch, workspace events.ID) {
	t := f.tails[workspace]
	if t == nil {
		t = &tail{workspace: workspace, watches: map[*Watch]bool{}, from: -1}
		f.tails[workspace] = t
	}
	t.watches[w], w.tail = true, t
}

// Close ends the watch.
func (w *Watch) Close() {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	if delete(w.tail.watches, w); len(w.tail.watches) == 0 {
		w.feed.remove(w.tail)
	}
}

// remove removes a tail, unless the log has a newer one.
func (f *Feed) remove(t *tail) {
	if f.tails[t.workspace] == t {
		delete(f.tails, t.workspace)
	}
}

// Moved notifies f that a log has grown up to head. It may be called repeatedly and in any
// order. If head is 0 the head is unknown, and if workspace is zero too any log may have
// grown: f then reads the heads. It does not block.
func (f *Feed) Moved(workspace events.ID, head int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if head == 0 {
		f.addHint(workspace)
		return
	}
	if t := f.tails[workspace]; t != nil && t.head < head {
		t.head = head
		t.notify()
	}
}

func (t *tail) notify() {
	for w := range t.watches {
		select {
		case w.Moved <- struct{}{}:
		default: // it has been notified already
		}
	}
}

// Knows reports whether f need not be notified of an event: it knows the event already, as
// it does of all that this process appends, or nobody watches the log.
func (f *Feed) Knows(workspace events.ID, seq int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tails[workspace]
	return t == nil || t.head >= seq
}

// addHint makes f read the head of a watched log, or of all watched logs if workspace is
// zero.
func (f *Feed) addHint(workspace events.ID) {
	if f.tails[workspace] == nil && !workspace.IsZero() {
		return
	}
	f.hints[workspace] = true
	select {
	case f.wake <- struct{}{}:
	default: // it has been woken already
	}
}

// After returns events that follow seq, oldest first. Repeated calls return everything up
// to the known head, and then nothing. A watcher that is far behind waits for its turn. The
// error is [ErrSetBack] once the log was set back, until Head is called.
func (w *Watch) After(ctx context.Context, seq int64) (list []News, err error) {
	t := w.tail
	w.feed.mu.Lock()
	head, setBack := t.head, t.setBack
	w.feed.mu.Unlock()
	if setBack {
		return nil, ErrSetBack
	}
	if head-seq > tailSize {
		err = w.feed.turns.run(ctx, func() error {
			list, err = w.read(ctx, seq, w.nouns)
			return err
		})
		return list, err
	}
	t.reading.Lock()
	switch {
	case t.from < 0:
		t.from = seq
	case seq < t.from: // the watcher is behind the list
		t.reading.Unlock()
		return w.read(ctx, seq, w.nouns)
	}
	defer t.reading.Unlock()
	end := t.from + int64(len(t.list))
	if seq > end { // the watcher is ahead of the list
		t.from, t.list, end = seq, nil, seq
	}
	if seq == end && head > end {
		more, err := w.read(ctx, end, namingTarget())
		if err != nil {
			return nil, err
		}
		t.list = append(t.list, more...)
		if over := len(t.list) - tailSize; over > 0 {
			t.from, t.list = t.from+int64(over), slices.Clone(t.list[over:])
		}
	}
	return slices.Clip(t.list[seq-t.from:]), nil
}

// read reads events from the log. It decodes only those of nouns. If the event at seq is the
// newest whose id is known, it reads that too, to see whether the log still has it.
func (w *Watch) read(ctx context.Context, seq int64, nouns []string) (list []News, err error) {
	f, t := w.feed, w.tail
	f.mu.Lock()
	from := seq
	if seq > 0 && seq == t.newest.seq {
		from--
	}
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, _ := f.db.Query(ctx, `
		select workspace_id, seq, id, stream, version, kind, schema, at, null::json,
			case when split_part(kind, '.', 1) = any($4) then data end
		from events where workspace_id = $1 and seq > $2 order by seq limit $3`, t.workspace, from, pageSize, nouns)
	var marks []mark
	list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (News, error) { // keeps no event, which may be large
		r, err := store.Scan(row)
		if err != nil {
			return News{}, err
		}
		marks = append(marks, mark{r.Seq, r.ID})
		target := r.Target()
		target.Name = ""
		return News{Seq: r.Seq, At: r.At, Kind: r.Event.Kind(), Target: target}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("news: read log %s after %d: %w", t.workspace, seq, err)
	}
	if !f.compare(t, from, marks) {
		return nil, ErrSetBack
	}
	for i, n := range list {
		if want := from + int64(i) + 1; n.Seq != want {
			return nil, fmt.Errorf("news: log %s: event %d is missing, found %d in its place", t.workspace, want, n.Seq)
		}
	}
	return list[min(int(seq-from), len(list)):], nil
}
