package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/fault"
)

// exclusives is how many commits of a process may be decided under a lock at
// once. Each has a connection, and whoever decides may need another one.
const exclusives = 2

// Exclusively locks the log of a workspace, lets decide make a commit by what it
// loads, and stores that: nothing comes in between, so no stream has moved on.
// It costs two round trips more than Append, and others wait for it; whoever has
// lost to others before gets their turn by it. A nil commit stores nothing. What
// decide reports is returned as it is; otherwise the errors are those of Append.
func (s *Store) Exclusively(
	ctx context.Context, workspace events.ID, decide func(events.Streams) (*events.Commit, error),
) (events.Committed, error) {
	select {
	case s.exclusive <- struct{}{}:
		defer func() { <-s.exclusive }()
	case <-s.ended:
		return events.Committed{}, fault.ErrBusy
	case <-ctx.Done():
		return events.Committed{}, ctx.Err()
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.patience) // as in Append, once begun it is carried out
	defer cancel()
	p := &pending{since: time.Now()}
	err := s.exclusively(limited, workspace, p, decide)
	if p.commit == nil {
		return events.Committed{}, err
	}
	s.observe(newBatch([]*pending{p}, p.since, err == nil))
	switch {
	case errors.Is(err, errRepeated):
		return s.repeat(p.commit)
	case err == nil:
		s.moved(workspace, p.result.Head)
	}
	return p.result, err
}

func (s *Store) exclusively(
	ctx context.Context, workspace events.ID, p *pending, decide func(events.Streams) (*events.Commit, error),
) error {
	conn, err := s.db.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	defer conn.Release() // a connection that is still in a transaction is closed by the pool
	limit := serverLimit(ctx)
	first := begin(s.patience*2/5, limit)
	first.Queue(`select from logs where workspace_id = $1 for update`, workspace)
	if err := conn.SendBatch(ctx, first).Close(); err != nil {
		return rollBack(ctx, conn.Conn(), err)
	}
	commit, refusal := decide(streams{conn.Conn()})
	if refusal != nil || commit == nil {
		_ = rollBack(ctx, conn.Conn(), nil) // there is nothing to undo
		return refusal
	}
	p.commit = commit
	t, err := s.prepare([]*pending{p})
	if err != nil {
		return rollBack(ctx, conn.Conn(), err)
	}
	t.limit = limit
	rest := &pgx.Batch{}
	rest.Queue(restSQL, limit.Milliseconds())
	return t.store(ctx, conn.Conn(), rest)
}

// streams are read on one connection.
type streams struct{ db Querier }

// Load is [Store.Load].
func (s streams) Load(ctx context.Context, workspace, stream events.ID, version int) ([]events.Record, error) {
	return query(ctx, s.db, Scan, `
		select `+EventColumns+` from events
		where workspace_id = $1 and stream = $2 and version > $3
		order by version limit $4`, workspace, stream, version, events.LoadLimit)
}
