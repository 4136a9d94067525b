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

// maxExclusive limits how many commits of a process are decided under a lock at once. Each
// holds a connection, and the decision may need another one.
const maxExclusive = 2

// Exclusively locks the log of a workspace, calls decide to make a commit from the streams
// it loads, and stores the commit. Nobody else can write to the log in between, so no
// stream can have changed. It costs two round trips more than Append and blocks other
// writers; it is for commands that have repeatedly lost the race. A nil commit stores
// nothing. An error of decide is returned as it is; other errors are those of Append.
func (s *Store) Exclusively(
	ctx context.Context, workspace events.ID, decide func(events.Streams) (*events.Commit, error),
) (events.Committed, error) {
	if err := s.permit(ctx); err != nil {
		return events.Committed{}, fmt.Errorf("append: %w", err)
	}
	select {
	case s.exclusiveSlots <- struct{}{}:
		defer func() { <-s.exclusiveSlots }()
	case <-s.ended:
		return events.Committed{}, fault.ErrBusy
	case <-ctx.Done():
		return events.Committed{}, ctx.Err()
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeLimit) // as in Append: once begun, it is carried out
	defer cancel()
	p := &pending{queuedAt: time.Now()}
	err := s.exclusively(limited, workspace, p, decide)
	if p.commit == nil {
		return events.Committed{}, err
	}
	s.observe(newBatch([]*pending{p}, p.queuedAt, err == nil))
	switch {
	case errors.Is(err, errRepeated):
		return s.repeatedAnswer(p.commit)
	case err == nil:
		s.onAppend(workspace, p.result.Head)
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
	first, limit := begin(ctx, s.timeLimit*2/5)
	first.Queue(`select from logs where workspace_id = $1 for update`, workspace)
	if err := conn.SendBatch(ctx, first).Close(); err != nil {
		return rollBack(ctx, conn.Conn(), err)
	}
	commit, refusal := decide(streams{conn.Conn(), s.loads})
	if refusal != nil || commit == nil {
		_ = rollBack(ctx, conn.Conn(), nil) // nothing was written
		return refusal
	}
	p.commit = commit
	t, err := s.prepare([]*pending{p})
	if err != nil {
		return rollBack(ctx, conn.Conn(), err)
	}
	t.limit = limit
	rest := &pgx.Batch{}
	rest.Queue(remainingTimeSQL, limit.Milliseconds())
	return t.store(ctx, conn.Conn(), rest)
}

// streams loads streams over one connection.
type streams struct {
	db    Querier
	loads loadCheck
}

// Load is [Store.Load].
func (s streams) Load(ctx context.Context, workspace, stream events.ID, version int) ([]events.Record, error) {
	return s.load(ctx, StreamPage{Workspace: workspace, Stream: stream, Version: version, Limit: events.LoadLimit})
}

// First is [Store.First].
func (s streams) First(ctx context.Context, workspace, stream events.ID) ([]events.Record, error) {
	return s.load(ctx, StreamPage{Workspace: workspace, Stream: stream, Limit: 1})
}

func (s streams) load(ctx context.Context, page StreamPage) ([]events.Record, error) {
	if s.loads.by != nil {
		return s.loads.read(ctx, s.db, page)
	}
	return page.Read(ctx, s.db)
}
