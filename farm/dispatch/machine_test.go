package dispatch_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"math/rand/v2"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/wire"
)

// A machine runs jobs as a real agent does: it begins them when its accept is acknowledged, keeps
// everything that was not acknowledged, and kills its jobs when their leases are about to expire.
type machine struct {
	c            *chaos
	id           events.ID
	jobs         map[attempt]*work
	socket       *websocket.Conn
	in           chan wire.Envelope
	sentAt       map[int64]time.Time
	heartbeatSeq int64
	ackedAt      time.Time // when the last acknowledged heartbeat, or the hello, was sent
}

type attempt struct {
	job   events.ID
	epoch int
}

type work struct {
	frames [][]byte // by number, from 1
	binary []bool
	acked  int
	sent   int
	bytes  int64
	chunks int
	sum    hash.Hash
	until  time.Time // when the machine kills the job
	begun  bool
	done   bool
}

func (w *work) add(binary bool, frame []byte) {
	w.frames, w.binary = append(w.frames, frame), append(w.binary, binary)
}

func (m *machine) name(k attempt) string { return fmt.Sprintf("%s.%d", m.id, k.epoch) }

func (m *machine) run() {
	for {
		select {
		case <-m.c.over:
			return
		default:
		}
		m.session()
	}
}

func (m *machine) session() {
	r := m.c.anyReplica()
	url := "ws" + r.server.URL[4:] + "/" + m.c.ws.String() + "/" + m.id.String() + "/builder"
	socket, answer, err := websocket.DefaultDialer.Dial(url, nil)
	if err != nil {
		m.tick(nil, 20*time.Millisecond)
		return
	}
	_ = answer.Body.Close()
	defer socket.Close()
	m.socket, m.in, m.sentAt = socket, make(chan wire.Envelope, 1000), map[int64]time.Time{}
	go func(in chan wire.Envelope) {
		defer close(in)
		for {
			_, frame, err := socket.ReadMessage()
			if err != nil {
				return
			}
			if e, err := wire.Decode(frame); err == nil {
				in <- e
			}
		}
	}(m.in)
	h := hello
	for k, w := range m.jobs {
		h.Held = append(h.Held, wire.Held{Job: k.job.String(), Epoch: k.epoch, Sent: int64(len(w.frames))})
	}
	m.ackedAt = time.Now()
	m.send(h, attempt{}, 0)
	cut := time.Now().Add(rand.N(m.c.maxConnectionLife))
	for m.c.noFaults.Load() || time.Now().Before(cut) {
		if !m.tick(m.in, 10*time.Millisecond) {
			return
		}
	}
	if rand.IntN(8) == 0 && !m.c.noFaults.Load() {
		if d := chaosLease * 3 / 2; rand.IntN(2) == 0 {
			m.freeze(d)
		} else {
			m.stall(d)
		}
	}
}

// freeze suspends the machine with its jobs, which do nothing meanwhile. When it resumes, it first kills the jobs whose leases
// have expired.
func (m *machine) freeze(d time.Duration) {
	for k, w := range m.jobs {
		if w.begun && !w.done {
			m.c.release(k.job, m.name(k))
		}
	}
	select {
	case <-m.c.over:
	case <-time.After(d):
	}
	m.fence()
	for k, w := range m.jobs {
		if w.begun && !w.done {
			m.c.hold(k.job, m.name(k), w.until)
		}
	}
}

// stall suspends the supervisor, while the jobs go on. Each is killed by its own process when its
// lease is about to expire.
func (m *machine) stall(d time.Duration) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); {
		select {
		case <-m.c.over:
			return
		case <-tick.C:
		}
		m.fence()
	}
}

// tick reads for a moment, works, and sends what is due. It returns false if the connection has
// ended.
func (m *machine) tick(in chan wire.Envelope, d time.Duration) bool {
	timer := time.After(d)
	for {
		select {
		case e, ok := <-in:
			if !ok {
				return false
			}
			m.handle(e)
			continue
		case <-m.c.over:
			return false
		case <-timer:
		}
		break
	}
	m.fence()
	if in == nil {
		return true
	}
	m.work()
	if m.heartbeatSeq++; m.heartbeatSeq%20 == 0 {
		hb := wire.Heartbeat{Seq: m.heartbeatSeq, Free: max(0, 2-len(m.jobs))}
		for k := range m.jobs {
			hb.Held = append(hb.Held, wire.Held{Job: k.job.String(), Epoch: k.epoch})
		}
		m.sentAt[m.heartbeatSeq] = time.Now()
		m.send(hb, attempt{}, 0)
	}
	return true
}

func (m *machine) send(msg wire.Message, k attempt, seq int64) {
	name := ""
	if !k.job.IsZero() {
		name = k.job.String()
	}
	frame, err := wire.EncodeFor(msg, time.Now(), name, k.epoch, seq)
	require.NoError(m.c.t, err)
	_ = m.socket.WriteMessage(websocket.TextMessage, frame)
}

// fence kills the jobs whose leases are about to expire.
func (m *machine) fence() {
	for k, w := range m.jobs {
		if !w.done && time.Now().After(w.until) {
			m.drop(k)
		}
	}
}

func (m *machine) drop(k attempt) {
	m.c.release(k.job, m.name(k))
	delete(m.jobs, k)
}

func (m *machine) handle(e wire.Envelope) {
	job, _ := events.ParseID(e.Job)
	k := attempt{job, e.Epoch}
	w := m.jobs[k]
	switch e.Type {
	case wire.TypeAssign:
		if w != nil {
			return
		}
		m.jobs[k] = &work{sum: sha256.New(), until: m.ackedAt.Add(chaosLease - chaosMargin)}
		m.send(wire.Accept{}, k, 0)
	case wire.TypeAck:
		m.fence()
		if w = m.jobs[k]; w == nil {
			return
		}
		if !w.begun {
			w.begun = true
			m.c.hold(job, m.name(k), w.until)
			m.event(w, k, wire.Event{Kind: wire.EventStarted})
		}
		m.ack(k, w, int(body[wire.Ack](m.c.t, e).Upto))
	case wire.TypeStop:
		m.drop(k)
	case wire.TypeError:
		if x := body[wire.Error](m.c.t, e); w != nil && x.Code == wire.CodeGap {
			w.sent = int(x.Expected) - 1
		}
	case wire.TypeWelcome:
		for _, v := range body[wire.Welcome](m.c.t, e).Held {
			m.applyVerdict(v)
		}
	case wire.TypeHeartbeatAck:
		ack := body[wire.HeartbeatAck](m.c.t, e)
		if at := m.sentAt[ack.Seq]; at.After(m.ackedAt) {
			m.ackedAt = at
		}
		for k, w := range m.jobs {
			until := m.ackedAt.Add(chaosLease - chaosMargin)
			if !until.After(w.until) {
				continue
			}
			if w.until = until; w.begun && !w.done {
				m.c.hold(k.job, m.name(k), until)
			}
		}
		for _, v := range ack.Held {
			if v.Verdict == wire.StopJob {
				m.applyVerdict(v)
			}
		}
	}
}

func (m *machine) applyVerdict(v wire.Verdict) {
	job, _ := events.ParseID(v.Job)
	k := attempt{job, v.Epoch}
	w := m.jobs[k]
	switch {
	case w == nil:
	case v.Verdict == wire.Continue:
		if !w.begun {
			m.send(wire.Accept{}, k, 0)
			return
		}
		w.sent = int(v.Acked)
		m.ack(k, w, int(v.Acked))
	case v.Verdict == wire.Done:
		m.ack(k, w, len(w.frames))
	default:
		m.drop(k)
	}
}

func (m *machine) ack(k attempt, w *work, upto int) {
	w.acked = max(w.acked, upto)
	w.sent = max(w.sent, w.acked)
	if w.done && w.acked >= len(w.frames) {
		delete(m.jobs, k)
	}
}

func (m *machine) event(w *work, k attempt, e wire.Event) {
	frame, err := wire.EncodeFor(e, time.Now(), k.job.String(), k.epoch, int64(len(w.frames)+1))
	require.NoError(m.c.t, err)
	w.add(false, frame)
}

// work advances each job, and sends what was not sent.
func (m *machine) work() {
	for k, w := range m.jobs {
		switch {
		case !w.begun || w.done:
		case w.chunks < chaosChunks:
			data := fmt.Appendf(nil, "line %d of %s\n", w.chunks, m.name(k))
			w.add(true, wire.Chunk{Job: [16]byte(k.job), Epoch: k.epoch, Seq: int64(len(w.frames) + 1), Offset: w.bytes, At: time.Now(),
				Data: data}.AppendTo(nil))
			w.sum.Write(data)
			w.bytes += int64(len(data))
			w.chunks++
		default:
			m.c.release(k.job, m.name(k))
			m.event(w, k, wire.Event{Kind: wire.EventFinished, Outcome: "succeeded", Log: &wire.LogSum{
				Bytes: w.bytes, Chunks: int64(w.chunks), SHA256: hex.EncodeToString(w.sum.Sum(nil)),
			}})
			w.done = true
		}
		for ; w.sent < len(w.frames); w.sent++ {
			if rand.IntN(50) == 0 {
				_ = m.socket.WriteMessage(kindOf(w.binary[w.sent]), w.frames[w.sent]) // once more
			}
			_ = m.socket.WriteMessage(kindOf(w.binary[w.sent]), w.frames[w.sent])
		}
	}
}

func kindOf(binary bool) int {
	if binary {
		return websocket.BinaryMessage
	}
	return websocket.TextMessage
}
