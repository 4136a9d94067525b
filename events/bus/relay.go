package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/follow"
	"svc/events/store"
	"svc/fault"
)

// FollowerName is the name of the relay's checkpoints, which are stored with those of the views.
const FollowerName = "bus"

const (
	pageSize       = 400              // events published together, on a bus where each is a message
	sweepInterval  = time.Minute      // how often the relay calls deleteOld
	publishTimeout = 10 * time.Second // limit for publishing a page; the rest of follow.PageTimeout is for the commit
)

// The keys of a message's metadata. The payload is the event's stored form.
const (
	metaWorkspace = "workspace"
	metaSeq       = "seq"
	metaKind      = "kind"
	metaSchema    = "schema"
	metaStream    = "stream"
	metaAt        = "at"
)

// A Relay publishes the events of each log in order. Any number of processes may run one:
// only the leader works. If two believe that they lead, the lock on a checkpoint lets one
// at a time work on that workspace. Checkpoints move past messages that the bus has stored,
// and no others.
type Relay struct {
	db             *pgxpool.Pool
	leads          func(view string) bool
	log            *slog.Logger
	follow         *follow.Follower
	publishTimeout time.Duration
}

// NewRelay returns a relay that does nothing until [Run] runs it. It works while leads
// reports that this process leads [FollowerName].
func NewRelay(db *pgxpool.Pool, leads func(view string) bool, log *slog.Logger) *Relay {
	return &Relay{db: db, leads: leads, log: log, follow: follow.New(db, FollowerName, leads, log), publishTimeout: publishTimeout}
}

// Moved notifies r that a log has grown, or that any may have if workspace is zero. It does
// not block.
func (r *Relay) Moved(workspace events.ID, _ int64) { r.follow.Moved(workspace) }

// Stuck returns how many logs cannot be relayed at present.
func (r *Relay) Stuck() int { return r.follow.Stuck() }

// run relays until ctx ends.
func (r *Relay) run(ctx context.Context, b *Bus) {
	var group sync.WaitGroup
	group.Go(func() { r.deleteOld(ctx, b) })
	r.follow.Run(ctx, func(ctx context.Context, workspaces []events.ID) ([]events.ID, error) {
		return r.relayPage(ctx, b, workspaces)
	})
	group.Wait()
}

func (r *Relay) deleteOld(ctx context.Context, b *Bus) {
	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
		}
		if !r.leads(FollowerName) {
			continue
		}
		if err := b.deleteOld(ctx); err != nil && ctx.Err() == nil {
			r.log.ErrorContext(ctx, "delete old messages", "err", err)
		}
	}
}

// relayPage publishes the next events of logs and then moves the checkpoints. If publishing
// ends early, they move past what was published, so that a slow bus is not sent the same
// events for ever.
func (r *Relay) relayPage(ctx context.Context, b *Bus, workspaces []events.ID) (more []events.ID, err error) {
	limit := max(b.page()/len(workspaces), 1)
	var broken error
	err = pgx.BeginFunc(ctx, r.db, func(tx pgx.Tx) error {
		list, err := follow.LockCheckpoints(ctx, tx, FollowerName, workspaces)
		if err != nil || len(list) == 0 {
			return err
		}
		var ends []store.Position
		ends, more, err = b.relay(ctx, tx, list, limit, r.publishTimeout)
		if len(ends) == 0 {
			return err
		}
		broken = err
		move := &pgx.Batch{}
		follow.QueueMove(move, FollowerName, ends)
		return tx.SendBatch(ctx, move).Close()
	})
	err = errors.Join(err, broken)
	return more, fault.Wrap(err, "relay")
}

// PositionOf returns the position in the log of a message's event.
func PositionOf(m *message.Message) (workspace events.ID, seq int64, err error) {
	if workspace, err = events.ParseID(m.Metadata.Get(metaWorkspace)); err != nil {
		return workspace, 0, fmt.Errorf("parse workspace of message %s: %w", m.UUID, err)
	}
	if seq, err = strconv.ParseInt(m.Metadata.Get(metaSeq), 10, 64); err != nil || seq < 1 {
		return workspace, 0, fmt.Errorf("message %s: malformed seq", m.UUID)
	}
	return workspace, seq, nil
}
