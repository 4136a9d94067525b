package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/time/rate"

	"svc/farm/wire"
)

// A frameReader reads the frames of a connection, no faster than its rate limits allow. Only the
// goroutine that serves the connection uses it.
type frameReader struct {
	socket                     *websocket.Conn
	messages, bytes, workspace *rate.Limiter // workspace counts the messages of all its runners
}

func newFrameReader(limits *Config, socket *websocket.Conn, workspace *rate.Limiter) frameReader {
	r := frameReader{
		socket: socket, workspace: workspace,
		messages: rate.NewLimiter(rate.Limit(limits.MessageRate), int(2*limits.MessageRate)),
		bytes:    rate.NewLimiter(rate.Limit(limits.ByteRate), max(int(limits.ByteRate), wire.MaxMessage)),
	}
	socket.SetReadLimit(wire.MaxMessage)
	return r
}

// next returns the next frame.
func (r frameReader) next() (kind int, frame []byte, err error) { return r.socket.ReadMessage() }

// setTimeout makes reads fail unless something arrives within d.
func (r frameReader) setTimeout(d time.Duration) error {
	return r.socket.SetReadDeadline(time.Now().Add(d))
}

// waitForRate waits until the rate limits of the runner and its workspace admit n more bytes. Nothing is
// read meanwhile, so the peer sees backpressure.
func (r frameReader) waitForRate(ctx context.Context, n int) bool {
	return r.messages.Wait(ctx) == nil && r.bytes.WaitN(ctx, n) == nil && r.workspace.Wait(ctx) == nil
}

const closeWait = 2 * time.Second // for the peer's close frame

// drain discards what the peer still sends, for a moment. A socket closed with unread data is
// reset, and the peer might never see the close frame.
func (r frameReader) drain() {
	_ = r.setTimeout(closeWait)
	for {
		if _, _, err := r.socket.NextReader(); err != nil {
			return
		}
	}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && timeout.Timeout()
}
