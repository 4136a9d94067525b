// Package leader elects, among several processes, a leader for work that only one of them
// should do. The leader holds a lease: a row with an expiry, which it renews. When a lease
// has expired, another process takes it over. Processes' clocks do not matter: the
// database's clock decides when a lease expires, and a holder stops relying on its lease
// earlier, by the time that has passed for itself.
//
// A lease saves work and is no lock: what must not happen twice has to be protected in
// another way.
package leader

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
)

const (
	leaseDuration = 3 * time.Second // of a lease that is not renewed
	renewInterval = time.Second     // between attempts to renew or acquire leases
)

// Elections are a process's candidacies, one for each lease.
type Elections struct {
	db     *pgxpool.Pool
	log    *slog.Logger
	names  []string
	may    map[string]func() bool // set by OnlyIf
	holder events.ID

	mu   sync.Mutex
	held map[string]time.Time // until when this process may rely on a lease
}

// New returns elections that win no lease until Run is called.
func New(db *pgxpool.Pool, log *slog.Logger, names ...string) *Elections {
	return &Elections{db: db, log: log, names: names, may: map[string]func() bool{}, holder: events.NewID(time.Now())}
}

// OnlyIf makes the process a candidate for leases only while may returns true: a process that cannot
// do the work must not keep others from it. It gives up a lease that it holds within [leaseDuration].
// Call it before Run.
func (e *Elections) OnlyIf(may func() bool, names ...string) {
	for _, name := range names {
		e.may[name] = may
	}
}

// candidacies returns the leases for which the process is a candidate now.
func (e *Elections) candidacies() []string {
	return slices.DeleteFunc(slices.Clone(e.names), func(name string) bool { return e.may[name] != nil && !e.may[name]() })
}

// Leads reports whether this process holds the lease of that name now.
func (e *Elections) Leads(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Now().Before(e.held[name])
}

// Run acquires and renews leases until ctx ends, and then releases them.
func (e *Elections) Run(ctx context.Context) {
	ticker := time.NewTicker(renewInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := e.takeLeases(ctx); err != nil && ctx.Err() == nil {
			e.log.WarnContext(ctx, "renew leases", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	e.releaseLeases(context.WithoutCancel(ctx))
}

// takeSQL renews or acquires the leases that are the holder's, $2, or nobody's, and returns them. It uses
// clock_timestamp(), because a row may have been renewed while the statement waited for it. A lease that ends
// later than any can is from before the database's clock was set back.
const takeSQL = `
	insert into leases as l (name, holder, until) select name, $2, clock_timestamp() + $3::interval
		from unnest($1::text[]) as name order by name
	on conflict (name) do update set holder = excluded.holder, until = excluded.until
	where l.holder = excluded.holder or l.until < clock_timestamp() or l.until > clock_timestamp() + $3::interval
	returning name`

func (e *Elections) takeLeases(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewInterval)
	defer cancel()
	asked := time.Now()
	rows, _ := e.db.Query(ctx, takeSQL, e.candidacies(), e.holder, leaseDuration)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("take leases: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.held
	e.held = map[string]time.Time{}
	for _, name := range list {
		if !asked.Before(before[name]) {
			e.log.InfoContext(ctx, "became the leader", "lease", name)
		}
		e.held[name] = asked.Add(leaseDuration)
	}
	return nil
}

// releaseLeases releases all leases, so that other processes can acquire them at once.
func (e *Elections) releaseLeases(ctx context.Context) {
	e.mu.Lock()
	clear(e.held)
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, renewInterval)
	defer cancel()
	if _, err := e.db.Exec(ctx, `delete from leases where holder = $1`, e.holder); err != nil {
		e.log.WarnContext(ctx, "release leases", "err", err)
	}
}
