package runner

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"svc/events"
	"svc/farm/runner/spool"
	"svc/farm/wire"
)

// The states of a job that a runner holds.
const (
	stateAssigned = "assigned"
	stateRunning  = "running"
	stateFinished = "finished"
)

// A job is one that the runner holds: from its assignment until the service has all of it.
type job struct {
	key
	id    events.ID
	title string
	dir   string // of the spool
	spool *spool.Spool

	orders chan order    // for its process
	killed chan struct{} // closed by the first order to kill
	ended  chan struct{} // closed when its process has, and nothing of it is left

	mu       sync.Mutex
	state    string
	since    time.Time
	pid      int  // of its process, or 0
	over     bool // no process runs, or will
	lost     bool // the supervisor that ran it was killed: the end is still to be said
	dropped  bool // it is not ours any more
	finished int64
	manifest *manifest
	settling bool
	fence    time.Duration // when to kill it, by the clock of the machine

	admitted bool // by this connection: what follows may be sent
	sent     int64
	flights  []flight
	flying   int64 // bytes
	bad      int64 // the first message that was on its way when the service closed for a malformed one
	badTimes int
}

// A flight is a message that was sent and is not acknowledged.
type flight struct {
	seq  int64
	size int64
}

func newJob(k key, id events.ID, dir string) *job {
	return &job{
		key: k, id: id, dir: dir, state: stateAssigned, since: time.Now(),
		orders: make(chan order, 8), killed: make(chan struct{}), ended: make(chan struct{}),
	}
}

// order hands on an order, at most once to kill. One that finds the queue full is behind
// others that have not been obeyed.
func (j *job) order(o order) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over {
		return
	}
	select {
	case j.orders <- o:
	default:
	}
	if o.Now {
		select {
		case <-j.killed:
		default:
			close(j.killed)
		}
	}
}

// append adds to what is said of the job.
func (j *job) append(kind byte, body []byte) error {
	e := wire.Event{}
	if kind == kindEvent {
		var s spooled
		if err := json.Unmarshal(body, &s); err != nil {
			return fmt.Errorf("event of a job: %w", err)
		}
		e = s.Event
	}
	var err error
	j.set(func() { // it may be acknowledged as soon as it is there, and which is the last has to be known by then
		var seq int64
		if seq, err = j.spool.Append(kind, body); err == nil && e.Kind == wire.EventFinished {
			j.state, j.finished = stateFinished, seq
		}
	})
	switch {
	case err != nil:
		return err
	case e.Kind == wire.EventStarted:
		j.set(func() { j.state = stateRunning })
		return j.spool.Sync()
	case e.Kind == wire.EventFinished:
		return j.spool.Sync()
	}
	return nil
}

func (j *job) say(e wire.Event) error {
	body, err := json.Marshal(newSpooled(e))
	if err != nil {
		return fmt.Errorf("event of a job: %w", err)
	}
	return j.append(kindEvent, body)
}

func (j *job) set(change func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change()
}

// keep writes down which files will be uploaded.
func (j *job) keep(body []byte) error {
	var m manifest
	if err := json.Unmarshal(body, &m); err != nil {
		return fmt.Errorf("manifest of a job: %w", err)
	}
	if err := Folder(j.dir).replace(manifestFileName, body); err != nil {
		return err
	}
	j.set(func() { j.manifest = &m })
	return nil
}

const (
	manifestFileName = "manifest.json"
	filesFolder      = "files"
)

// held is how a hello names the job.
func (j *job) held() wire.Held {
	last := j.spool.Last()
	j.mu.Lock()
	defer j.mu.Unlock()
	return wire.Held{Job: j.job, Epoch: j.epoch, Sent: last, State: j.state}
}

// beats reports whether a heartbeat lists the job: while its end is not acknowledged.
func (j *job) beats() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.dropped && !j.settling
}

func (j *job) process() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.pid
}

func (j *job) runs() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.over && j.finished == 0
}

func (j *job) isDropped() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.dropped
}

// fenced reports, once, that the job has to be killed.
func (j *job) fenced(now time.Duration) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over || j.fence == 0 || now < j.fence {
		return false
	}
	j.fence = 0
	return true
}

// extend lets the job run until then, if that is later.
func (j *job) extend(fence time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fence != 0 {
		j.fence = max(j.fence, fence)
	}
}

// rewind has sending begin behind what is acknowledged.
func (j *job) rewind(acked int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sent, j.flights, j.flying = acked, nil, 0
}

// next is the number of the next message to send, if the window has room for it.
func (j *job) next(limits wire.Limits) (seq int64, ok bool) {
	last := j.spool.Last()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.admitted || j.dropped || j.sent >= last || len(j.flights) >= limits.WindowMessages || j.flying >= limits.WindowBytes {
		return 0, false
	}
	return j.sent + 1, true
}

// flew says that a message was sent. It reports false if sending has begun again elsewhere.
func (j *job) flew(seq int64, size int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.sent != seq-1 {
		return
	}
	j.sent = seq
	j.flights = append(j.flights, flight{seq, int64(size)})
	j.flying += int64(size)
}

// badLimit is how often the service may find the same message malformed.
const badLimit = 3

// malformed says that the service has closed the connection for a malformed message. It
// reports whether the job's is the one, as far as this side can tell: it was the first
// on its way each time.
func (j *job) malformed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case len(j.flights) == 0:
		return false
	case j.flights[0].seq != j.bad:
		j.bad, j.badTimes = j.flights[0].seq, 0
	}
	j.badTimes++
	return j.badTimes >= badLimit
}

// acknowledged takes note that the service has all up to that number. It reports whether that is all there is.
func (j *job) acknowledged(upto int64) (all bool, err error) {
	if err := j.spool.Ack(upto); err != nil {
		return false, err
	}
	last := j.spool.Last()
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.flights) > 0 && j.flights[0].seq <= upto {
		j.flying -= j.flights[0].size
		j.flights = j.flights[1:]
	}
	j.sent = max(j.sent, min(upto, last))
	return j.finished > 0 && upto >= j.finished, nil
}

// frame is the message of that number, as it is sent.
func (j *job) frame(seq int64) (frame []byte, binary bool, err error) {
	r, err := j.spool.Get(seq)
	if err != nil {
		return nil, false, err
	}
	if r.Kind == kindChunk {
		c, err := decodeChunk(r.Data)
		c.Job, c.Epoch, c.Seq = j.id, j.epoch, seq
		return c.AppendTo(nil), true, err
	}
	var s spooled
	if err := json.Unmarshal(r.Data, &s); err != nil {
		return nil, false, fmt.Errorf("record %d of %s: %w", seq, j.name(), err)
	}
	frame, err = wire.EncodeFor(s.Event, s.At, j.job, j.epoch, seq)
	return frame, false, err
}

// remove forgets all that was said.
func (j *job) remove() error {
	err := j.spool.Remove()
	if err == nil {
		_, err = os.Stat(j.dir)
		if os.IsNotExist(err) {
			return nil
		}
	}
	return err
}
