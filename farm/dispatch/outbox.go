package dispatch

import (
	"context"
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

// An outbox is the queue of frames to write to a connection. Adding to it never blocks. Nothing follows
// a close frame.
type outbox struct {
	socket *websocket.Conn
	wake   chan struct{} // has a value when there is something to write

	mu     sync.Mutex
	frames [][]byte
	bytes  int
	last   []byte      // the close frame, nil until closing begins
	limit  *time.Timer // ends the connection after closeLimit, nil until closing begins
}

func newOutbox(socket *websocket.Conn) outbox {
	return outbox{socket: socket, wake: make(chan struct{}, 1)}
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

// closeLimit is how long a connection lasts from the moment that it is closed, whatever the peer does.
const closeLimit = wire.WriteTimeout + closeWait

// close queues a close frame, after which the connection ends. Only the first call has an effect.
func (o *outbox) close(code int, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == nil {
		o.last = websocket.FormatCloseMessage(code, why)
		o.signal()
		o.limit = time.AfterFunc(closeLimit, o.cut)
	}
}

// isClosing reports whether a close frame was queued.
func (o *outbox) isClosing() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last != nil
}

// cut ends the connection without a close frame.
func (o *outbox) cut() {
	o.mu.Lock()
	if o.limit != nil {
		o.limit.Stop()
	}
	o.mu.Unlock() // closing may wait for the peer
	_ = o.socket.Close()
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

// run writes the frames of the outbox, and pings, until the connection ends. It calls hasRoom each time
// that everything is written.
func (o *outbox) run(ctx context.Context, hasRoom func()) {
	ping := time.NewTicker(wire.PingEvery)
	defer ping.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ping.C:
			if o.socket.WriteControl(websocket.PingMessage, nil, time.Now().Add(wire.WriteTimeout)) != nil {
				o.cut()
				return
			}
		case <-o.wake:
			frames, last := o.takeAll()
			if !o.writeAll(frames, last) {
				o.cut()
				return
			}
			if last != nil {
				_ = o.socket.SetReadDeadline(time.Now().Add(closeWait)) // the reader usually ends by then
				return
			}
			hasRoom()
		}
	}
}

func (o *outbox) writeAll(frames [][]byte, last []byte) bool {
	for _, f := range frames {
		if o.writeFrame(f) != nil {
			return false
		}
	}
	return last == nil || o.socket.WriteControl(websocket.CloseMessage, last, time.Now().Add(wire.WriteTimeout)) == nil
}

// writeFrame writes a message in pieces, each with its own deadline. A large message on a slow line
// may take long as long as the runner keeps reading.
func (o *outbox) writeFrame(frame []byte) error {
	w, err := o.socket.NextWriter(websocket.TextMessage)
	if err != nil {
		return err
	}
	for piece := range slices.Chunk(frame, outPiece) {
		if err := o.socket.SetWriteDeadline(time.Now().Add(wire.WriteTimeout)); err != nil {
			return err
		}
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	return w.Close()
}
