package fold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc/events"
	"svc/events/follow"
	"svc/events/store"
)

const (
	sharedLimit = 10 * time.Second       // for a page of all views
	sharedLocks = 250 * time.Millisecond // for a lock that somebody has on a view
)

// shared takes in pages for all views that this process leads and that are level:
// one read of the events, one transaction, one statement that moves the checkpoints.
//
// Views are level in a log while their checkpoints lie within a page. One that is
// further behind, or whose checkpoint somebody holds, is told to its own follower,
// until it is level again. So are all views of a log in which the pass fails: alone,
// each halves its pages, parks events and stands still by itself. When the backoff
// of the log is over the pass tries it again.
type shared struct {
	*Follower
	follow *follow.Follower
	next   *nextPage // what is read of it while the last one is written
	known  known

	mu    sync.Mutex
	apart map[events.ID]follow.Backoff // logs of which each view is followed alone
}

func newShared(f *Follower) *shared {
	s := &shared{Follower: f, next: &nextPage{}, known: known{at: map[events.ID]int64{}}, apart: map[events.ID]follow.Backoff{}}
	s.follow = follow.NewShared(f.db, func() []string { return names(s.led()) }, f.log)
	return s
}

// led returns the views that this process leads at the moment.
func (s *shared) led() (list []View) {
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

func (s *shared) run(ctx context.Context) {
	s.follow.Run(ctx, s.take)
	s.next.wait()
}

// take takes in the next events of logs, and tells of which there may be more.
func (s *shared) take(ctx context.Context, workspaces []events.ID) (more []events.ID, err error) {
	views := s.led()
	workspaces = s.level(views, workspaces)
	if len(views) == 0 || len(workspaces) == 0 {
		return nil, nil
	}
	s.next.wait() // before a connection is taken, for it may need the last one
	p, err := s.takePage(ctx, views, workspaces)
	switch {
	case err == nil:
	case s.db.Ping(ctx) != nil:
		return nil, fmt.Errorf("views: %w", err)
	case len(workspaces) > 1 && !slow(err):
		return nil, fmt.Errorf("views: %w", err) // each log is tried by itself
	default:
		s.log.InfoContext(ctx, "views go on alone", "logs", len(workspaces), "first", workspaces[0], "err", err)
		s.part(views, workspaces)
		return nil, nil
	}
	s.settle(workspaces)
	for _, b := range p.behind {
		s.alone[b.Name].Moved(b.Workspace)
	}
	for _, v := range views {
		for _, workspace := range workspaces {
			s.positions.moved(watched{s.db, v.Name(), workspace})
		}
	}
	return p.more, nil
}

// takePage takes in a page of logs: of those where it knows the checkpoints by claiming
// them, and else, or if that fails for whatever reason, by holding what there is.
func (s *shared) takePage(ctx context.Context, views []View, workspaces []events.ID) (p *sharedPage, err error) {
	if from := s.known.of(views, workspaces); from != nil {
		if p, err = s.claimPage(ctx, views, from); err == nil {
			s.known.learn(p)
			return p, nil
		}
		s.next.wait() // it may need the last connection
	}
	s.known.forget(workspaces)
	if p, err = s.holdPage(ctx, views, workspaces); err == nil {
		s.known.learn(p)
	}
	return p, err
}

// claimPage takes in a page of logs in which all views are where they are known to be.
// The events are read before the transaction begins, which claims the checkpoints first
// of all: what was read is right if those have not moved.
func (s *shared) claimPage(ctx context.Context, views []View, from []store.Position) (*sharedPage, error) {
	limited, cancel := context.WithTimeout(ctx, sharedLimit)
	defer cancel()
	p := newLevelPage(views, from)
	if err := p.read(limited, s.db, s.next); err != nil || len(p.records) == 0 {
		return p, err
	}
	if len(p.more) > 0 {
		s.next = readNext(ctx, s.db, views, p.next())
	}
	return p, pgx.BeginFunc(limited, s.db, func(tx pgx.Tx) error { return p.claim(limited, tx) })
}

func (s *shared) holdPage(ctx context.Context, views []View, workspaces []events.ID) (p *sharedPage, err error) {
	limited, cancel := context.WithTimeout(ctx, sharedLimit)
	defer cancel()
	err = pgx.BeginFunc(limited, s.db, func(tx pgx.Tx) error {
		held, err := follow.LockAllCheckpoints(limited, tx, names(views), workspaces)
		if err != nil {
			return err
		}
		p = newSharedPage(views, workspaces, held)
		if err := p.read(limited, tx, s.next); err != nil || len(p.records) == 0 {
			return err
		}
		if len(p.more) > 0 {
			s.next = readNext(ctx, s.db, views, p.next())
		}
		return p.takeIn(limited, tx)
	})
	return p, err
}

// knownMost is of how many logs the pass knows where the views are, before it begins
// anew.
const knownMost = 100_000

// known is where all views that share the pass were in logs when it left them. It is
// what saves looking: whoever relies on it has PostgreSQL compare.
type known struct {
	views []string
	at    map[events.ID]int64
}

// of returns where the views are in logs, nil unless that is known of all.
func (k *known) of(views []View, workspaces []events.ID) (list []store.Position) {
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

func (k *known) forget(workspaces []events.ID) {
	for _, workspace := range workspaces {
		delete(k.at, workspace)
	}
}

// learn notes where a page has left the logs of which it had events for every view.
func (k *known) learn(p *sharedPage) {
	if len(k.at) > knownMost {
		clear(k.at)
	}
	for _, end := range p.ends {
		if len(p.at[end.Workspace]) == len(p.views) {
			k.at[end.Workspace] = end.Seq
		}
	}
}

// slow reports whether err says that something of the database is in the way of the
// pass, and not a log.
func slow(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code == "55P03" // lock not available
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// level returns the logs in which views share the pass. The others are told to the
// followers of each view.
func (s *shared) level(views []View, workspaces []events.ID) (list []events.ID) {
	for _, workspace := range workspaces {
		s.mu.Lock()
		over := s.apart[workspace].Over()
		s.mu.Unlock()
		if over {
			list = append(list, workspace)
			continue
		}
		for _, v := range views {
			s.alone[v.Name()].Moved(workspace)
		}
	}
	return list
}

// part leaves logs to the followers of each view for a while.
func (s *shared) part(views []View, workspaces []events.ID) {
	s.mu.Lock()
	for _, workspace := range workspaces {
		s.apart[workspace] = s.apart[workspace].Longer()
	}
	s.mu.Unlock()
	s.level(views, workspaces)
}

// settle notes that the pass has taken in what there was of logs.
func (s *shared) settle(workspaces []events.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, workspace := range workspaces {
		delete(s.apart, workspace)
	}
}
