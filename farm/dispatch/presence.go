package dispatch

import (
	"context"
	"fmt"

	"svc/commands"
	"svc/events"
)

// markOffline records in the log that a runner is offline. Its presence row is updated only if this
// is still its connection.
func (d *Dispatcher) markOffline(ctx context.Context, r Runner, connection events.ID, why events.OfflineReason) error {
	if _, err := d.Commands.DisconnectRunner(ctx, commands.DisconnectRunner{Meta: r.meta(), Runner: r.ID, Reason: why}); err != nil {
		return fmt.Errorf("disconnect runner %s: %w", r.ID, err)
	}
	_, err := d.DB.Exec(ctx, `
		update runner_presence set online = false
		where workspace_id = $1 and runner_id = $2 and connection_id = $3`, r.Workspace, r.ID, connection)
	if err != nil {
		return fmt.Errorf("presence of runner %s: %w", r.ID, err)
	}
	return nil
}
