// Package lease lets one of several processes do what one is enough for. Who
// holds a lease is a row with an end; the holder moves the end on, and whoever
// finds that it has passed takes the lease over. Clocks of processes do not
// matter: the database's tells when a lease ends, and a holder stops believing
// in one before that, by how much time has gone by for itself.
//
// A lease saves work and is no lock: what must not be done twice has to be kept
// from it in another way.
package lease

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

const (
	lasts = 3 * time.Second // a lease, unless it is moved on
	renew = time.Second     // how often that is done, and others are tried
)

// Leases are those that a process holds or would like to.
type Leases struct {
	db     *pgxpool.Pool
	log    *slog.Logger
	names  []string
	holder events.ID

	mu    sync.Mutex
	until map[string]time.Time
}

// New returns leases of which none is held until they run.
func New(db *pgxpool.Pool, log *slog.Logger, names ...string) *Leases {
	return &Leases{db: db, log: log, names: names, holder: events.NewID(time.Now()), until: map[string]time.Time{}}
}

// Holds reports whether this process holds a lease at this moment.
func (l *Leases) Holds(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until[name])
}

// Run takes leases and keeps them until ctx ends, and then gives them back.
func (l *Leases) Run(ctx context.Context) {
	again := time.NewTicker(renew)
	defer again.Stop()
	for ctx.Err() == nil {
		if err := l.take(ctx); err != nil && ctx.Err() == nil {
			l.log.WarnContext(ctx, "renew leases", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-again.C:
		}
	}
	l.giveBack(context.WithoutCancel(ctx))
}

func (l *Leases) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renew)
	defer cancel()
	asked := time.Now()
	rows, _ := l.db.Query(ctx, `
		insert into leases as l (name, holder, until) select name, $2, now() + $3 from unnest($1::text[]) as name order by name
		on conflict (name) do update set holder = excluded.holder, until = excluded.until
		where l.holder = excluded.holder or l.until < now()
		returning name`, l.names, l.holder, lasts)
	held, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("take leases: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.until
	l.until = map[string]time.Time{}
	for _, name := range held {
		l.until[name] = asked.Add(lasts)
		if !asked.Before(before[name]) {
			l.log.InfoContext(ctx, "took over", "lease", name)
		}
	}
	return nil
}

// giveBack lets others go on at once.
func (l *Leases) giveBack(ctx context.Context) {
	l.mu.Lock()
	clear(l.until)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, renew)
	defer cancel()
	if _, err := l.db.Exec(ctx, `delete from leases where holder = $1`, l.holder); err != nil {
		l.log.WarnContext(ctx, "give leases back", "err", err)
	}
}
