package door

import (
	"net/http"
	"time"
)

// chunkSize is the number of bytes written under one deadline.
const chunkSize = 16 << 10

// A Pace is how slowly a client may read: at rate, in bytes a second, which it may fall behind by
// timeout. If rate is 0, only a single chunk must not take longer than timeout.
type Pace struct {
	Timeout time.Duration
	Rate    int
}

// SlowestReader is the pace of downloads and exports. A limit for each chunk alone would let a client that
// accepts a chunk now and then hold a slot for hours.
var SlowestReader = Pace{Timeout: 30 * time.Second, Rate: 16 << 10}

// A DeadlineWriter fails when the client reads more slowly than its pace allows. Before each chunk it
// calls checkRights, unless it is nil, and fails with its error.
type DeadlineWriter struct {
	w           http.ResponseWriter
	controller  *http.ResponseController
	pace        Pace
	checkRights func() error
	behind      time.Duration // how far the client has fallen behind the rate
}

// NewDeadlineWriter returns a DeadlineWriter; checkRights may be nil.
func NewDeadlineWriter(w http.ResponseWriter, slowest Pace, checkRights func() error) *DeadlineWriter {
	return &DeadlineWriter{w: w, controller: http.NewResponseController(w), pace: slowest, checkRights: checkRights}
}

// WriteAndFlush writes text and sends it at once.
func (d *DeadlineWriter) WriteAndFlush(text []byte) error {
	if _, err := d.Write(text); err != nil {
		return err
	}
	return d.send(0, d.controller.Flush)
}

// Write writes text in chunks.
func (d *DeadlineWriter) Write(text []byte) (written int, err error) {
	for len(text) > 0 {
		n := min(chunkSize, len(text))
		if d.checkRights != nil {
			if err := d.checkRights(); err != nil {
				return written, err
			}
		}
		if err := d.send(n, func() error { _, err := d.w.Write(text[:n]); return err }); err != nil {
			return written, err
		}
		text, written = text[n:], written+n
	}
	return written, nil
}

// send calls write, which sends n bytes, with the time that the pace leaves. Only the time spent in
// write counts, which is the client's. A client that is ahead of the rate saves nothing for later.
func (d *DeadlineWriter) send(n int, write func() error) error {
	begun := time.Now()
	if err := d.controller.SetWriteDeadline(begun.Add(d.pace.Timeout - d.behind)); err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	if d.pace.Rate > 0 {
		allowed := time.Duration(n) * time.Second / time.Duration(d.pace.Rate)
		d.behind = max(0, d.behind+time.Since(begun)-allowed)
	}
	return nil
}

// BeginLimit bounds the time until a long answer begins.
const BeginLimit = 30 * time.Second
