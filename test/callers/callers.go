// Package callers makes callers of the API, for tests of handlers.
package callers

import (
	"context"
	"testing"

	"svc/events"
	"svc/http/rest/door"
	"svc/test/world"
)

// As returns the context of a request by c.
func As(t testing.TB, c *door.Caller) context.Context {
	return door.WithCaller(t.Context(), c)
}

// Owner returns a new caller that owns a workspace.
func Owner(workspace events.ID) *door.Caller {
	user := world.NewID()
	return &door.Caller{
		Workspace: workspace, Person: &door.Person{User: user, Role: events.Owner}, FoundAt: world.Epoch,
		Envelope: events.Envelope{Actor: events.Actor{Type: events.ByUser, ID: user}},
	}
}
