package dispatch

import (
	"context"

	"svc/events"
)

// A QueueKey is a [queueKey].
type QueueKey = queueKey

// QueueKeys returns the next page of a workspace's queue keys.
func (d *Dispatcher) QueueKeys(ctx context.Context, workspace events.ID, sets []string, after QueueKey) ([]QueueKey, error) {
	return (&farm{d: d, workspace: workspace}).queueKeys(ctx, sets, after)
}
