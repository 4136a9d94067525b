package dispatch

import (
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"svc/farm/wire"
)

// Limits of an outbox. A runner that reads too slowly is cut off.
const (
	outFrames = 2048
	outBytes  = 2 * wire.MaxAssign
	outPiece  = 64 << 10 // bytes written under one deadline of wire.WriteTimeout
)

// An outbox is the queue of frames to write to a connection. Adding to it never blocks.
type outbox struct {
	wake chan struct{} // has a value when there is something to write

	mu     sync.Mutex
	frames [][]byte
	bytes  int
	last   []byte // the close frame
}

// put adds a frame, and reports whether there was room for it.
func (o *outbox) put(frame []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last != nil {
		return true // nothing follows the close frame
	}
	return o.add(frame, outBytes)
}

// putAssign is put for assign messages, which may be large and can wait: it leaves room for other
// messages.
func (o *outbox) putAssign(frame []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last != nil || o.add(frame, wire.MaxAssign)
}

// add adds a frame unless the queue would exceed limit bytes. The caller holds o.mu.
func (o *outbox) add(frame []byte, limit int) bool {
	if len(o.frames) >= outFrames || o.bytes+len(frame) > limit {
		return false
	}
	o.frames, o.bytes = append(o.frames, frame), o.bytes+len(frame)
	o.signal()
	return true
}

func (o *outbox) close(code int, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = websocket.FormatCloseMessage(code, why)
	o.signal()
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default: // it is woken already
	}
}

func (o *outbox) takeAll() (frames [][]byte, last []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	frames, last = o.frames, o.last
	o.frames, o.bytes = nil, 0
	return frames, last
}

// write writes the frames of the outbox, and pings, until the connection ends.
func (c *connection) write() {
	ping := time.NewTicker(wire.PingEvery)
	defer ping.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-ping.C:
			if c.socket.WriteControl(websocket.PingMessage, nil, time.Now().Add(wire.WriteTimeout)) != nil {
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
				_ = c.setReadTimeout(closeWait) // the reader ends by then
				return
			}
			if c.hasPending() {
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
	return last == nil || c.socket.WriteControl(websocket.CloseMessage, last, time.Now().Add(wire.WriteTimeout)) == nil
}

// writeFrame writes a message in pieces, each with its own deadline. A large message on a slow line
// may take long as long as the runner keeps reading.
func (c *connection) writeFrame(frame []byte) error {
	w, err := c.socket.NextWriter(websocket.TextMessage)
	if err != nil {
		return err
	}
	for piece := range slices.Chunk(frame, outPiece) {
		if err := c.socket.SetWriteDeadline(time.Now().Add(wire.WriteTimeout)); err != nil {
			return err
		}
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	return w.Close()
}
