package dispatch

import (
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"svc/farm/wire"
)

// What waits to be written to a runner. One that reads too little is cut off.
const (
	outFrames = 2048
	outBytes  = 2 * wire.MaxAssign
	outPiece  = 64 << 10 // of a message, that a runner has wire.WriteLimit to take
)

// An outbox is what has to be written to a connection. Whoever puts something in never waits.
type outbox struct {
	wake chan struct{} // has a value when there is something

	mu     sync.Mutex
	frames [][]byte
	bytes  int
	last   []byte // the close frame
}

// put reports whether there was room.
func (o *outbox) put(frame []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last != nil {
		return true // nothing follows the close frame
	}
	return o.add(frame, outBytes)
}

// putAssign is put for what may be large, and can wait: it leaves room for what cannot.
func (o *outbox) putAssign(frame []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last != nil || o.add(frame, wire.MaxAssign)
}

// add adds a frame if there are so many bytes at most then. The caller has the lock.
func (o *outbox) add(frame []byte, most int) bool {
	if len(o.frames) >= outFrames || o.bytes+len(frame) > most {
		return false
	}
	o.frames, o.bytes = append(o.frames, frame), o.bytes+len(frame)
	o.rouse()
	return true
}

func (o *outbox) close(code int, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = websocket.FormatCloseMessage(code, why)
	o.rouse()
}

func (o *outbox) rouse() {
	select {
	case o.wake <- struct{}{}:
	default: // it is awake
	}
}

func (o *outbox) takeAll() (frames [][]byte, last []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	frames, last = o.frames, o.last
	o.frames, o.bytes = nil, 0
	return frames, last
}

// write writes what is in the outbox, and pings, until the connection ends.
func (c *connection) write() {
	ping := time.NewTicker(wire.PingEvery)
	defer ping.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-ping.C:
			if c.socket.WriteControl(websocket.PingMessage, nil, time.Now().Add(wire.WriteLimit)) != nil {
				c.cut()
				return
			}
		case <-c.out.wake:
			frames, last := c.out.takeAll()
			if !c.writeAll(frames, last) {
				c.cut()
				return
			}
			if last != nil {
				_ = c.expect(closeWait) // the reader ends then at the latest
				return
			}
			if c.waits() {
				c.farm.nudge() // there is room again
			}
		}
	}
}

func (c *connection) writeAll(frames [][]byte, last []byte) bool {
	for _, f := range frames {
		if c.writeFrame(f) != nil {
			return false
		}
	}
	return last == nil || c.socket.WriteControl(websocket.CloseMessage, last, time.Now().Add(wire.WriteLimit)) == nil
}

// writeFrame writes a message piece by piece: it is enough that the runner goes on reading,
// however long a large one takes on a slow line.
func (c *connection) writeFrame(frame []byte) error {
	w, err := c.socket.NextWriter(websocket.TextMessage)
	if err != nil {
		return err
	}
	for piece := range slices.Chunk(frame, outPiece) {
		if err := c.socket.SetWriteDeadline(time.Now().Add(wire.WriteLimit)); err != nil {
			return err
		}
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	return w.Close()
}
