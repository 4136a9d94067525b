package commands

import (
	"context"
	"fmt"

	"svc/events"
	"svc/fault"
)

// RecordSigningKey records that the key which signs the log was replaced. Operators issue
// it on the command line.
type RecordSigningKey struct {
	Workspace events.ID
	Replaced  events.SigningKeyReplaced
}

// RecordSigningKey appends the event. The log must exist, because a workspace begins with
// other events.
func (h *Handler) RecordSigningKey(ctx context.Context, c RecordSigningKey) error {
	before, err := h.log.Load(ctx, c.Workspace, events.SigningKeyStream, 0)
	if err != nil {
		return fmt.Errorf("load the signing keys of %s: %w", c.Workspace, err)
	}
	_, err = h.log.Append(ctx, &events.Commit{
		Workspace: c.Workspace, At: h.now(),
		Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "svc-db replace-key"}, Origin: events.FromCLI},
		Writes:   []events.Write{{Stream: events.SigningKeyStream, Version: len(before), Events: []events.Event{c.Replaced}}},
	})
	return fault.Wrap(err, "record the signing key of %s", c.Workspace)
}
