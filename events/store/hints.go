package store

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

const (
	hintChannel = "svc_logs"
	hintPause   = 2 * time.Millisecond // in which further logs may share a hint
	hintMost    = 200                  // logs that a hint can name
	hintAny     = "*"                  // stands for more
	hintAgain   = time.Second          // before another try to listen
)

// Hints tell other processes which logs have grown, and hear it from them. They
// are no more than that: whoever needs to know looks for itself from time to
// time. Nothing is sent in the transaction that appends, which would hold up
// all others.
type Hints struct {
	db     *pgxpool.Pool
	listen *pgx.ConnConfig // of the database itself, not of a pooler
	log    *slog.Logger
	heard  func(workspace events.ID) // the zero ID: any
	sender string                    // begins each hint, so that one's own are not heard

	mu    sync.Mutex
	moved map[events.ID]bool
	wake  chan struct{}
}

// NewHints returns hints that do nothing until they run. heard must not block.
// It is called for logs that have grown by others' doing, and with the zero ID if
// that may be any.
func NewHints(db *pgxpool.Pool, listen *pgx.ConnConfig, log *slog.Logger, heard func(workspace events.ID)) *Hints {
	return &Hints{
		db: db, listen: listen, log: log, heard: heard, sender: events.NewID(time.Now()).String(),
		moved: map[events.ID]bool{}, wake: make(chan struct{}, 1),
	}
}

// Moved tells the others that a log has grown, in a moment. It does not block.
func (h *Hints) Moved(workspace events.ID, _ int64) {
	h.mu.Lock()
	h.moved[workspace] = true
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Run sends and listens until ctx ends.
func (h *Hints) Run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { h.send(ctx) })
	group.Go(func() { h.hear(ctx) })
	group.Wait()
}

func (h *Hints) send(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		}
		pause.Reset(hintPause)
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		hint, ok := h.take()
		if !ok { // all of it went with the hint before
			continue
		}
		// If it fails the others find out by themselves.
		if _, err := h.db.Exec(ctx, `select pg_notify($1, $2)`, hintChannel, hint); err != nil && ctx.Err() == nil {
			h.log.WarnContext(ctx, "hint at logs that moved", "err", err)
		}
	}
}

// take returns the sender and the ids of logs that moved, with a space between.
// ok is false if none did.
func (h *Hints) take() (hint string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer clear(h.moved)
	if len(h.moved) > hintMost {
		return h.sender + " " + hintAny, true
	}
	list := []string{h.sender}
	for id := range h.moved {
		list = append(list, id.String())
	}
	return strings.Join(list, " "), len(h.moved) > 0
}

func (h *Hints) hear(ctx context.Context) {
	for {
		if err := h.hearFrom(ctx); err != nil && ctx.Err() == nil {
			h.log.WarnContext(ctx, "listen for logs that moved", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(hintAgain):
		}
	}
}

func (h *Hints) hearFrom(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, h.listen.Copy())
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, `listen `+hintChannel); err != nil {
		return err
	}
	h.heard(events.ID{}) // whatever was said before
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		h.tell(n.Payload)
	}
}

func (h *Hints) tell(hint string) {
	sender, logs, _ := strings.Cut(hint, " ")
	switch {
	case sender == h.sender:
		return
	case logs == hintAny:
		h.heard(events.ID{})
		return
	}
	for text := range strings.FieldsSeq(logs) {
		if id, err := events.ParseID(text); err == nil {
			h.heard(id)
		}
	}
}
