package dispatch

import (
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"svc/farm/wire"
)

// What waits to be written to a runner. One that reads too little is cut off.
const (
	outFrames = 2048
	outBytes  = 2 * wire.MaxAssign
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
		return true // nothing follows it
	}
	if len(o.frames) >= outFrames || o.bytes+len(frame) > outBytes {
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
		}
	}
}

func (c *connection) writeAll(frames [][]byte, last []byte) bool {
	for _, f := range frames {
		if c.socket.SetWriteDeadline(time.Now().Add(wire.WriteLimit)) != nil || c.socket.WriteMessage(websocket.TextMessage, f) != nil {
			return false
		}
	}
	return last == nil || c.socket.WriteControl(websocket.CloseMessage, last, time.Now().Add(wire.WriteLimit)) == nil
}
