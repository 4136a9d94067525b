package dispatch_test

import (
	"testing"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/farm/wire"
)

// Runners of a deleted workspace are disconnected and get no more jobs, and one with a job once that was cancelled. They
// may come back if the workspace is restored.
func TestRunnersOfDeletedWorkspace(t *testing.T) {
	t.Parallel()
	j := newRunning(t)
	ann := events.Actor{Type: events.ByUser, ID: newID(), Name: "ann@acme.example"}
	owner := commands.Meta{Workspace: j.ws, Envelope: events.Envelope{Actor: ann}}
	_, err := j.r.CreateWorkspace(t.Context(), commands.CreateWorkspace{
		Meta: owner, Member: newID(), Email: "ann@acme.example", Name: "Acme", Slug: "acme",
	})
	require.NoError(t, err)
	spare := j.enrol(j.r, "spare", 1, 0)
	idle := dial(t, j.r, j.ws, spare)
	idle.greet()
	_, err = j.r.DeleteWorkspace(t.Context(), commands.DeleteWorkspace{Meta: owner, Name: "Acme"})
	require.NoError(t, err)
	require.Equal(t, websocket.CloseTryAgainLater, idle.closes())
	waiting := j.submit(j.r)
	j.cancel()
	j.a.next(wire.TypeCancel)
	j.a.send(wire.Event{Kind: wire.EventFinished, Outcome: "failed"}, j.job, j.epoch, 3)
	require.Equal(t, websocket.CloseTryAgainLater, j.a.closes())
	require.Equal(t, events.JobStateCancelled, j.state(j.job))
	require.Equal(t, events.JobStateQueued, j.state(waiting), "package deletion cancels it")

	_, err = j.r.RestoreWorkspace(t.Context(), commands.RestoreWorkspace{Meta: owner})
	require.NoError(t, err)
	back := dial(t, j.r, j.ws, spare)
	back.greet()
	job, _, _ := back.assigned()
	require.Equal(t, waiting, job)
}
