// Package callers makes callers of the API, for tests of handlers.
package callers

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/fault"
	"svc/http/fair"
	"svc/http/reply"
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

// RefusedAlike tests that ask, which needs a slot of a bound of four, is refused to a workspace that has its share and to
// others while none is left, each with the time to wait, and that the share comes back.
func RefusedAlike(
	t testing.TB, d *door.Door, bound *fair.Semaphore, workspace, elsewhere events.ID, ask func(context.Context) error,
) {
	t.Helper()
	one := Owner(workspace)
	require.NoError(t, d.AcquireSlot(As(t, one), bound))
	err := ask(As(t, one))
	require.ErrorIs(t, err, fair.ErrShare)
	require.Equal(t, http.StatusTooManyRequests, fault.As(err).Kind.Status())
	require.Equal(t, "rate_limited", fault.As(err).Code)
	require.Equal(t, []string{"3"}, reply.Headers(fault.As(err))["Retry-After"])
	require.ErrorIs(t, ask(As(t, Owner(workspace))), fair.ErrShare, "another of the workspace")
	for range 3 {
		require.NoError(t, d.AcquireSlot(As(t, Owner(world.NewID())), bound))
	}
	err = ask(As(t, Owner(elsewhere)))
	require.ErrorIs(t, err, fault.ErrBusy)
	require.Equal(t, http.StatusServiceUnavailable, fault.As(err).Kind.Status())
	require.Equal(t, []string{"3"}, reply.Headers(fault.As(err))["Retry-After"])

	one.ReleaseSlots()
	require.NoError(t, d.AcquireSlot(As(t, Owner(workspace)), bound))
}
