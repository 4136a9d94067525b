package farm

import (
	"context"
	"sync"

	"svc/events"
)

// A takeover lets only the newest upload of a runner's job continue. A runner whose connection
// broke may send again while the old request still waits for data.
type takeover struct {
	mu  sync.Mutex
	end map[runnersJob]*context.CancelFunc
}

type runnersJob struct{ runner, job events.ID }

// begin cancels the current upload of the job, if any, and starts a new one. The caller must call
// done when it ends.
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
