package fold

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/events/store"
)

// InlineOf returns those of the views that are [Inline], as a store keeps them
// while it appends.
func InlineOf(views []View) (list []store.View) {
	for _, v := range ThoseKept(views, Inline) {
		list = append(list, inline{v})
	}
	return list
}

type inline struct{ view View }

// Name is that of the view.
func (v inline) Name() string { return v.view.Name() }

// Load makes one step of what a followed view may do in several.
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
