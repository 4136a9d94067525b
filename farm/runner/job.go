package runner

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"svc/atomicfile"
	"svc/events"
	"svc/farm/runner/executor"
	"svc/farm/runner/spool"
	"svc/farm/wire"
)

// States of a held job.
const (
	stateAssigned = "assigned"
	stateRunning  = "running"
	stateFinished = "finished"
)

// An attemptKey identifies a job and its epoch.
type attemptKey struct {
	jobID string
	epoch int
}

// name returns the name of the attempt's folders.
func (k attemptKey) name() string { return k.jobID + "." + strconv.Itoa(k.epoch) }

// A job is held by the runner from its assignment until the service has stored everything about it.
type job struct {
	attemptKey
	id    events.ID
	title string
	dir   string // folder of the spool
	spool *spool.Spool

	orders     chan executor.StopOrder // queue of orders for its process
	fenceMoved chan struct{}           // has a value when its process does not know the latest fence
	accepted   chan struct{}           // closed once the service has stored that the runner accepts the job
	killed     chan struct{}           // closed by the first kill order
	ended      chan struct{}           // closed when no process of the job is left

	mu           sync.Mutex
	state        string
	since        time.Time
	pid          int                // of the job's process, or 0
	processEnded bool               // the job's process has ended
	endMissing   bool               // its supervisor was killed before the job's end was reported, and nothing reports it yet
	dropped      bool               // it is no longer this runner's
	finishedSeq  int64              // number of its finished event, 0 before that
	manifest     *executor.Manifest // files to upload, nil if there are none
	finishing    bool               // its end is acknowledged; only artifacts are left
	fenceAt      time.Duration      // when to kill it, as time since boot; 0 is never

	maySend       bool // its messages may be sent on the current connection
	sent          int64
	inFlight      []sentMessage
	inFlightBytes int64
	suspectSeq    int64 // first message in flight when the service last closed the connection as malformed
	suspectCount  int   // how often in a row that was the same message
}

// A sentMessage is one that was sent and is not acknowledged.
type sentMessage struct {
	seq  int64
	size int64
}

func newJob(k attemptKey, id events.ID, dir string) *job {
	return &job{
		attemptKey: k, id: id, dir: dir, state: stateAssigned, since: time.Now(),
		orders: make(chan executor.StopOrder, 8), fenceMoved: make(chan struct{}, 1),
		accepted: make(chan struct{}), killed: make(chan struct{}), ended: make(chan struct{}),
	}
}

// sendOrder queues an order for the job's process, and closes killed if it is a kill. An order that
// finds the queue full is dropped, since the process does not obey the earlier ones either.
func (j *job) sendOrder(o executor.StopOrder) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.processEnded {
		return
	}
	select {
	case j.orders <- o:
	default:
	}
	if o.Kill && !isClosed(j.killed) {
		close(j.killed)
	}
}

// append adds a report of the job's process to the spool.
func (j *job) append(kind byte, body []byte) error {
	e := wire.Event{}
	if kind == executor.KindEvent {
		var s executor.TimedEvent
		if err := json.Unmarshal(body, &s); err != nil {
			return fmt.Errorf("decode event of job %s: %w", j.name(), err)
		}
		e = s.Event
	}
	var err error
	j.update(func() { // under the lock: finishedSeq must be known before the message can be acknowledged
		var seq int64
		if seq, err = j.spool.Append(kind, body); err == nil && e.Kind == wire.EventFinished {
			j.state, j.finishedSeq = stateFinished, seq
			if e.Artifacts == 0 { // its process died, or the machine, after it had collected some
				j.manifest = nil
			}
		}
	})
	switch {
	case err != nil:
		return err
	case e.Kind == wire.EventStarted:
		j.update(func() { j.state = stateRunning })
		return j.spool.Sync()
	case e.Kind == wire.EventFinished:
		return j.spool.Sync()
	}
	return nil
}

func (j *job) appendEvent(e wire.Event) error {
	body, err := json.Marshal(executor.NewTimedEvent(e))
	if err != nil {
		return fmt.Errorf("encode event of job %s: %w", j.name(), err)
	}
	return j.append(executor.KindEvent, body)
}

func (j *job) update(change func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change()
}

// saveManifest stores the list of files to upload.
func (j *job) saveManifest(body []byte) error {
	var m executor.Manifest
	if err := json.Unmarshal(body, &m); err != nil {
		return fmt.Errorf("decode manifest of job %s: %w", j.name(), err)
	}
	if err := atomicfile.Write(filepath.Join(j.dir, manifestFileName), body, 0o600); err != nil {
		return err
	}
	j.update(func() { j.manifest = &m })
	return nil
}

const (
	manifestFileName = "manifest.json"
	filesFolder      = "files"
)

// held returns the job as a hello lists it.
func (j *job) held() wire.Held {
	last := j.spool.Last()
	j.mu.Lock()
	defer j.mu.Unlock()
	return wire.Held{Job: j.jobID, Epoch: j.epoch, Sent: last, State: j.state}
}

// inHeartbeats reports whether heartbeats list the job, which they do until its end is
// acknowledged.
func (j *job) inHeartbeats() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.dropped && !j.finishing
}

// noteAccepted notes that the service has stored the runner's accept.
func (j *job) noteAccepted() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.isAccepted() {
		close(j.accepted)
	}
}

// awaitsAccept reports whether the job begins once the service has stored the runner's accept.
func (j *job) awaitsAccept() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.isAccepted() && !j.processEnded && !j.dropped
}

func (j *job) isAccepted() bool { return isClosed(j.accepted) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (j *job) processID() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.pid
}

func (j *job) isRunning() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.processEnded && j.finishedSeq == 0
}

// hasEnd reports whether the spool has the job's end.
func (j *job) hasEnd() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.finishedSeq > 0
}

func (j *job) isDropped() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.dropped
}

// fenceDue reports, once, that the job has to be killed.
func (j *job) fenceDue(now time.Duration) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.processEnded || j.fenceAt == 0 || now < j.fenceAt {
		return false
	}
	j.fenceAt = 0
	return true
}

// extendFence moves the fence to a later time.
func (j *job) extendFence(fence time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fenceAt == 0 || fence <= j.fenceAt {
		return
	}
	j.fenceAt = fence
	select {
	case j.fenceMoved <- struct{}{}:
	default:
	}
}

func (j *job) fence() executor.FenceOrder {
	j.mu.Lock()
	defer j.mu.Unlock()
	return executor.FenceOrder{Fence: j.fenceAt}
}

// rewind resumes sending after the acknowledged messages.
func (j *job) rewind(acked int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sent, j.inFlight, j.inFlightBytes = acked, nil, 0
}

// resendEnd sends the job's end on a connection whose hello had no room for the job. The service then says
// what it has of the job: everything, or which number it expects.
func (j *job) resendEnd() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.finishedSeq > 0 && !j.finishing {
		j.maySend, j.sent, j.inFlight, j.inFlightBytes = true, j.finishedSeq-1, nil, 0
	}
}

// nextToSend returns the number of the next message to send, if the window has room for it.
func (j *job) nextToSend(limits wire.Limits) (seq int64, ok bool) {
	last := j.spool.Last()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.maySend || j.dropped || j.sent >= last || len(j.inFlight) >= limits.WindowMessages || j.inFlightBytes >= limits.WindowBytes {
		return 0, false
	}
	return j.sent + 1, true
}

// noteSent notes that a message was sent, unless sending was rewound meanwhile.
func (j *job) noteSent(seq int64, size int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.sent != seq-1 {
		return
	}
	j.sent = seq
	j.inFlight = append(j.inFlight, sentMessage{seq, int64(size)})
	j.inFlightBytes += int64(size)
}

// malformedLimit is how often the service may find the same message malformed.
const malformedLimit = 3

// noteMalformed notes that the service closed the connection because of a malformed message. It
// reports whether this job is the likely cause: the same message was the
// first in flight malformedLimit times in a row.
func (j *job) noteMalformed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case len(j.inFlight) == 0:
		return false
	case j.inFlight[0].seq != j.suspectSeq:
		j.suspectSeq, j.suspectCount = j.inFlight[0].seq, 0
	}
	j.suspectCount++
	return j.suspectCount >= malformedLimit
}

// acknowledge notes that everything up to a number is stored. all reports whether that includes the
// job's end.
func (j *job) acknowledge(upto int64) (all bool, err error) {
	if err := j.spool.Ack(upto); err != nil {
		return false, err
	}
	last := j.spool.Last()
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.inFlight) > 0 && j.inFlight[0].seq <= upto {
		j.inFlightBytes -= j.inFlight[0].size
		j.inFlight = j.inFlight[1:]
	}
	j.sent = max(j.sent, min(upto, last))
	return j.finishedSeq > 0 && upto >= j.finishedSeq, nil
}

// frame returns the WebSocket frame of a message.
func (j *job) frame(seq int64) (frame []byte, binary bool, err error) {
	r, err := j.spool.Get(seq)
	if err != nil {
		return nil, false, err
	}
	if r.Kind == executor.KindChunk {
		c, err := executor.DecodeChunk(r.Data)
		c.Job, c.Epoch, c.Seq = j.id, j.epoch, seq
		return c.AppendTo(nil), true, err
	}
	var s executor.TimedEvent
	if err := json.Unmarshal(r.Data, &s); err != nil {
		return nil, false, fmt.Errorf("record %d of %s: %w", seq, j.name(), err)
	}
	frame, err = wire.EncodeFor(s.Event, s.At, j.jobID, j.epoch, seq)
	return frame, false, err
}

// remove removes the spool.
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
