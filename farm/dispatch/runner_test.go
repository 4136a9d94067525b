package dispatch_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/farm/certificate"
	"svc/farm/dispatch"
	"svc/farm/wire"
	"svc/projections/farmviews"
)

// A newer connection supersedes the older one, on any replica.
func TestNewerConnectionTakesOver(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first, second := s.replica(), s.replica()
	runner := s.enrol(first, "builder", 1, 0)
	a := dial(t, first, s.ws, runner)
	a.greet()
	b := dial(t, first, s.ws, runner)
	b.greet()
	require.Equal(t, wire.CloseSuperseded, a.closes(), "in the same process")
	c := dial(t, second, s.ws, runner)
	c.greet()
	b.send(wire.Heartbeat{Seq: 1}, events.ID{}, 0, 0)
	require.Equal(t, wire.CloseSuperseded, b.closes(), "in another one, with its next heartbeat")
	d := dial(t, first, s.ws, runner)
	d.greet()
	require.Equal(t, wire.CloseSuperseded, c.closes(), "or when everything is looked at anew")
	s.submit(second)
	d.assigned()
}

func TestRevokedRunnerIsDisconnectedFromEveryReplica(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	byEvent := func(c *dispatch.Config) { c.RefreshEvery = time.Hour }
	first, second := s.replica(byEvent), s.replica(byEvent)
	for _, r := range []*replica{first, second} {
		runner := s.enrol(first, "builder", 1, 0)
		a := dial(t, r, s.ws, runner)
		a.greet()
		_, err := first.RevokeRunner(t.Context(), commands.RevokeRunner{Meta: systemMeta(s.ws), Runner: runner})
		require.NoError(t, err)
		require.Equal(t, wire.CloseRevoked, a.closes())
		b := dial(t, r, s.ws, runner)
		b.send(hello, events.ID{}, 0, 0)
		require.Equal(t, wire.CloseRevoked, b.closes(), "one that was let in a moment before")
	}
}

// After a backup was restored, or a replica without the newest events took over, runners are told what
// happens next, although the numbers of its events are known.
func TestRunnerIsNotifiedAfterLogWasSetBack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica(func(c *dispatch.Config) { c.RefreshEvery = time.Hour })
	runner := s.enrol(r, "builder", 1, 0)
	a := dial(t, r, s.ws, runner)
	a.greet()
	s.waitForRunner(events.RunnerStateOnline, runner)
	var head int64
	require.NoError(t, s.db.QueryRow(t.Context(), `select head from logs where workspace_id = $1`, s.ws).Scan(&head))
	for range 5 {
		s.enrol(r, "other", 1, 0)
	}
	_, err := r.DrainRunner(t.Context(), commands.DrainRunner{Meta: systemMeta(s.ws), Runner: runner})
	require.NoError(t, err)
	require.False(t, body[wire.Drain](t, a.next(wire.TypeDrain)).End) // the farm has read all of it
	require.NoError(t, pgx.BeginFunc(t.Context(), s.db, func(tx pgx.Tx) error {
		for _, sql := range []string{
			`delete from events where workspace_id = $1 and seq > $2`, `update logs set head = $2 where workspace_id = $1`,
		} {
			if _, err := tx.Exec(t.Context(), sql, s.ws, head); err != nil {
				return err
			}
		}
		return nil
	}))
	_, err = r.RevokeRunner(t.Context(), commands.RevokeRunner{Meta: systemMeta(s.ws), Runner: runner})
	require.NoError(t, err)
	require.Equal(t, wire.CloseRevoked, a.closes())
}

func TestDrainedRunnerGetsNoJobs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first, second := s.replica(), s.replica()
	runner := s.enrol(first, "builder", 1, 0)
	a := dial(t, second, s.ws, runner)
	a.greet()
	_, err := first.DrainRunner(t.Context(), commands.DrainRunner{Meta: systemMeta(s.ws), Runner: runner})
	require.NoError(t, err)
	require.False(t, body[wire.Drain](t, a.next(wire.TypeDrain)).End)
	job := s.submit(first)
	_, err = first.ResumeRunner(t.Context(), commands.ResumeRunner{Meta: systemMeta(s.ws), Runner: runner})
	require.NoError(t, err)
	for { // the end of the drain comes before any job
		e, ok := <-a.got
		require.True(t, ok)
		require.NotEqual(t, wire.TypeAssign, e.Type)
		if e.Type == wire.TypeDrain {
			require.True(t, body[wire.Drain](t, e).End)
			break
		}
	}
	got, _, _ := a.assigned()
	require.Equal(t, job, got)
	a.send(wire.Decline{Reason: "draining"}, got, 1, 0)
	a.send(wire.Drain{}, events.ID{}, 0, 0)
	s.waitForState(events.JobStateQueued, job)
	view, jobs := farmviews.Runners{DB: s.db}, farmviews.Jobs{DB: s.db}
	seen := func() farmviews.Runner {
		found, ok, err := view.Get(t.Context(), s.ws, runner)
		require.True(t, ok, err)
		return found
	}
	require.Eventually(t, func() bool { return seen().Draining }, waitLimit, 2*time.Millisecond, "what the machine asked for is seen")
	require.Equal(t, events.RunnerStateDraining, seen().State)
	require.True(t, seen().DrainsItself)
	waits := func() string {
		list, err := jobs.ByIDs(t.Context(), s.ws, []events.ID{job})
		require.NoError(t, err)
		w, err := jobs.Waits(t.Context(), s.ws, list, list[0].NotBefore)
		require.NoError(t, err)
		return w.Reason(list[0])
	}
	require.Equal(t, farmviews.WaitsForDrained, waits())
	slots, err := view.Slots(t.Context(), s.ws)
	require.NoError(t, err)
	require.Equal(t, farmviews.RunnerSlots{Draining: 1}, slots)
	a.send(wire.Goodbye{}, events.ID{}, 0, 0)
	require.Equal(t, websocket.CloseNormalClosure, a.closes())
	s.waitForRunner(events.RunnerStateOffline, runner)
	require.False(t, seen().Draining, "it may take jobs when it is there again")
}

func (s *site) waitForRunner(state events.RunnerState, runner events.ID) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		var is events.RunnerState
		require.NoError(s.t, s.db.QueryRow(s.t.Context(), `select state from runners where runner_id = $1`, runner).Scan(&is))
		return is == state
	}, waitLimit, 2*time.Millisecond)
}

func TestSilentRunnerIsOfflineAndComesBack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	runner := s.enrol(r, "builder", 1, 0)
	a := dial(t, r, s.ws, runner)
	a.greet()
	s.waitForRunner(events.RunnerStateOnline, runner)
	s.clock.advance(31 * time.Second)
	r.SweepOnce(t.Context())
	s.waitForRunner(events.RunnerStateOffline, runner)
	a.send(wire.Heartbeat{Free: 1, Load: 0.5, DiskFree: 7}, events.ID{}, 0, 0)
	a.next(wire.TypeHeartbeatAck)
	s.waitForRunner(events.RunnerStateOnline, runner)
	seen, err := farmviews.Runners{DB: s.db}.Presences(t.Context(), s.ws, []events.ID{runner, newID()})
	require.NoError(t, err)
	require.Len(t, seen, 1)
	require.Less(t, s.clock.now().Sub(seen[runner].SeenAt), wire.StalledAfter, "by its new heartbeat")
}

// A runner enrolled for one job takes no other, and retires once the log is sealed.
func TestEphemeralRunnerRetires(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	runner := s.enrol(r, "builder", 5, 1)
	a := dial(t, r, s.ws, runner)
	a.greet()
	s.submit(r)
	other := s.submit(r)
	job, epoch, _ := a.assigned()
	a.send(wire.Accept{}, job, epoch, 0)
	a.send(wire.Event{Kind: wire.EventStarted}, job, epoch, 1)
	a.acked(1)
	r.SweepOnce(t.Context())
	a.send(finished(""), job, epoch, 2)
	a.acked(2)
	r.SweepOnce(t.Context())
	require.Equal(t, wire.CloseRevoked, a.closes())
	s.waitForRunner(events.RunnerStateRetired, runner)
	require.Equal(t, 1, len(s.kinds(other)))
}

// An ephemeral runner that declines its job is given another. If it did not answer it may have
// started the job, and is given none.
func TestEphemeralRunnerThatDeclines(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	runner := s.enrol(r, "builder", 1, 1)
	a := dial(t, r, s.ws, runner)
	a.greet()
	first := s.submit(r)
	job, epoch, _ := a.assigned()
	require.Equal(t, first, job)
	a.send(wire.Decline{Reason: "disk_full"}, job, epoch, 0)
	s.waitForState(events.JobStateQueued, first)
	r.SweepOnce(t.Context())
	second := s.submit(r)
	for job != second { // the first runner is a candidate again after a while
		a.send(wire.Heartbeat{Free: 1}, events.ID{}, 0, 0)
		if job, epoch, _ = a.assigned(); job == first {
			a.send(wire.Decline{Reason: "disk_full"}, job, epoch, 0)
		}
	}
	s.clock.advance(21 * time.Second)
	r.SweepOnce(t.Context())
	s.waitForState(events.JobStateQueued, second)
	r.SweepOnce(t.Context())
	s.waitForRunner(events.RunnerStateRetired, runner)
}

// Runners are told to reconnect, and their leases outlast the restart.
func TestClosingReplicaTellsRunnersToReconnect(t *testing.T) {
	t.Parallel()
	j := newRunning(t)
	second := j.replica()
	j.r.stop()
	j.a.next(wire.TypeClosing)
	require.Equal(t, websocket.CloseServiceRestart, j.a.closes())
	_, err := j.r.Reserve(j.ws)
	require.ErrorIs(t, err, dispatch.ErrClosing)
	b := dial(t, second, j.ws, j.runner)
	w := b.greet(wire.Held{Job: j.job.String(), Epoch: j.epoch, Sent: 5})
	require.Equal(t, wire.Verdict{Job: j.job.String(), Epoch: j.epoch, Verdict: wire.Continue, Acked: 2}, w.Held[0])
	b.send(finished("one\n"), j.job, j.epoch, 3)
	b.acked(3)
	require.Equal(t, events.JobStateSucceeded, j.state(j.job))
	c := dial(t, second, j.ws, j.runner)
	w = c.greet(wire.Held{Job: j.job.String(), Epoch: j.epoch, Sent: 3})
	require.Equal(t, wire.Verdict{Job: j.job.String(), Epoch: j.epoch, Verdict: wire.Done, Acked: 3}, w.Held[0])
	c.send(finished("one\n"), j.job, j.epoch, 3)
	c.acked(3)
}

// A connection whose handshake ends while the replica closes is told so, too.
func TestLateConnectionIsToldToReconnect(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	runner := s.enrol(r, "builder", 1, 0)
	release, err := r.Reserve(s.ws)
	require.NoError(t, err)
	closed := make(chan struct{})
	go func() { r.stop(); close(closed) }()
	require.Eventually(t, func() bool {
		other, err := r.Reserve(s.ws)
		if err == nil {
			other()
		}
		return errors.Is(err, dispatch.ErrClosing)
	}, waitLimit, time.Millisecond)
	late := &replica{server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		socket, err := upgrader.Upgrade(w, req, nil)
		if err != nil {
			release()
			return
		}
		r.Serve(socket, r.identity(s.ws, runner, "builder"), release)
	}))}
	t.Cleanup(late.server.Close)
	a := dial(t, late, s.ws, runner)
	require.Equal(t, websocket.CloseServiceRestart, a.closes())
	select {
	case <-closed:
	case <-time.After(waitLimit):
		require.FailNow(t, "the replica does not close")
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica(func(c *dispatch.Config) { c.MaxConnections, c.MaxPerWorkspace = 3, 2 })
	first, err := r.Reserve(s.ws)
	require.NoError(t, err)
	second, err := r.Reserve(s.ws)
	require.NoError(t, err)
	_, err = r.Reserve(s.ws)
	require.ErrorIs(t, err, dispatch.ErrFull)
	third, err := r.Reserve(newID())
	require.NoError(t, err)
	_, err = r.Reserve(newID())
	require.ErrorIs(t, err, dispatch.ErrFull)
	first()
	fourth, err := r.Reserve(s.ws)
	require.NoError(t, err)
	for _, releaseSlot := range []func(){second, third, fourth} {
		releaseSlot()
	}
}

func TestConnectionWithoutHelloIsClosed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	a := dial(t, r, s.ws, s.enrol(r, "builder", 1, 0))
	a.send(wire.Heartbeat{}, events.ID{}, 0, 0)
	require.Equal(t, wire.CloseProtocol, a.closes())
	b := dial(t, r, s.ws, s.enrol(r, "builder", 1, 0))
	require.Equal(t, wire.CloseProtocol, b.closes(), "after ten seconds")
}

// sendPongs sends unsolicited pongs until the socket is closed.
func (a *agent) sendPongs() {
	pongs := time.NewTicker(time.Second)
	defer pongs.Stop()
	for range pongs.C {
		if a.socket.WriteControl(websocket.PongMessage, nil, time.Now().Add(time.Second)) != nil {
			return
		}
	}
}

func TestPongsAreNoHello(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	a := dial(t, r, s.ws, s.enrol(r, "builder", 1, 0))
	go a.sendPongs()
	require.Equal(t, wire.CloseProtocol, a.closes(), "after ten seconds")
}

// A runner that ignores the close frame does not keep its connection.
func TestPongsDoNotKeepClosedConnection(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	runner := s.enrol(r, "builder", 1, 0)
	a := dial(t, r, s.ws, runner)
	a.socket.SetCloseHandler(func(int, string) error { return nil })
	a.greet()
	go a.sendPongs()
	_, err := r.RevokeRunner(t.Context(), commands.RevokeRunner{Meta: systemMeta(s.ws), Runner: runner})
	require.NoError(t, err)
	require.Equal(t, wire.CloseRevoked, a.closes())
	require.Eventually(t, func() bool { return r.Stats().Connected == 0 }, waitLimit, 10*time.Millisecond)
}

// It is closed before the time for its hello is over.
func TestConnectionWithoutHelloEndsWithItsCertificate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica(func(c *dispatch.Config) { c.RefreshEvery = 100 * time.Millisecond })
	a := dial(t, r, s.ws, s.enrol(r, "builder", 1, 0))
	require.Eventually(t, func() bool { return r.Stats().Connected == 1 }, waitLimit, time.Millisecond)
	s.clock.advance(certificate.Lifetime + time.Second)
	require.Equal(t, wire.CloseExpired, a.closes())
}
