package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/migrations"
	"svc/projections"
)

// rebuild makes the views j.views anew, or all of them, while the service goes
// on. One line says how far it is each second, and one when a view is done. It
// refuses a database that another build migrated, whose views may have another
// form.
func rebuild(ctx context.Context, j job) error {
	list, err := named(j.views)
	if err != nil {
		return err
	}
	err = j.withConnection(ctx, func(conn *pgx.Conn) error { return migrations.Current(ctx, conn) })
	if err != nil {
		return err
	}
	db, err := j.pool(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, v := range list {
		start := time.Now()
		p := &progress{out: j.out, view: v.Name(), start: start, last: start}
		done, err := projections.Rebuild(ctx, db, v, p.step)
		if err != nil {
			return err
		}
		fmt.Fprintf(j.out, "%s: rebuilt from %d events in %s\n", v.Name(), done.Events, time.Since(start).Round(time.Millisecond))
	}
	return nil
}

func named(names []string) (list []projections.View, err error) {
	all := projections.All()
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for _, v := range all {
		known = append(known, v.Name())
		if slices.Contains(names, v.Name()) {
			list = append(list, v)
		}
	}
	if len(list) < len(slices.Compact(slices.Sorted(slices.Values(names)))) {
		return nil, errors.New("unknown view; the views are " + strings.Join(known, ", "))
	}
	return list, nil
}

// progress says how far a rebuild is, at most once a second.
type progress struct {
	out         io.Writer
	view        string
	start, last time.Time
	done        int64
}

func (p *progress) step(done, total int64) {
	p.done = done
	if time.Since(p.last) < time.Second {
		return
	}
	p.last = time.Now()
	rate := float64(done) / time.Since(p.start).Seconds()
	left := time.Duration(float64(total-done) / rate * float64(time.Second))
	fmt.Fprintf(p.out, "%s: %d of %d events, %.0f a second, %s left\n", p.view, done, total, rate, left.Round(time.Second))
}
