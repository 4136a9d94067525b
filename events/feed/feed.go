// Package feed tells those who watch a workspace what is new in its log.
//
// It stands beside follow: both are told of logs that have grown, and look for
// themselves. A follower moves a checkpoint; a feed keeps nothing, and reads for
// those who are there.
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
	newsPage = 500              // that are read together
	newsKept = 1000             // of the newest of a watched log, in memory
	newsPoll = 2 * time.Second  // how often heads are read, for what nobody told of
	newsWait = 10 * time.Second // for the database
)

// A Feed tells those who watch a workspace what is new in its log.
//
// That a log has grown it is told by [Feed.Moved], or sees for itself a little
// later. What is new it reads from the log: so nobody misses an event, or gets
// one twice or out of order, whatever became of the telling. Those who watch the
// same workspace share what was read. Who comes from long ago reads alone, and
// all who do take turns.
type Feed struct {
	db   *pgxpool.Pool
	log  *slog.Logger
	pace pace // of those who are far behind
	poll time.Duration
	wake chan struct{} // has a value when there are hints

	mu    sync.Mutex
	tails map[events.ID]*tail // of the logs that are watched
	hints map[events.ID]bool  // watched logs that have grown, nobody said how far
}

// New returns a Feed that sees nothing for itself until it runs.
func New(db *pgxpool.Pool, log *slog.Logger) *Feed {
	return &Feed{
		db: db, log: log, pace: newPace(), poll: newsPoll, wake: make(chan struct{}, 1),
		tails: map[events.ID]*tail{}, hints: map[events.ID]bool{},
	}
}

// News is an event as far as those who only follow along are told: what kind of
// thing happened to what, and when. The target has no name.
type News struct {
	Seq    int64
	At     time.Time
	Kind   string
	Target events.Target
}

// A tail is the end of a log that somebody watches.
type tail struct {
	workspace events.ID
	watches   map[*Watch]bool // under Feed.mu
	head      int64           // as far as anybody said, under Feed.mu

	reading sync.Mutex // by one at a time; the others find what it read
	from    int64      // list begins after this one; -1 if it has not begun
	list    []News
}

// A Watch looks at one workspace's log. Close it.
type Watch struct {
	// Moved has a value when there may be more to read.
	Moved chan struct{}

	feed  *Feed
	tail  *tail
	nouns []string // of those whose target is in the data, those that are of interest
}

// namingTarget returns the nouns whose events say what they happened to. The others
// happened to their stream, and need not be decoded to tell.
func namingTarget() []string {
	return events.NounsThat(func(n events.Noun) bool { return n.NamesTarget })
}

// Watch begins to watch a workspace. Of events whose kind begins with none of
// nouns the target may be left out.
func (f *Feed) Watch(workspace events.ID, nouns []string) *Watch {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tails[workspace]
	if t == nil {
		t = &tail{workspace: workspace, watches: map[*Watch]bool{}, from: -1}
		f.tails[workspace] = t
	}
	w := &Watch{Moved: make(chan struct{}, 1), feed: f, tail: t}
	for _, noun := range namingTarget() {
		if slices.Contains(nouns, noun) {
			w.nouns = append(w.nouns, noun)
		}
	}
	t.watches[w] = true
	return w
}

// Close ends the watch.
func (w *Watch) Close() {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	if delete(w.tail.watches, w); len(w.tail.watches) == 0 {
		delete(w.feed.tails, w.tail.workspace)
	}
}

// Moved tells f that a log has grown up to head, as often and in whatever order.
// Head 0 is a hint that it has grown, and with workspace zero that any may have:
// then f looks. It does not block.
func (f *Feed) Moved(workspace events.ID, head int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if head == 0 {
		f.hinted(workspace)
		return
	}
	t := f.tails[workspace]
	if t == nil || t.head >= head {
		return
	}
	t.head = head
	for w := range t.watches {
		select {
		case w.Moved <- struct{}{}:
		default: // it knows already
		}
	}
}

// Knows reports whether f need not be told of an event: it was told, as of all that this
// process appends, or nobody watches the log.
func (f *Feed) Knows(workspace events.ID, seq int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tails[workspace]
	return t == nil || t.head >= seq
}

// hinted has the head of a log read that is watched, or of all of them if
// workspace is zero.
func (f *Feed) hinted(workspace events.ID) {
	if f.tails[workspace] == nil && !workspace.IsZero() {
		return
	}
	f.hints[workspace] = true
	select {
	case f.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Run looks, where it is hinted at and at times everywhere, until ctx ends.
func (f *Feed) Run(ctx context.Context) {
	look := time.NewTicker(f.poll)
	defer look.Stop()
	for {
		everywhere := false
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			everywhere = true
		case <-f.wake:
		}
		if err := f.look(ctx, f.watched(everywhere)); err != nil && ctx.Err() == nil {
			f.log.ErrorContext(ctx, "look for news", "err", err)
		}
	}
}

// watched returns the watched logs that were hinted at, or all of them.
func (f *Feed) watched(everywhere bool) (list []events.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	everywhere = everywhere || f.hints[events.ID{}]
	for workspace := range f.tails {
		if everywhere || f.hints[workspace] {
			list = append(list, workspace)
		}
	}
	clear(f.hints)
	return list
}

// look reads how far logs have come.
func (f *Feed) look(ctx context.Context, watched []events.ID) error {
	if len(watched) == 0 {
		return nil
	}
	rows, _ := f.db.Query(ctx, `
		select k.workspace_id, l.head from unnest((select $1::uuid[])) as k (workspace_id)
		cross join lateral (select head from logs where workspace_id = k.workspace_id offset 0) l`, watched)
	var workspace events.ID
	var head int64
	_, err := pgx.ForEachRow(rows, []any{&workspace, &head}, func() error { f.Moved(workspace, head); return nil })
	return err
}

// Head reads the number of the newest event of the log.
func (w *Watch) Head(ctx context.Context) (head int64, err error) {
	head, err = w.head(ctx)
	w.feed.Moved(w.tail.workspace, head)
	return head, err
}

func (w *Watch) head(ctx context.Context) (head int64, err error) {
	rows, _ := w.feed.db.Query(ctx, `select head from logs where workspace_id = $1`, w.tail.workspace)
	if _, err = pgx.ForEachRow(rows, []any{&head}, func() error { return nil }); err != nil {
		return 0, fmt.Errorf("head of %s: %w", w.tail.workspace, err)
	}
	return head, nil
}

// After returns what follows an event, the oldest first: a part of it, until
// all that is known to be there was returned, and then nothing. Far behind the
// head it waits for its turn.
func (w *Watch) After(ctx context.Context, seq int64) (list []News, err error) {
	w.feed.mu.Lock()
	head := w.tail.head
	w.feed.mu.Unlock()
	if head-seq > newsKept {
		err = w.feed.pace.take(ctx, func() error {
			list, err = w.read(ctx, seq, w.nouns)
			return err
		})
		return list, err
	}
	t := w.tail
	t.reading.Lock()
	switch {
	case t.from < 0:
		t.from = seq
	case seq < t.from: // it has been away for a moment
		t.reading.Unlock()
		return w.read(ctx, seq, w.nouns)
	}
	defer t.reading.Unlock()
	end := t.from + int64(len(t.list))
	if seq > end { // it knows of more than we have read
		t.from, t.list, end = seq, nil, seq
	}
	if seq == end && head > end {
		more, err := w.read(ctx, end, namingTarget())
		if err != nil {
			return nil, err
		}
		t.list = append(t.list, more...)
		if over := len(t.list) - newsKept; over > 0 {
			t.from, t.list = t.from+int64(over), slices.Clone(t.list[over:])
		}
	}
	return slices.Clip(t.list[seq-t.from:]), nil
}

// read reads from the log. It decodes no events but those of nouns.
func (w *Watch) read(ctx context.Context, seq int64, nouns []string) (list []News, err error) {
	ctx, cancel := context.WithTimeout(ctx, newsWait)
	defer cancel()
	rows, _ := w.feed.db.Query(ctx, `
		select workspace_id, seq, id, stream, version, kind, schema, at, null::json,
			case when split_part(kind, '.', 1) = any($4) then data end
		from events where workspace_id = $1 and seq > $2 order by seq limit $3`, w.tail.workspace, seq, newsPage, nouns)
	records, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (events.Record, error) { return store.ScanAny(row) })
	if err != nil {
		return nil, fmt.Errorf("news: read log %s after %d: %w", w.tail.workspace, seq, err)
	}
	for _, r := range records {
		if seq++; r.Seq != seq {
			return nil, fmt.Errorf("news: log %s: event %d is missing, found %d in its place", w.tail.workspace, seq, r.Seq)
		}
		target := r.Target()
		target.Name = ""
		list = append(list, News{Seq: r.Seq, At: r.At, Kind: r.Event.Kind(), Target: target})
	}
	return list, nil
}
