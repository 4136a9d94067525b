package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
)

// View is the name under which the relay's position is kept among those of the
// views.
const View = "bus"

const (
	page     = 200              // events that are published together
	poll     = time.Second      // how often the relay looks for what nobody told it of
	sweeping = time.Minute      // how often it tidies
	patience = 20 * time.Second // for a page
	rest     = time.Second      // of a workspace that could not be relayed, doubled each time, up to
	restMost = time.Minute
)

// The metadata of a message. Its payload is the event's stored form.
const (
	metaWorkspace = "workspace"
	metaSeq       = "seq"
	metaKind      = "kind"
	metaSchema    = "schema"
	metaStream    = "stream"
	metaAt        = "at"
)

// A Relay publishes what the logs have, each in its order. Any number of
// processes may run one: the one that leads does the work, and where two believe
// that they lead, the checkpoint's row lets one of them at a time work on a
// workspace. It moves only when the messages are kept.
type Relay struct {
	db    *pgxpool.Pool
	leads func(view string) bool
	log   *slog.Logger
	wake  chan struct{}

	mu    sync.Mutex
	dirty map[events.ID]bool // workspaces that moved; the zero ID: any
}

// NewRelay returns a relay that does nothing until [Run] has it run. It works
// while it leads [View].
func NewRelay(db *pgxpool.Pool, leads func(view string) bool, log *slog.Logger) *Relay {
	return &Relay{db: db, leads: leads, log: log, wake: make(chan struct{}, 1), dirty: map[events.ID]bool{}}
}

// Moved tells r that a log has grown, or with the zero ID that any may have. It
// does not block.
func (r *Relay) Moved(workspace events.ID, _ int64) {
	r.mu.Lock()
	r.dirty[workspace] = true
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default: // it is awake already
	}
}

// run relays until ctx ends.
func (r *Relay) run(ctx context.Context, b *Bus) {
	stuck := map[events.ID]stand{}
	look, sweep := time.NewTicker(poll), time.NewTicker(sweeping)
	defer look.Stop()
	defer sweep.Stop()
	for everywhere := true; ctx.Err() == nil; {
		r.round(ctx, b, everywhere, stuck)
		everywhere = false
		select {
		case <-ctx.Done():
		case <-r.wake:
		case <-look.C:
			everywhere = true
		case <-sweep.C:
			if !r.leads(View) {
				continue
			}
			if err := b.tidy(ctx); err != nil && ctx.Err() == nil {
				r.log.ErrorContext(ctx, "tidy the bus", "err", err)
			}
		}
	}
}

// A stand says how long a workspace that could not be relayed is left alone.
type stand struct {
	rest  time.Duration
	until time.Time
}

func (r *Relay) round(ctx context.Context, b *Bus, everywhere bool, stuck map[events.ID]stand) {
	list := r.take()
	if !r.leads(View) {
		clear(stuck) // whoever leads finds out
		return
	}
	if everywhere || slices.Contains(list, events.ID{}) {
		list = r.behind(ctx)
	}
	for _, workspace := range list {
		if time.Now().Before(stuck[workspace].until) {
			continue // it is found again
		}
		err := r.catchUp(ctx, b, workspace)
		switch {
		case err == nil:
			delete(stuck, workspace)
		case ctx.Err() == nil:
			after := min(max(2*stuck[workspace].rest, rest), restMost)
			stuck[workspace] = stand{after, time.Now().Add(after)}
			r.log.ErrorContext(ctx, "relay stands still", "workspace", workspace, "again_in", after, "err", err)
		}
	}
}

func (r *Relay) take() (list []events.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for workspace := range r.dirty {
		list = append(list, workspace)
	}
	clear(r.dirty)
	return list
}

// behind finds the workspaces of which there is more to relay.
func (r *Relay) behind(ctx context.Context) []events.ID {
	rows, _ := r.db.Query(ctx, `
		select l.workspace_id from logs l
		left join checkpoints c on c.workspace_id = l.workspace_id and c.view = $1
		where l.head > coalesce(c.seq, 0)`, View)
	list, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
	if err != nil && ctx.Err() == nil {
		r.log.ErrorContext(ctx, "find workspaces that moved", "view", View, "err", err)
	}
	return list
}

func (r *Relay) catchUp(ctx context.Context, b *Bus, workspace events.ID) error {
	for ctx.Err() == nil {
		n, err := r.relayPage(ctx, b, workspace)
		if err != nil {
			return err
		}
		if n < page {
			return nil
		}
	}
	return ctx.Err()
}

// relayPage publishes the next events of a log and then moves the checkpoint.
// If another process is at that log it leaves it alone. A process that stops
// dead in the middle is cut off by the server.
func (r *Relay) relayPage(ctx context.Context, b *Bus, workspace events.ID) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = pgx.BeginFunc(ctx, r.db, func(tx pgx.Tx) error {
		seq, ok, err := checkpoint(ctx, tx, workspace)
		if err != nil || !ok {
			return err
		}
		records, err := store.AnyAfter(ctx, tx, workspace, seq, page) // it is passed on as it is stored
		if err != nil || len(records) == 0 {
			return err
		}
		if err := b.publish(ctx, tx, Topic, messagesOf(records)...); err != nil {
			return fmt.Errorf("publish events after %d: %w", seq, err)
		}
		n = len(records)
		_, err = tx.Exec(ctx, `update checkpoints set seq = $3 where workspace_id = $1 and view = $2`, workspace, View, records[n-1].Seq)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("relay %s: %w", workspace, err)
	}
	return n, nil
}

// checkpoint takes the row of the relay's position. ok is false if somebody has it.
func checkpoint(ctx context.Context, tx pgx.Tx, workspace events.ID) (seq int64, ok bool, err error) {
	b := &pgx.Batch{}
	b.Queue(`set local idle_in_transaction_session_timeout = '30s'`)
	b.Queue(`insert into checkpoints (workspace_id, view, seq) values ($1, $2, 0) on conflict do nothing`, workspace, View)
	b.Queue(`select seq from checkpoints where workspace_id = $1 and view = $2 for update skip locked`, workspace, View).
		QueryRow(func(row pgx.Row) error {
			err := row.Scan(&seq)
			if ok = err == nil; errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			return err
		})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return 0, false, fmt.Errorf("checkpoint: %w", err)
	}
	return seq, ok, nil
}

func messagesOf(records []events.Record) []*message.Message {
	list := make([]*message.Message, len(records))
	for i, r := range records {
		m := message.NewMessage(r.ID.String(), message.Payload(r.Data))
		m.Metadata = message.Metadata{
			metaWorkspace: r.Workspace.String(), metaSeq: strconv.FormatInt(r.Seq, 10), metaKind: r.Event.Kind(),
			metaSchema: strconv.Itoa(r.Schema), metaStream: r.Stream.String(), metaAt: r.At.Format(time.RFC3339Nano),
		}
		list[i] = m
	}
	return list
}

// PositionOf returns where in which log the event of a message is.
func PositionOf(m *message.Message) (workspace events.ID, seq int64, err error) {
	if workspace, err = events.ParseID(m.Metadata.Get(metaWorkspace)); err != nil {
		return workspace, 0, fmt.Errorf("message %s: workspace: %w", m.UUID, err)
	}
	if seq, err = strconv.ParseInt(m.Metadata.Get(metaSeq), 10, 64); err != nil || seq < 1 {
		return workspace, 0, fmt.Errorf("message %s: seq is none", m.UUID)
	}
	return workspace, seq, nil
}
