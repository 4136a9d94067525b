// Package leader elects, among several processes, the one that does what one is
// enough for. The leader holds a lease, a row with an end; it moves the end on, and
// whoever finds that it has passed takes the lease over. Clocks of processes do not
// matter: the database's tells when a lease ends, and a holder stops believing
// in one before that, by how much time has gone by for itself.
//
// A lease saves work and is no lock: what must not be done twice has to be kept
// from it in another way.
//
// A row that no process can have written is not believed: one that ends later than
// a lease lasts, or one with another holder while the lease of this process runs.
// It is taken over at once, and the log says so.
package leader

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

// Elections are those in which a process stands, each for a lease of its own.
type Elections struct {
	db     *pgxpool.Pool
	log    *slog.Logger
	names  []string
	holder events.ID

	mu   sync.Mutex
	held map[string]term
}

// A term is how long this process may believe in a lease, and since when it has it
// without having had to take it back.
type term struct{ since, until time.Time }

// New returns elections of which none is won until they run.
func New(db *pgxpool.Pool, log *slog.Logger, names ...string) *Elections {
	return &Elections{db: db, log: log, names: names, holder: events.NewID(time.Now()), held: map[string]term{}}
}

// Leads reports whether this process holds the lease of that name at this moment.
func (l *Elections) Leads(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.held[name].until)
}

// Run takes leases and keeps them until ctx ends, and then gives them back.
func (l *Elections) Run(ctx context.Context) {
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

// takeSQL moves on the leases that are the holder's, $2, or nobody's. It answers
// those that it has now, and what the rows said before. The clock is looked at
// after a row was waited for, for it may have been moved on meanwhile.
const takeSQL = `
	with before as (
		select name, holder, until::text as until, until > clock_timestamp() + $3::interval as beyond from leases where name = any($1)
	), taken as (
		insert into leases as l (name, holder, until) select name, $2, clock_timestamp() + $3::interval from unnest($1::text[]) as name order by name
		on conflict (name) do update set holder = excluded.holder, until = excluded.until
		where l.holder = excluded.holder or l.until < clock_timestamp()
			or l.until > clock_timestamp() + $3::interval or l.name = any($4)
		returning name
	)
	select t.name, coalesce(b.holder, $2), coalesce(b.until, ''), coalesce(b.beyond, false) from taken t left join before b using (name)`

// A taken is a lease that this process has now, and who had it before, until when.
type taken struct {
	Name   string
	Holder events.ID
	Until  string
	Beyond bool // no lease lasts as long
}

func (l *Elections) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renew)
	defer cancel()
	asked := time.Now()
	rows, _ := l.db.Query(ctx, takeSQL, l.names, l.holder, lasts, l.steady(asked))
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[taken])
	if err != nil {
		return fmt.Errorf("take leases: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.held
	l.held = map[string]term{}
	for _, t := range list {
		since := before[t.Name].since
		switch others := t.Holder != l.holder; {
		case others && asked.Before(before[t.Name].until):
			l.log.ErrorContext(ctx, "a lease of this process was given to another before its end: taken back",
				"lease", t.Name, "holder", t.Holder, "until", t.Until)
			since = asked
		case others && t.Beyond:
			l.log.ErrorContext(ctx, "a lease ended later than any lasts: not believed, taken over", "lease", t.Name,
				"holder", t.Holder, "until", t.Until)
			since = asked
		case !asked.Before(before[t.Name].until):
			l.log.InfoContext(ctx, "took over", "lease", t.Name)
			since = asked
		}
		l.held[t.Name] = term{since, asked.Add(lasts)}
	}
	return nil
}

// steady returns the leases that this process has had for longer than one lasts.
// Nobody else can have them while they run. One that had to be taken back a moment
// ago is not among them: where two processes believe in the same lease, because a
// clock has jumped, one of them lets go.
func (l *Elections) steady(at time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := []string{}
	for name, t := range l.held {
		if at.Before(t.until) && at.Sub(t.since) > lasts {
			list = append(list, name)
		}
	}
	return list
}

// giveBack lets others go on at once.
func (l *Elections) giveBack(ctx context.Context) {
	l.mu.Lock()
	clear(l.held)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, renew)
	defer cancel()
	if _, err := l.db.Exec(ctx, `delete from leases where holder = $1`, l.holder); err != nil {
		l.log.WarnContext(ctx, "give leases back", "err", err)
	}
}
