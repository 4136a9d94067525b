package store

import (
	"context"
	"errors"
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
	hintDelay   = 2 * time.Millisecond // how long a hint waits for further logs to share it
	hintMaxLogs = 200                  // logs that a hint can name
	hintAny     = "*"                  // stands for more logs than a hint can name
	hintRetry   = time.Second          // before another attempt to listen
	hintTimeout = 5 * time.Second      // of sending a hint, and of beginning to listen
)

// Hints tell other processes by NOTIFY which logs have grown, and receive their hints. A
// hint may be lost: receivers also look at the logs from time to time. The transaction that
// appends sends nothing, because NOTIFY would make all appends wait for each other.
type Hints struct {
	db     *pgxpool.Pool
	listen *pgx.ConnConfig // to the database itself, not to a pooler
	log    *slog.Logger
	onHint func(workspace events.ID) // called for each hint; the zero ID means any log
	sender string                    // begins each hint, so that a process can ignore its own

	mu    sync.Mutex
	grown map[events.ID]bool
	wake  chan struct{}
}

// NewHints returns hints that do nothing until Run is called. onHint is called when another
// process has appended to a log, and with the zero ID if any log may have grown. It must
// not block.
func NewHints(db *pgxpool.Pool, listen *pgx.ConnConfig, log *slog.Logger, onHint func(workspace events.ID)) *Hints {
	return &Hints{
		db: db, listen: listen, log: log, onHint: onHint, sender: events.NewID(time.Now()).String(),
		grown: map[events.ID]bool{}, wake: make(chan struct{}, 1),
	}
}

// Moved hints to the other processes, a moment later, that a log has grown. It does not
// block.
func (h *Hints) Moved(workspace events.ID, _ int64) {
	h.mu.Lock()
	h.grown[workspace] = true
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default: // it has been woken already
	}
}

// Run sends and receives hints until ctx ends.
func (h *Hints) Run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { h.send(ctx) })
	group.Go(func() { h.receive(ctx) })
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
		pause.Reset(hintDelay)
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		hint, ok := h.take()
		if !ok { // the previous hint named all of them
			continue
		}
		// If it fails, the other processes find out when they look for themselves.
		if err := h.notify(ctx, hint); err != nil && ctx.Err() == nil {
			h.log.WarnContext(ctx, "send hints of logs that have grown", "err", err)
		}
	}
}

func (h *Hints) notify(ctx context.Context, hint string) error {
	ctx, cancel := context.WithTimeout(ctx, hintTimeout)
	defer cancel()
	_, err := h.db.Exec(ctx, `select pg_notify($1, $2)`, hintChannel, hint)
	return err
}

// take returns the next hint: the sender and the ids of the logs that have grown, separated
// by spaces. ok is false if no log has.
func (h *Hints) take() (hint string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer clear(h.grown)
	if len(h.grown) > hintMaxLogs {
		return h.sender + " " + hintAny, true
	}
	list := []string{h.sender}
	for id := range h.grown {
		list = append(list, id.String())
	}
	return strings.Join(list, " "), len(h.grown) > 0
}

func (h *Hints) receive(ctx context.Context) {
	for {
		if err := h.receiveOn(ctx); err != nil && ctx.Err() == nil {
			h.log.WarnContext(ctx, "listen for hints of logs that have grown", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(hintRetry):
		}
	}
}

func (h *Hints) receiveOn(ctx context.Context) error {
	conn, err := h.startListening(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	h.onHint(events.ID{}) // hints sent before listening are lost
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		h.handle(n.Payload)
	}
}

// startListening returns a new connection that listens.
func (h *Hints) startListening(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, hintTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, h.listen.Copy())
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if _, err := conn.Exec(ctx, `listen `+hintChannel); err != nil {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	return conn, nil
}

func (h *Hints) handle(hint string) {
	sender, logs, _ := strings.Cut(hint, " ")
	switch {
	case sender == h.sender:
		return
	case logs == hintAny:
		h.onHint(events.ID{})
		return
	}
	for text := range strings.FieldsSeq(logs) {
		if id, err := events.ParseID(text); err == nil {
			h.onHint(id)
		}
	}
}
