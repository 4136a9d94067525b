package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"svc/farm/runner/sandbox"
	"svc/farm/wire"
)

// A stepWatch ends a step that prints nothing for too long, and one that has done its work and does not
// end by itself. It is told of output by Write.
type stepWatch struct {
	x    *execution
	stop func() // ends the watch; nothing is reported afterwards

	mu      sync.Mutex
	printed time.Time
}

// watchStep watches the step that begins. The returned context ends when the step has to be stopped.
func (x *execution) watchStep(stopping context.Context) (context.Context, *stepWatch) {
	stopping, end := context.WithCancelCause(stopping)
	w := &stepWatch{x: x, printed: time.Now(), stop: func() { end(nil) }}
	idle, collect := seconds(x.Spec.IdleSeconds), x.Spec.Collect
	if idle == 0 && !collect {
		return stopping, w
	}
	var watch sync.WaitGroup
	if idle > 0 {
		watch.Go(func() { w.awaitSilence(stopping, idle, end) })
	}
	if collect {
		watch.Go(func() { w.awaitOutcome(stopping, end) })
	}
	w.stop = func() {
		end(nil)
		watch.Wait()
	}
	return stopping, w
}

// Write implements [io.Writer]: the step has printed something.
func (w *stepWatch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.printed = time.Now()
	return len(p), nil
}

func (w *stepWatch) silentUntil(limit time.Duration) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.printed.Add(limit)
}

// awaitSilence stops the step when it has printed nothing for so long.
func (w *stepWatch) awaitSilence(ctx context.Context, limit time.Duration, stop context.CancelCauseFunc) {
	for left := limit; left > 0; left = time.Until(w.silentUntil(limit)) {
		if !sleep(ctx, left) {
			return
		}
	}
	w.x.notice(fmt.Sprintf("nothing was printed for %d seconds", int(limit.Seconds())))
	stop(&sandbox.Stop{Reason: reasonIdle, Grace: seconds(w.x.Spec.GraceSeconds)})
}

const (
	outcomeCheckEvery = time.Second
	outcomeKill       = 5 * time.Second // between SIGTERM and SIGKILL of a step that has done its work
	maxOutcome        = 256 << 10       // bytes
)

// awaitOutcome stops the step when it has written its outcome, and has not ended in the grace period
// after that. The outcome of an earlier step is not its own.
func (w *stepWatch) awaitOutcome(ctx context.Context, stop context.CancelCauseFunc) {
	if w.x.hasOutcome() {
		return
	}
	for !w.x.hasOutcome() {
		if !sleep(ctx, outcomeCheckEvery) {
			return
		}
	}
	if !sleep(ctx, seconds(w.x.Spec.GraceSeconds)) {
		return
	}
	w.x.notice("the step has written its outcome and does not end: it is stopped")
	stop(&sandbox.Stop{Reason: reasonOutcome, Grace: outcomeKill})
}

// hasOutcome reports whether a step has written its outcome completely: a JSON object with a status.
func (x *execution) hasOutcome() bool {
	root, err := os.OpenRoot(x.job.Work())
	if err != nil {
		return false
	}
	defer root.Close()
	f, err := root.OpenFile(filepath.Join(wire.OutFolder, wire.OutcomeFile), os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe
	if err != nil {
		return false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return false
	}
	text, err := io.ReadAll(io.LimitReader(f, maxOutcome))
	if err != nil {
		return false
	}
	var outcome struct {
		Status json.RawMessage `json:"status"`
	}
	return json.Unmarshal(text, &outcome) == nil && len(outcome.Status) > 0
}

// sleep waits for d, and reports false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
