package fold

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/follow"
	"svc/events/store"
)

const (
	passTimeout     = 10 * time.Second       // timeout of one page of all views, and of reading ahead
	passLockTimeout = 250 * time.Millisecond // timeout of each lock that the pass waits for
)

// sharedPass processes pages for all views that this process leads and that are level: one read of the
// events, one transaction, one statement that moves the checkpoints.
//
// Views are level in a log while their checkpoints lie within a page of each other. A view that is
// further behind, or whose checkpoint somebody holds, is left to its own follower until it is level
// again. If the pass fails in a log, all views of that log are left to their own followers, which
// halve pages, park events and get stuck independently. The pass tries the log again when the log's
// backoff is over.
type sharedPass struct {
	db        *pgxpool.Pool
	log       *slog.Logger
	views     []View
	leads     func(view string) bool
	perView   map[string]*follow.Follower // the views' own followers
	waiters   *positionWaiters
	follow    *follow.Follower
	timeout   time.Duration
	next      *nextPage // page that is read while the previous one is written
	positions knownPositions

	mu       sync.Mutex
	backoffs map[events.ID]follow.Backoff // logs that are left to the views' own followers
}

// newSharedPass returns the pass of f's views, which must have their own followers.
func newSharedPass(f *Follower) *sharedPass {
	s := &sharedPass{
		db: f.db, log: f.log, views: f.views, leads: f.leads, perView: f.perView, waiters: f.waiters,
		timeout: passTimeout,
		next:    &nextPage{}, positions: knownPositions{at: map[events.ID]int64{}}, backoffs: map[events.ID]follow.Backoff{},
	}
	s.follow = follow.NewShared(s.db, func() []string { return names(s.led()) }, s.log)
	return s
}

// led returns the views that this process leads at present.
func (s *sharedPass) led() (list []View) {
	for _, v := range s.views {
		if s.leads(v.Name()) {
			list = append(list, v)
		}
	}
	return list
}

func names(views []View) (list []string) {
	for _, v := range views {
		list = append(list, v.Name())
	}
	return list
}

func (s *sharedPass) run(ctx context.Context) {
	s.follow.Run(ctx, s.handleLogs)
	s.next.stop()
}

// handleLogs processes the next events of logs and returns the logs that may have more.
func (s *sharedPass) handleLogs(ctx context.Context, workspaces []events.ID) (more []events.ID, err error) {
	views := s.led()
	workspaces = s.sharedLogs(views, workspaces)
	if len(views) == 0 || len(workspaces) == 0 {
		return nil, nil
	}
	s.next.wait() // before the page's timeout begins
	p, err := s.handlePage(ctx, views, workspaces)
	switch {
	case err == nil:
	case s.db.Ping(ctx) != nil:
		return nil, fmt.Errorf("views: %w", err)
	case len(workspaces) > 1 && !isTimeout(err):
		return nil, fmt.Errorf("views: %w", err) // the caller tries each log by itself
	default:
		s.log.InfoContext(ctx, "views are followed separately", "logs", len(workspaces), "first", workspaces[0], "err", err)
		s.separate(views, workspaces)
		return nil, nil
	}
	s.rejoin(workspaces)
	for _, b := range p.behind {
		s.perView[b.Name].Moved(b.Workspace)
	}
	for _, v := range views {
		for _, workspace := range workspaces {
			s.waiters.wake(viewKey{s.db, v.Name(), workspace})
		}
	}
	return p.more, nil
}

// handlePage processes a page of logs. If the checkpoints are known, it claims them by
// compare-and-swap; if they are not, or if that fails, it locks and reads them.
func (s *sharedPass) handlePage(ctx context.Context, views []View, workspaces []events.ID) (p *sharedPage, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if from := s.positions.lookup(views, workspaces); from != nil {
		if p, err = s.claimPage(ctx, views, from); err == nil {
			s.positions.record(p)
			return p, nil
		}
	}
	s.positions.forget(workspaces)
	if p, err = s.holdPage(ctx, views, workspaces); err == nil {
		s.positions.record(p)
	}
	return p, err
}

// takeNext returns the page that was read ahead. Only the page after the one that began it may use it: events that were
// read long ago may be gone after a failover or restore.
func (s *sharedPass) takeNext() *nextPage {
	n := s.next
	s.next = &nextPage{}
	return n
}

// claimPage processes a page of logs in which all views are believed to be at from. It reads the
// events before the transaction begins. The transaction first claims the checkpoints, which fails
// if one has moved since, or if an event is gone. Where no event follows, a checkpoint may have moved back: a crash of
// PostgreSQL loses the last commits of views, and their events were read long ago.
func (s *sharedPass) claimPage(ctx context.Context, views []View, from []store.Position) (*sharedPage, error) {
	p := newClaimedPage(views, from)
	p.records = s.takeNext().match(views, from, p.limit)
	if err := p.read(ctx, s.db); err != nil {
		return p, err
	}
	if err := follow.RequireUnmoved(ctx, s.db, names(views), p.withoutEvents()); err != nil || len(p.records) == 0 {
		return p, err
	}
	if len(p.more) > 0 {
		s.next = startNextPage(ctx, s.db, views, p.nextPositions(), s.timeout)
	}
	return p, pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error { return p.claimAndApply(ctx, tx) })
}

// holdPage processes a page of logs whose checkpoints it locks first. It skips checkpoints that others hold.
func (s *sharedPass) holdPage(ctx context.Context, views []View, workspaces []events.ID) (p *sharedPage, err error) {
	s.takeNext().stop() // before taking a connection, for reading ahead may need the last one
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		held, err := follow.LockCheckpointsOf(ctx, tx, names(views), workspaces)
		if err != nil {
			return err
		}
		p = newSharedPage(views, workspaces, held)
		if err := p.read(ctx, tx); err != nil || len(p.records) == 0 {
			return err
		}
		if len(p.more) > 0 {
			s.next = startNextPage(ctx, s.db, views, p.nextPositions(), s.timeout)
		}
		return p.apply(ctx, tx)
	})
	return p, err
}

// maxKnownLogs is how many logs knownPositions remembers before it is cleared.
const maxKnownLogs = 100_000

// knownPositions remembers the position at which the pass left all views of a log. It saves a query; the
// claim verifies it.
type knownPositions struct {
	views []string
	at    map[events.ID]int64
}

// lookup returns the views' position in each log, or nil unless all are known.
func (k *knownPositions) lookup(views []View, workspaces []events.ID) (list []store.Position) {
	if led := names(views); !slices.Equal(k.views, led) {
		k.views = led
		clear(k.at)
	}
	for _, workspace := range workspaces {
		at, ok := k.at[workspace]
		if !ok {
			return nil
		}
		list = append(list, store.Position{Workspace: workspace, Seq: at})
	}
	return list
}

func (k *knownPositions) forget(workspaces []events.ID) {
	for _, workspace := range workspaces {
		delete(k.at, workspace)
	}
}

// record records the ends of a page's logs in which every view took part.
func (k *knownPositions) record(p *sharedPage) {
	if len(k.at) > maxKnownLogs {
		clear(k.at)
	}
	for _, end := range p.ends {
		if len(p.at[end.Workspace]) == len(p.views) {
			k.at[end.Workspace] = end.Seq
		}
	}
}

// isTimeout reports whether err is a timeout, so that the database and not a log is in the way of the
// pass.
func isTimeout(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code == "55P03" // lock not available
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// sharedLogs returns the logs whose views share the pass. It wakes the views' own followers for the
// others.
func (s *sharedPass) sharedLogs(views []View, workspaces []events.ID) (list []events.ID) {
	for _, workspace := range workspaces {
		s.mu.Lock()
		over := s.backoffs[workspace].Over()
		s.mu.Unlock()
		if over {
			list = append(list, workspace)
			continue
		}
		for _, v := range views {
			s.perView[v.Name()].Moved(workspace)
		}
	}
	return list
}

// separate leaves logs to the views' own followers until their backoff is over.
func (s *sharedPass) separate(views []View, workspaces []events.ID) {
	s.mu.Lock()
	for _, workspace := range workspaces {
		s.backoffs[workspace] = s.backoffs[workspace].Longer()
	}
	s.mu.Unlock()
	s.sharedLogs(views, workspaces)
}

// rejoin ends the backoff of logs that the pass has processed.
func (s *sharedPass) rejoin(workspaces []events.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, workspace := range workspaces {
		delete(s.backoffs, workspace)
	}
}
