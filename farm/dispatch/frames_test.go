package dispatch_test

import (
	"bytes"
	"context"
	"math"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/dispatch"
	"svc/farm/wire"
)

// running is a started job. Its messages 1 and 2 are stored.
type running struct {
	*site
	r      *replica
	runner events.ID
	a      *agent
	job    events.ID
	epoch  int
}

func newRunning(t *testing.T, change ...func(*dispatch.Config)) *running {
	t.Helper()
	s := newSite(t)
	j := &running{site: s, r: s.replica(change...)}
	j.runner = s.enrol(j.r, "builder", 2, 0)
	j.a = dial(t, j.r, s.ws, j.runner)
	j.a.greet()
	s.submit(j.r)
	j.job, j.epoch, _ = j.a.assigned()
	j.begin()
	return j
}

// begin accepts the job and reports that it has started and written one line.
func (j *running) begin() {
	j.a.send(wire.Accept{}, j.job, j.epoch, 0)
	j.a.send(wire.Event{Kind: wire.EventStarted}, j.job, j.epoch, 1)
	j.a.chunk(j.job, j.epoch, 2, 0, "one\n")
	j.a.acked(2)
}

// stored returns everything that a frame could have changed.
func (j *running) stored() string {
	j.t.Helper()
	var text string
	require.NoError(j.t, j.db.QueryRow(context.Background(), `
		select concat((select jsonb_agg(to_jsonb(l) - 'renewed_at' order by job_id) from job_leases l),
			(select jsonb_agg(to_jsonb(c) order by job_id, from_byte) from job_logs c),
			(select jsonb_agg(to_jsonb(x) - 'seq' order by seq) from events x where stream = any($1)))`, []events.ID{j.job}).Scan(&text))
	return text
}

func TestMalformedFramesCloseConnection(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind  int
		frame func(j *running) []byte
		code  int
	}{
		"no JSON":                 {websocket.TextMessage, text("hello"), wire.CloseProtocol},
		"chunk in a text frame":   {websocket.TextMessage, func(j *running) []byte { return chunkOf(j.job, 1, 3, 4, "x") }, wire.CloseProtocol},
		"event in a binary frame": {websocket.BinaryMessage, text(`{"t":"heartbeat","d":{"seq":1}}`), wire.CloseProtocol},
		"chunk without header":    {websocket.BinaryMessage, text("\x01"), wire.CloseProtocol},
		"second hello":            {websocket.TextMessage, text(`{"t":"hello","d":{"capacity":1}}`), wire.CloseProtocol},
		"event without job": {websocket.TextMessage, text(`{"t":"job.event","epoch":1,"seq":3,"d":{"kind":"started"}}`),
			wire.CloseProtocol},
		"event without number": {websocket.TextMessage, event(`"epoch":1,"d":{"kind":"notice"}`), wire.CloseProtocol},
		"event without kind":   {websocket.TextMessage, event(`"epoch":1,"seq":3,"d":{}`), wire.CloseProtocol},
		"event without epoch":  {websocket.TextMessage, event(`"seq":3,"d":{"kind":"notice"}`), wire.CloseProtocol},
		"step out of range":    {websocket.TextMessage, event(`"epoch":1,"seq":3,"d":{"kind":"step.started","step":2}`), wire.CloseProtocol},
		"part of a commit": {websocket.TextMessage, event(`"epoch":1,"seq":3,"d":{"kind":"checked_out","commit":"9f2c41d"}`),
			wire.CloseProtocol},
		"unknown outcome": {websocket.TextMessage, event(`"epoch":1,"seq":3,"d":{"kind":"finished","outcome":"lost"}`), wire.CloseProtocol},
		"a reason with NUL": {websocket.TextMessage, event(`"epoch":1,"seq":3,"d":{"kind":"finished","outcome":"failed","reason":"a\u0000"}`),
			wire.CloseProtocol},
		"malformed digest": {websocket.TextMessage, event(`"epoch":1,"seq":3,"d":{"kind":"finished","outcome":"failed","log":{"sha256":"aa"}}`),
			wire.CloseProtocol},
		"gap in the log": {websocket.BinaryMessage, func(j *running) []byte { return chunkOf(j.job, 1, 3, 5, "x") }, wire.CloseProtocol},
		"malformed held job": {websocket.TextMessage, text(`{"t":"heartbeat","d":{"seq":1,"held":[{"job":"a","epoch":1}]}}`),
			wire.CloseProtocol},
		"usage without job": {websocket.TextMessage, text(`{"t":"heartbeat","d":{"seq":1,"jobs":[{"job":"a"}]}}`), wire.CloseProtocol},
		"too long": {websocket.TextMessage, text(`{"t":"` + string(bytes.Repeat([]byte("x"), wire.MaxMessage)) + `"}`),
			websocket.CloseMessageTooBig},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newRunning(t)
			before := j.stored()
			require.NoError(t, j.a.socket.WriteMessage(c.kind, c.frame(j)))
			require.Equal(t, c.code, j.a.closes())
			require.Equal(t, before, j.stored())
		})
	}
}

func text(s string) func(*running) []byte { return func(*running) []byte { return []byte(s) } }

func event(rest string) func(*running) []byte {
	return func(j *running) []byte {
		return []byte(`{"t":"job.event","job":"` + j.job.String() + `",` + rest + `}`)
	}
}

func chunkOf(job events.ID, epoch int, seq, offset int64, s string) []byte {
	return wire.Chunk{Job: [16]byte(job), Epoch: epoch, Seq: seq, Offset: offset, At: time.Now(), Data: []byte(s)}.AppendTo(nil)
}

// Times and sizes out of any sensible range are stored as values that can be shown.
func TestOutOfRangeNumbersAreClamped(t *testing.T) {
	t.Parallel()
	j := newRunning(t)
	for i, at := range []time.Time{time.UnixMilli(1<<50 - 1), time.UnixMilli(0), time.Now().Add(time.Hour)} {
		chunk := wire.Chunk{Job: [16]byte(j.job), Epoch: j.epoch, Seq: int64(3 + i), Offset: int64(4 + i), At: at, Data: []byte("x")}
		require.NoError(t, j.a.socket.WriteMessage(websocket.BinaryMessage, chunk.AppendTo(nil)))
	}
	j.a.acked(5)
	chunks, err := j.r.logs.Read(t.Context(), j.ws, j.job, j.epoch, 4, 10)
	require.NoError(t, err)
	require.Len(t, chunks, 3)
	for i, after := range []time.Duration{0, 0, time.Hour} {
		require.WithinDuration(t, time.Now().Add(after), chunks[i].At, waitLimit)
	}
	j.a.send(wire.Heartbeat{
		Seq: 1, Held: []wire.Held{{Job: j.job.String(), Epoch: j.epoch}}, DiskFree: -1, Memory: math.MaxInt64,
		Jobs: []wire.Usage{{Job: j.job.String(), CPUMs: math.MaxInt64, RSSBytes: -1}},
	}, events.ID{}, 0, 0)
	j.a.next(wire.TypeHeartbeatAck)
	var said string
	require.NoError(t, j.db.QueryRow(t.Context(), `
		select concat_ws(' ', disk_free, memory, usage->0->>'cpuMs', usage->0->>'rssBytes') from runner_presence`).Scan(&said))
	require.Equal(t, "0 9007199254740991 9007199254740991 0", said)
}

// Well-formed frames at the wrong moment are answered, and change nothing.
func TestOutOfOrderFramesChangeNothing(t *testing.T) {
	t.Parallel()
	j := newRunning(t)
	others := newSite(t) // the same database server, another workspace
	before := j.stored()
	for name, c := range map[string]struct {
		say  func()
		want wire.Type
	}{
		"repeated number":                 {func() { j.a.chunk(j.job, j.epoch, 2, 0, "one\n") }, wire.TypeAck},
		"repeated number with other data": {func() { j.a.chunk(j.job, j.epoch, 2, 0, "two\n") }, wire.TypeAck},
		"repeated event":                  {func() { j.a.send(wire.Event{Kind: wire.EventStarted}, j.job, j.epoch, 1) }, wire.TypeAck},
		"after a gap":                     {func() { j.a.chunk(j.job, j.epoch, 4, 4, "x") }, wire.TypeError},
		"chunk of a future epoch":         {func() { j.a.chunk(j.job, j.epoch+1, 1, 0, "x") }, wire.TypeStop},
		"event of a future epoch":         {func() { j.a.send(wire.Event{Kind: wire.EventStarted}, j.job, j.epoch+1, 1) }, wire.TypeStop},
		"chunk of an unknown job":         {func() { j.a.chunk(newID(), 1, 1, 0, "x") }, wire.TypeStop},
		"event of an unknown job":         {func() { j.a.send(wire.Event{Kind: wire.EventStarted}, newID(), 1, 1) }, wire.TypeStop},
		"accept of an unknown job":        {func() { j.a.send(wire.Accept{}, newID(), 1, 0) }, wire.TypeStop},
		"decline of an unknown job":       {func() { j.a.send(wire.Decline{Reason: "busy"}, others.ws, 1, 0) }, wire.TypeStop},
	} {
		c.say()
		j.a.next(c.want)
		require.Equal(t, before, j.stored(), name)
	}
	j.a.send(unknown{}, events.ID{}, 0, 0) // a newer agent may send unknown types
	j.a.chunk(j.job, j.epoch, 3, 4, "two\n")
	j.a.acked(3)
	require.NotEqual(t, before, j.stored())
}

// A runner that has too many jobs for a hello sends the end of one again, and is told what is stored of it.
func TestEndOfJobThatHelloDoesNotList(t *testing.T) {
	t.Parallel()
	j := newRunning(t)
	a := dial(t, j.r, j.ws, j.runner)
	a.greet()
	a.send(finished("one\n"), j.job, j.epoch, 5)
	require.EqualValues(t, 3, body[wire.Error](t, a.next(wire.TypeError)).Expected)
	a.send(finished("one\n"), j.job, j.epoch, 3)
	a.acked(3)
	again := dial(t, j.r, j.ws, j.runner)
	again.greet()
	again.send(finished("one\n"), j.job, j.epoch, 3)
	again.acked(3)
}

type unknown struct{}

func (unknown) Type() wire.Type { return "unheard.of" }

// Another runner of the workspace learns the same about the job as about one that does not exist.
func TestAnotherRunnerChangesNothing(t *testing.T) {
	t.Parallel()
	j := newRunning(t)
	other := dial(t, j.r, j.ws, j.enrol(j.r, "other", 1, 0))
	w := other.greet(wire.Held{Job: j.job.String(), Epoch: j.epoch}, wire.Held{Job: newID().String(), Epoch: j.epoch})
	require.Equal(t, wire.StopJob, w.Held[0].Verdict)
	w.Held[0].Job = w.Held[1].Job
	require.Equal(t, w.Held[1], w.Held[0])
	before := j.stored()
	for _, job := range []events.ID{j.job, newID()} {
		other.chunk(job, j.epoch, 3, 4, "x")
		require.Equal(t, wire.Stop{Reason: "not yours"}, body[wire.Stop](t, other.next(wire.TypeStop)))
		other.send(finished(""), job, j.epoch, 3)
		require.Equal(t, wire.Stop{Reason: "not yours"}, body[wire.Stop](t, other.next(wire.TypeStop)))
		other.send(wire.Heartbeat{Held: []wire.Held{{Job: job.String(), Epoch: j.epoch}}}, events.ID{}, 0, 0)
		v := body[wire.HeartbeatAck](t, other.next(wire.TypeHeartbeatAck)).Held[0]
		require.Equal(t, wire.Verdict{Job: job.String(), Epoch: j.epoch, Verdict: wire.StopJob}, v)
	}
	require.Equal(t, before, j.stored())
	j.a.chunk(j.job, j.epoch, 3, 4, "two\n")
	j.a.acked(3)
}

// The runner goes on sending messages of jobs that it was told to stop.
func TestRunnerThatIgnoresStopIsDisconnected(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica(func(c *dispatch.Config) { c.MessageRate, c.WorkspaceRate = 100_000, 100_000 })
	a := dial(t, r, s.ws, s.enrol(r, "builder", 1, 0))
	a.greet()
	go func() {
		for range 17 * wire.WindowMessages {
			if a.socket.WriteMessage(websocket.BinaryMessage, chunkOf(newID(), 1, 1, 0, "x")) != nil {
				return
			}
		}
	}()
	require.Equal(t, wire.CloseFlood, a.closes())
}

// While the database is away nothing more is read, and the runner is finally asked to reconnect.
// What it sends then is stored once.
func TestUnstoredMessagesAreNotAcknowledged(t *testing.T) {
	t.Parallel()
	j := newRunning(t, func(c *dispatch.Config) { c.MessageRate = 100_000 })
	tx, err := j.db.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `select 1 from job_leases where job_id = $1 for update`, j.job)
	require.NoError(t, err)
	for seq := int64(3); seq < 100; seq++ {
		j.a.chunk(j.job, j.epoch, seq, seq+1, "x")
	}
	require.Equal(t, websocket.CloseTryAgainLater, j.a.closes())
	require.NoError(t, tx.Rollback(t.Context()))
	b := dial(t, j.r, j.ws, j.runner)
	require.EqualValues(t, 2, b.greet(wire.Held{Job: j.job.String(), Epoch: j.epoch, Sent: 99}).Held[0].Acked)
	for seq := int64(3); seq < 100; seq++ {
		b.chunk(j.job, j.epoch, seq, seq+1, "x")
	}
	b.acked(99)
	size, err := j.r.logs.Size(t.Context(), j.ws, j.job, j.epoch)
	require.NoError(t, err)
	require.EqualValues(t, 4+97, size)
}

// Whatever a connection receives, the process survives and no other runner's data changes.
func FuzzFrames(f *testing.F) {
	s := newSite(f)
	r := s.replica()
	victim, attacker := s.enrol(r, "victim", 2, 0), s.enrol(r, "attacker", 0, 0)
	a := dial(f, r, s.ws, victim)
	a.greet()
	s.submit(r)
	job, epoch, _ := a.assigned()
	j := &running{site: s, r: r, runner: victim, a: a, job: job, epoch: epoch}
	j.begin()
	before := j.stored()
	f.Add(false, []byte(`{"t":"job.event","job":"`+job.String()+`","epoch":1,"seq":3,"d":{"kind":"finished","outcome":"succeeded"}}`))
	f.Add(false, []byte(`{"t":"job.decline","job":"`+job.String()+`","epoch":1,"d":{"reason":"busy"}}`))
	f.Add(false, []byte(`{"t":"heartbeat","d":{"held":[{"job":"`+job.String()+`","epoch":1}]}}`))
	f.Add(false, []byte(`{"t":"drain"}`))
	f.Add(false, []byte(`{"t":"hello","d":{"capacity":-1}}`))
	f.Add(true, chunkOf(job, epoch, 3, 4, "x"))
	f.Add(true, bytes.Repeat([]byte{0xff}, 50))
	f.Fuzz(func(t *testing.T, binary bool, frame []byte) {
		b := dial(t, r, s.ws, attacker)
		h := hello
		h.Capacity = 1
		b.send(h, events.ID{}, 0, 0)
		b.next(wire.TypeWelcome)
		kind := websocket.TextMessage
		if binary {
			kind = websocket.BinaryMessage
		}
		_ = b.socket.WriteMessage(kind, frame)
		b.send(wire.Heartbeat{Seq: 77}, events.ID{}, 0, 0)
		for e := range b.got { // until the heartbeat is answered or the connection ends
			if e.Type == wire.TypeHeartbeatAck && body[wire.HeartbeatAck](t, e).Seq == 77 {
				break
			}
		}
		require.NoError(t, b.socket.Close())
		here := *s
		here.t = t
		require.Equal(t, before, (&running{site: &here, job: job}).stored())
	})
}

// A refusal says which field is wrong, in words.
func TestRefusalNamesTheField(t *testing.T) {
	t.Parallel()
	j := newRunning(t)
	require.NoError(t, j.a.socket.WriteMessage(websocket.TextMessage, event(`"epoch":1,"seq":3,"d":{"kind":"step.started","step":2}`)(j)))
	refused, err := wire.Read[wire.Error](j.a.next(wire.TypeError))
	require.NoError(t, err)
	require.Equal(t, "malformed frame: step: must be a step of a job that has started, after those that have begun", refused.Message)
}
