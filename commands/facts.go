package commands

import (
	"context"

	"svc/commands/work"
	"svc/events"
)

// read calls do with the aggregate of a stream as it is in the log, within the time of a command. It may
// call do again with a newer one. do must not keep it.
func read[T any, A work.Aggregate[T]](ctx context.Context, h *Handler, workspace, stream events.ID, do func(A)) error {
	return h.Read(ctx, workspace, func(w *work.Unit) error {
		return work.Inspect(w, stream, func(a A) error {
			do(a)
			return nil
		})
	})
}
