package rest

import (
	"net/http"
	"time"
)

// chunkSize is the number of bytes written under one deadline.
const chunkSize = 16 << 10

// A pace is how slowly a client may read: at rate, in bytes a second, which it may fall behind by
// timeout. If rate is 0, only a single chunk must not take longer than timeout.
type pace struct {
	timeout time.Duration
	rate    int
}

// slowestReader is the pace of downloads and exports. A limit for each chunk alone would let a client that
// accepts a chunk now and then hold a slot for hours.
var slowestReader = pace{timeout: 30 * time.Second, rate: 16 << 10}

// A deadlineWriter fails when the client reads more slowly than its pace allows. Before each chunk it
// calls checkRights, unless it is nil, and fails with its error.
type deadlineWriter struct {
	w           http.ResponseWriter
	controller  *http.ResponseController
	pace        pace
	checkRights func() error
	behind      time.Duration // how far the client has fallen behind the rate
}

// newDeadlineWriter returns a deadlineWriter; checkRights may be nil.
func newDeadlineWriter(w http.ResponseWriter, slowest pace, checkRights func() error) *deadlineWriter {
	return &deadlineWriter{w: w, controller: http.NewResponseController(w), pace: slowest, checkRights: checkRights}
}

func (d *deadlineWriter) writeAndFlush(text []byte) error {
	if err := d.write(text); err != nil {
		return err
	}
	return d.send(0, d.controller.Flush)
}

func (d *deadlineWriter) write(text []byte) error {
	for len(text) > 0 {
		n := min(chunkSize, len(text))
		if d.checkRights != nil {
			if err := d.checkRights(); err != nil {
				return err
			}
		}
		if err := d.send(n, func() error { _, err := d.w.Write(text[:n]); return err }); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// send calls write, which sends n bytes, with the time that the pace leaves. Only the time spent in
// write counts, which is the client's. A client that is ahead of the rate saves nothing for later.
func (d *deadlineWriter) send(n int, write func() error) error {
	begun := time.Now()
	if err := d.controller.SetWriteDeadline(begun.Add(d.pace.timeout - d.behind)); err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	if d.pace.rate > 0 {
		allowed := time.Duration(n) * time.Second / time.Duration(d.pace.rate)
		d.behind = max(0, d.behind+time.Since(begun)-allowed)
	}
	return nil
}
