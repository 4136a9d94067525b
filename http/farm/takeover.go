package farm

import (
	"context"
	"sync"

	"svc/events"
)

// A takeover lets the newest upload of a runner's job go on in a process, and ends those before: a
// runner whose connection broke comes again while the other end of that still waits.
type takeover struct {
	mu  sync.Mutex
	end map[runnersJob]*context.CancelFunc
}

type runnersJob struct{ runner, job events.ID }

// begin ends the upload that there is. Call done when this one has ended.
func (t *takeover) begin(ctx context.Context, runner, job events.ID) (_ context.Context, done func()) {
	key := runnersJob{runner, job}
	ctx, cancel := context.WithCancel(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if before := t.end[key]; before != nil {
		(*before)()
	}
	if t.end == nil {
		t.end = map[runnersJob]*context.CancelFunc{}
	}
	t.end[key] = &cancel
	return ctx, func() {
		cancel()
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.end[key] == &cancel {
			delete(t.end, key)
		}
	}
}
