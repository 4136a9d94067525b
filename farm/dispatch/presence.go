package dispatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	rules "svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/fault"
)

// A presence is what a runner said about itself on its connection, and whether the log knows it.
type presence struct {
	mu          sync.Mutex
	hello       rules.Hello // as received
	greeted     bool        // the welcome was sent
	saidGoodbye bool        // goodbye was received
	lastSeen    time.Time   // time of its last heartbeat or hello
	unannounced bool        // the log does not have all of hello yet
}

func (p *presence) setHello(h rules.Hello) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hello = h
}

func (p *presence) lastHello() rules.Hello {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hello
}

// setGreeted notes that the welcome was sent.
func (p *presence) setGreeted(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.greeted, p.lastSeen = true, at
}

func (p *presence) isGreeted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.greeted
}

// setSeen notes the time of a heartbeat.
func (p *presence) setSeen(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastSeen = at
}

// leave notes that the runner said goodbye.
func (p *presence) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saidGoodbye = true
}

// isAlive reports whether the runner was heard since a time and has not said goodbye.
func (p *presence) isAlive(since time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.saidGoodbye && !p.lastSeen.Before(since)
}

func (p *presence) setUnannounced(unannounced bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unannounced = unannounced
}

// isUnannounced reports whether something about the runner has changed that the log does not have.
func (p *presence) isUnannounced() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unannounced
}

// markOffline records in the log that a runner is offline. Its presence row is updated only if this
// is still its connection.
func (d *Dispatcher) markOffline(ctx context.Context, r Runner, connection events.ID, why events.OfflineReason) error {
	if _, err := d.Commands.DisconnectRunner(ctx, commands.DisconnectRunner{Meta: r.Meta(), Runner: r.ID, Reason: why}); err != nil {
		return fmt.Errorf("disconnect runner %s: %w", r.ID, err)
	}
	_, err := d.DB.Exec(ctx, `
		update runner_presence set online = false
		where workspace_id = $1 and runner_id = $2 and connection_id = $3`, r.Workspace, r.ID, connection)
	return fault.Wrap(err, "clear presence of runner %s", r.ID)
}
