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

// A comparedView is a view while its log is folded.
type comparedView struct {
	view       View
	comparison Comparison
	at, to     int64   // position reached, and position to fold up to
	beyond     int64   // the view's checkpoint if it lies beyond the head of the log, else 0
	damaged    []int64 // events that the view has folded but that cannot be read now
	skipped    string  // why the view is not compared
}

// errMoved says that a view's checkpoint went back while it was compared.
var errMoved = errors.New("it was rebuilt, or the log was set back, at the same time")

// locate reads the head of the log and each view's checkpoint and form.
func (c *comparer) locate(ctx context.Context, db Batcher) error {
	var head int64
	positions, forms := map[string]int64{}, map[string]int{}
	b := &pgx.Batch{}
	b.Queue(`
		select coalesce((select head from logs where workspace_id = $1), 0)`, c.workspace).
		QueryRow(func(row pgx.Row) error { return row.Scan(&head) })
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
		if v.view.Mode() == Followed {
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
	c.beyondHead = positions
	return nil
}

// reportPositions reports followers whose checkpoint lies beyond the head of the log: they would skip
// the events in between.
func (c *comparer) reportPositions(f *Findings) {
	for _, name := range slices.Sorted(maps.Keys(c.beyondHead)) {
		f.Add(name, "position", fmt.Sprint(c.beyondHead[name]), fmt.Sprint(c.Events))
	}
}

// reportEvents reports a view's checkpoint beyond the head, and damaged events.
func (v *comparedView) reportEvents(head int64, f *Findings) {
	if v.beyond > 0 {
		f.Add(v.view.Name(), "position", fmt.Sprint(v.beyond), fmt.Sprint(head))
	}
	for _, seq := range v.damaged {
		f.Add(v.view.Name(), fmt.Sprintf("event %d", seq), "", "what cannot be read any more")
	}
}

// foldPage folds the records of a page that come next. An event that a followed view cannot fold is
// left out, because the view has parked it as well. A view of another mode never skips an event, so
// a damaged event is reported.
func (v *comparedView) foldPage(ctx context.Context, db Batcher, list []events.Record) error {
	if v.skipped != "" || v.at == v.to {
		return nil
	}
	index := func(seq int64) int64 { return min(max(seq-list[0].Seq, 0), int64(len(list))) }
	list = list[index(v.at+1):index(v.to+1)]
	if p, ok := v.comparison.(preparer); ok && len(list) > 0 {
		if err := p.Prepare(ctx, db, list); err != nil {
			return err
		}
	}
	for _, r := range list {
		if v.skipped != "" || r.Seq != v.at+1 {
			break
		}
		v.at = r.Seq
		err := v.foldEvent(r)
		switch {
		case err == nil:
		case !CausedByEvent(err):
			v.skipped = fmt.Sprintf("event %d: %v", r.Seq, err)
		case v.view.Mode() != Followed:
			v.damaged = append(v.damaged, r.Seq)
		}
	}
	return nil
}

// foldEvent folds an event if the view handles its kind.
func (v *comparedView) foldEvent(r events.Record) error {
	if unread, ok := r.Event.(events.Undecoded); ok {
		if !v.view.Folds(unread.Name) {
			return nil
		}
		_, err := events.Decode(unread.Name, r.Schema, r.Data)
		if err != nil && !(v.view.FoldsDamaged() && errors.Is(err, events.ErrDamaged)) {
			return err
		}
	}
	return v.comparison.Fold(r)
}
