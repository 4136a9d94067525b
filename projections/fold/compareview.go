package fold

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"svc/events"
)

// A comparedView is a view on its way through a log.
type comparedView struct {
	view    View
	fold    Comparison
	at, to  int64   // it has taken in the events up to at, and is to take in those up to to
	beyond  int64   // the position of the view, if the log is shorter
	damaged []int64 // events that it has taken in, and that cannot be read now
	skipped string  // why it is not compared
}

// errMoved says that a view has been set back while it was compared.
var errMoved = errors.New("it was rebuilt, or the log was set back, at the same time")

// locate finds out how far each view has come.
func (c *comparing) locate(ctx context.Context, db batcher) error {
	var head int64
	positions, forms := map[string]int64{}, map[string]int{}
	b := &pgx.Batch{}
	b.Queue(`select coalesce((select head from logs where workspace_id = $1), 0)`, c.workspace).QueryRow(func(row pgx.Row) error { return row.Scan(&head) })
	var name string
	var n int64
	b.Queue(`select view, seq from checkpoints where workspace_id = $1`, c.workspace).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error { positions[name] = n; return nil })
		return err
	})
	b.Queue(`select name, form from views`).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error { forms[name] = int(n); return nil })
		return err
	})
	if err := db.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("read positions: %w", err)
	}
	c.Events = head
	for _, v := range c.views {
		to, form := head, 1
		if v.view.Kept() == Followed {
			to = positions[v.view.Name()]
		}
		if known := forms[v.view.Name()]; known > 0 {
			form = known
		}
		if form != v.view.Form() {
			v.skipped = fmt.Sprintf("its rows have form %d, this build makes form %d: rebuild it", form, v.view.Form())
		}
		if to < v.at && v.skipped == "" {
			return fmt.Errorf("view %s: %w", v.view.Name(), errMoved)
		}
		delete(positions, v.view.Name())
		v.to, v.beyond = min(to, head), 0
		if to > head {
			v.beyond = to
		}
	}
	maps.DeleteFunc(positions, func(_ string, seq int64) bool { return seq <= head })
	c.ahead = positions
	return nil
}

// tellPositions tells who has come further than the log, of those that keep their
// position where views do: the events in between would pass them by.
func (c *comparing) tellPositions(f *Findings) {
	for _, name := range slices.Sorted(maps.Keys(c.ahead)) {
		f.Add(name, "position", fmt.Sprint(c.ahead[name]), fmt.Sprint(c.Events))
	}
}

// tellEvents tells of what is wrong with the events that the view has taken in.
func (v *comparedView) tellEvents(head int64, f *Findings) {
	if v.beyond > 0 {
		f.Add(v.view.Name(), "position", fmt.Sprint(v.beyond), fmt.Sprint(head))
	}
	for _, seq := range v.damaged {
		f.Add(v.view.Name(), fmt.Sprintf("event %d", seq), "", "what cannot be read any more")
	}
}

// take folds those of a page of records that follow. What a followed view cannot take
// in, and has parked, is left out, as it is there; of what is damaged in the log of one
// that goes on without nothing, it is told. Whether an event is said to be parked makes
// no difference: anybody who can write to the database can say so of any event.
func (v *comparedView) take(list []events.Record) error {
	for _, r := range list {
		if v.skipped != "" || r.Seq != v.at+1 || r.Seq > v.to {
			continue
		}
		v.at = r.Seq
		err := v.one(r)
		switch {
		case err == nil:
		case !poisonous(err):
			v.skipped = fmt.Sprintf("event %d: %v", r.Seq, err)
		case v.view.Kept() != Followed:
			v.damaged = append(v.damaged, r.Seq)
		}
	}
	return nil
}

// one folds an event, unless it is nothing to the view.
func (v *comparedView) one(r events.Record) error {
	if unread, ok := r.Event.(events.Undecoded); ok && !v.view.TakesUnread() {
		if !v.view.Takes(unread.Name) {
			return nil
		}
		if _, err := events.Decode(unread.Name, r.Schema, r.Data); err != nil {
			return err
		}
	}
	return v.fold.Take(r)
}
