package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/events/store"
)

// ErrSetBack means that the log no longer has events that it had. The watcher has to drop
// what it knows of the log and start again with [Watch.Head].
var ErrSetBack = errors.New("the log was set back")

// Run reads heads, of hinted logs at once and of all watched logs regularly, until ctx
// ends.
func (f *Feed) Run(ctx context.Context) {
	ticker := time.NewTicker(f.poll)
	defer ticker.Stop()
	for {
		all := false
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			all = true
		case <-f.wake:
		}
		if err := f.readHeads(ctx, f.takeHinted(all)); err != nil && ctx.Err() == nil {
			f.log.ErrorContext(ctx, "read new events", "err", err)
		}
	}
}

// A question asks the database how far a log goes.
type question struct {
	tail   *tail
	head   int64 // what was known before
	newest mark
}

// ask returns a question about a log that is watched.
func (t *tail) ask() question { return question{t, max(t.head, t.newest.seq), t.newest} }

// takeHinted returns questions about the watched logs that were hinted at, or about all of them
// if all is true or a hint was for any log.
func (f *Feed) takeHinted(all bool) map[events.ID]question {
	f.mu.Lock()
	defer f.mu.Unlock()
	all = all || f.hints[events.ID{}]
	asked := map[events.ID]question{}
	for workspace, t := range f.tails {
		if all || f.hints[workspace] {
			asked[workspace] = t.ask()
		}
	}
	clear(f.hints)
	return asked
}

// readHeads reads the heads of logs.
func (f *Feed) readHeads(ctx context.Context, asked map[events.ID]question) error {
	if len(asked) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	var newest []store.Position
	for workspace, q := range asked {
		newest = append(newest, store.Position{Workspace: workspace, Seq: q.newest.seq})
	}
	workspaces, seqs := store.Columns(newest)
	rows, _ := f.db.Query(ctx, `
		select k.workspace_id, l.head, l.id, l.known, pg_is_in_recovery()
		from unnest((select $1::uuid[]), (select $2::bigint[])) as k (workspace_id, seq)
		cross join lateral (
			select head, (select id from events e where e.workspace_id = k.workspace_id and e.seq = head) as id,
				(select id from events e where e.workspace_id = k.workspace_id and e.seq = k.seq) as known
			from logs where workspace_id = k.workspace_id offset 0) l`, workspaces, seqs)
	var workspace events.ID
	var found answer
	_, err := pgx.ForEachRow(rows, append([]any{&workspace}, found.targets()...), func() error {
		f.learn(asked[workspace], found)
		return nil
	})
	return err
}

// An answer is how far the database says that a log goes.
type answer struct {
	head      int64
	id, known *events.ID // of the events at the head and at the newest one that was known; nil if there is none
	standby   bool       // it may lag behind the primary
}

func (a *answer) targets() []any { return []any{&a.head, &a.id, &a.known, &a.standby} }

// learn takes note of the answer to a question. ok is false if the log was set back.
//
// What was known before the question was asked had been committed, so a primary that answers
// with a lower head has lost it. A log that has grown again has another event in its place.
func (f *Feed) learn(asked question, found answer) (ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, was := asked.tail, asked.newest
	isShorter := found.head < asked.head && !found.standby
	differs := 0 < was.seq && was.seq <= found.head && (found.known == nil || *found.known != was.id)
	if isShorter || differs {
		f.setBack(t)
	}
	if t.setBack {
		return false
	}
	if found.id != nil && found.head > was.seq && t.newest == was {
		t.newest = mark{found.head, *found.id}
	}
	if found.head > t.head {
		t.head = found.head
		t.notify()
	}
	return true
}

// compare compares events after from, as read from the log, with the newest one that was known, and
// takes note of the last. ok is false if the log was set back.
func (f *Feed) compare(t *tail, from int64, read []mark) (ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(read) > 0 {
		last, isKnown := read[len(read)-1], slices.Contains(read, t.newest)
		if from < t.newest.seq && t.newest.seq <= last.seq && !isKnown {
			f.setBack(t)
		}
		if isKnown || t.newest.seq == 0 {
			t.newest = last
		}
	}
	return !t.setBack
}

// setBack makes the watchers of a log start again.
func (f *Feed) setBack(t *tail) {
	if t.setBack {
		return
	}
	f.log.Error("the log was set back or changed: watchers start again", "workspace", t.workspace, "head", t.head)
	t.setBack = true
	f.remove(t)
	t.notify()
}

// Head returns the number of the newest event of the log. After [ErrSetBack] the watch starts
// again with it.
func (w *Watch) Head(ctx context.Context) (int64, error) {
	f := w.feed
	for {
		f.mu.Lock()
		if w.tail.setBack {
			f.join(w, w.tail.workspace)
		}
		asked := w.tail.ask()
		f.mu.Unlock()
		found, err := w.head(ctx, asked.newest.seq)
		if err != nil {
			return 0, err
		}
		if f.learn(asked, found) {
			return found.head, nil
		}
	}
}

func (w *Watch) head(ctx context.Context, newest int64) (found answer, err error) {
	rows, _ := w.feed.db.Query(ctx, `
		select head, (select id from events where workspace_id = $1 and seq = head),
			(select id from events where workspace_id = $1 and seq = $2), pg_is_in_recovery()
		from logs where workspace_id = $1`, w.tail.workspace, newest)
	if _, err = pgx.ForEachRow(rows, found.targets(), func() error { return nil }); err != nil {
		return found, fmt.Errorf("read head of %s: %w", w.tail.workspace, err)
	}
	return found, nil
}
