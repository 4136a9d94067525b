package plans_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/events/store"
	"svc/farm/dispatch"
	"svc/farm/wire"
	"svc/test/world"
)

const patience = time.Minute

// A gate is where runners of acme connect to a dispatcher, whose clock the test moves.
type gate struct {
	*dispatch.Dispatcher
	*commands.Handler
	log    *store.Store
	acme   events.ID
	server *httptest.Server
	turn   int64 // of the last job that was submitted: before all others

	mu  sync.Mutex
	now time.Time
}

func (g *gate) clock() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now
}

func (g *gate) move(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now = g.now.Add(d)
}

// openGate begins a dispatcher that works on db. A runner that takes no jobs stays connected to
// it: with the last one all that goes on would be broken off, and the connection to the database.
func (p *process) openGate(t *testing.T, db *pgxpool.Pool) *gate {
	t.Helper()
	g := &gate{log: p.log, acme: p.acme, now: epoch.Add(time.Hour)}
	g.Handler = commands.New(p.log, g.clock)
	g.Views = world.Views(db, nil)
	g.Dispatcher = dispatch.New(dispatch.Config{
		DB: db, Commands: g.Handler, Live: p.live, Logs: p.logs, Leads: always, Now: g.clock, Log: quiet, RefreshEvery: 50 * time.Millisecond,
		LogRetention: 90 * 24 * time.Hour, ArtifactRetention: 90 * 24 * time.Hour, CloneURL: func(context.Context, events.ID, events.ID,
			string) (string, error) {
			return "", nil
		},
	})
	upgrader := websocket.Upgrader{}
	g.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := events.ParseID(r.URL.Path[1:])
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		giveBack, err := g.Reserve(p.acme)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		socket, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			giveBack()
			return
		}
		runner := dispatch.Runner{Workspace: p.acme, ID: id, Name: "builder", NotAfter: time.Now().Add(time.Hour), Envelope: runs(id)}
		g.Serve(socket, runner, giveBack)
	}))
	t.Cleanup(func() { g.Close(); g.server.Close() })
	g.connect(t, g.enrol(t), wire.Hello{Draining: true})
	return g
}

func runs(runner events.ID) events.Envelope {
	return events.Envelope{Actor: events.Actor{Type: events.ByRunner, ID: runner, Name: "builder"}, Origin: events.FromFarm}
}

// enrol makes a machine a runner, as if it had shown a token.
func (g *gate) enrol(t *testing.T) events.ID {
	t.Helper()
	id := newID()
	done[events.Committed](t)(g.log.Append(t.Context(), &events.Commit{
		Workspace: g.acme, Envelope: runs(id), At: g.clock(), Writes: []events.Write{{Stream: id, Events: []events.Event{
			events.RunnerEnrolled{
				Runner: id, Name: "builder", Enrollment: newID(), Labels: []string{}, MintedLabels: []string{}, ExclusiveLabels: []string{},
				Capacity: 1, CapacityLimit: 1, Certificate: events.Certificate{Serial: id.String(), NotAfter: epoch.AddDate(1, 0, 0)},
			},
		}}},
	}))
	return id
}

func system(workspace events.ID) commands.Meta {
	return commands.Meta{
		Workspace: workspace, Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "system"}, Origin: events.FromSystem},
	}
}

// submit asks for a job whose turn it is.
func (g *gate) submit(t *testing.T) events.ID {
	t.Helper()
	id := newID()
	g.turn--
	turn := g.turn
	done[commands.Result](t)(g.SubmitJob(world.WithTurn(t.Context(), turn, nil), commands.SubmitJob{
		Meta: system(g.acme), Job: id,
		Spec: events.JobSpec{
			Name: "tests", Steps: []events.JobStep{{Name: "test", Run: "true"}}, Priority: events.NormalPriority,
			Sandbox:  events.JobSandbox{Kind: "none", Network: "host"},
			Timeouts: events.JobTimeouts{QueueSeconds: 3600, RunSeconds: 600, CancelGraceSeconds: 10},
			Retry:    events.JobRetry{MaxAttempts: 5, On: []string{"lost", "infra"}},
		},
	}))
	return id
}

func (g *gate) cancel(t *testing.T, job events.ID) {
	t.Helper()
	done[commands.Result](t)(g.CancelJob(t.Context(), commands.CancelJob{Meta: system(g.acme), Job: job, Reason: "superseded"}))
}

// An agent is the runner's side of a connection.
type agent struct {
	t      *testing.T
	socket *websocket.Conn
	got    chan wire.Envelope
}

// connect dials and says hello.
func (g *gate) connect(t *testing.T, runner events.ID, h wire.Hello) *agent {
	t.Helper()
	socket, answer, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(g.server.URL, "http")+"/"+runner.String(), nil)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	a := &agent{t: t, socket: socket, got: make(chan wire.Envelope, 1000)}
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		defer close(a.got)
		for {
			_, frame, err := socket.ReadMessage()
			if err != nil {
				return
			}
			if e, err := wire.Decode(frame); err == nil {
				a.got <- e
			}
		}
	}()
	h.Version, h.OS, h.Arch, h.Capacity, h.Sandboxes = "1", "linux", "amd64", 1, []string{"none"}
	a.say(h, events.ID{}, 0, 0)
	a.next(wire.TypeWelcome)
	return a
}

func (a *agent) say(m wire.Message, job events.ID, epoch int, seq int64) {
	a.t.Helper()
	name := ""
	if !job.IsZero() {
		name = job.String()
	}
	frame, err := wire.EncodeFor(m, time.Now(), name, epoch, seq)
	require.NoError(a.t, err)
	require.NoError(a.t, a.socket.WriteMessage(websocket.TextMessage, frame))
}

// next returns the next message of a type, and passes over others.
func (a *agent) next(kind wire.Type) wire.Envelope {
	a.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case e, ok := <-a.got:
			require.True(a.t, ok, "closed before %s", kind)
			if e.Type == kind {
				return e
			}
		case <-limit:
			require.FailNow(a.t, "not said", string(kind))
		}
	}
}

// begins accepts a job that the runner is given, and begins it.
func (a *agent) begins(job events.ID) (epoch int) {
	a.t.Helper()
	e := a.next(wire.TypeAssign)
	require.Equal(a.t, job.String(), e.Job)
	a.say(wire.Accept{}, job, e.Epoch, 0)
	a.say(wire.Event{Kind: wire.EventStarted}, job, e.Epoch, 1)
	a.acked(1)
	return e.Epoch
}

func (a *agent) acked(upto int64) {
	a.t.Helper()
	for {
		ack, err := wire.Read[wire.Ack](a.next(wire.TypeAck))
		require.NoError(a.t, err)
		if ack.Upto >= upto {
			return
		}
	}
}

// dispatch takes jobs through a runner's hands: one to its end, one that it does not answer,
// and one that it falls silent over.
func (g *gate) dispatch(t *testing.T) {
	t.Helper()
	runner := g.enrol(t)
	a := g.connect(t, runner, wire.Hello{})
	job := g.submit(t)
	held := wire.Held{Job: job.String(), Epoch: a.begins(job), Sent: 3}
	chunk := wire.Chunk{Job: [16]byte(job), Epoch: held.Epoch, Seq: 2, At: time.Now(), Data: []byte("ok\n")}
	require.NoError(t, a.socket.WriteMessage(websocket.BinaryMessage, chunk.AppendTo(nil)))
	a.say(wire.Event{Kind: wire.EventNotice, Text: "a notice"}, job, held.Epoch, 3)
	a.acked(3)
	a.say(wire.Heartbeat{Seq: 1, Held: []wire.Held{held, {Job: newID().String(), Epoch: 1}}}, events.ID{}, 0, 0)
	a.next(wire.TypeHeartbeatAck)
	a.say(wire.Drain{End: true}, events.ID{}, 0, 0)
	g.cancel(t, job)
	a.next(wire.TypeCancel)
	a = g.connect(t, runner, wire.Hello{Held: []wire.Held{held}})
	a.say(wire.Event{Kind: wire.EventFinished, Outcome: "cancelled"}, job, held.Epoch, 4)
	a.acked(4)
	g.SweepOnce(t.Context())

	job = g.submit(t)
	require.Equal(t, job.String(), a.next(wire.TypeAssign).Job)
	g.move(21 * time.Second)
	g.SweepOnce(t.Context())
	g.cancel(t, job)

	a = g.connect(t, runner, wire.Hello{})
	job = g.submit(t)
	a.begins(job)
	g.move(91 * time.Second)
	g.SweepOnce(t.Context())
	g.cancel(t, job)
	a.say(wire.Goodbye{}, events.ID{}, 0, 0)
	for range a.got { // until it is closed
		continue
	}
}

// leaveIdle connects a runner and waits until dispatch has looked for jobs for it by all ways: the jobs
// that suit it wait for others of their concurrency key.
func (g *gate) leaveIdle(t *testing.T, w *watcher) {
	t.Helper()
	g.connect(t, g.enrol(t), wire.Hello{})
	require.Eventually(t, func() bool { return w.times("as k (requirement, concurrency_key") >= settled }, patience, 10*time.Millisecond)
}
