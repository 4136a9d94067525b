package fold

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/events/store"
)

// InlineViews returns the views that are [Inline], in the form that a store updates while it appends.
func InlineViews(views []View) (list []store.View) {
	for _, v := range ViewsWithMode(views, Inline) {
		list = append(list, inline{v})
	}
	return list
}

type inline struct{ view View }

// Name returns the name of the view.
func (v inline) Name() string { return v.view.Name() }

// Load adapts View.Load to a store, which allows a single step after reading.
func (v inline) Load(b *pgx.Batch, records []events.Record) func(*pgx.Batch) error {
	change := v.view.Load(b, v.view.Name(), records)
	if change == nil {
		return nil
	}
	return func(b *pgx.Batch) error {
		next, err := change(b)
		if err == nil && next != nil {
			err = fmt.Errorf("inline view %s takes more than one step", v.view.Name())
		}
		return err
	}
}
