package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"sync"
	"time"

	"svc/farm/wire"
)

const (
	chunkEvery = time.Second // the longest that output waits for more of it
	cutMarker  = "\n[the log has reached its limit of %d bytes; the job goes on]\n"
)

// output makes chunks of what steps write, which has been masked, and keeps to the limit of a log.
type output struct {
	report *reporter
	limit  int64

	mu    sync.Mutex
	chunk []byte
	at    time.Time // of its first byte
	open  bool      // the last line has no end
	sum   wire.LogSum
	hash  hash.Hash
	err   error
	quit  chan struct{}
	done  chan struct{}
}

// newOutput returns an output that keeps to limit bytes, the marker of a cut among them.
func newOutput(r *reporter, limit int64) *output {
	o := &output{report: r, limit: limit, hash: sha256.New(), quit: make(chan struct{}), done: make(chan struct{})}
	go o.tick()
	return o
}

// tick sends what has waited for long enough.
func (o *output) tick() {
	defer close(o.done)
	t := time.NewTicker(chunkEvery / 2)
	defer t.Stop()
	for {
		select {
		case <-o.quit:
			return
		case now := <-t.C:
			o.mu.Lock()
			if len(o.chunk) > 0 && now.Sub(o.at) >= chunkEvery/2 {
				o.send(0)
			}
			o.mu.Unlock()
		}
	}
}

// Write takes in all of p. What is beyond the limit is dropped, and the log says so once.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(p)
	if o.sum.Truncated {
		return n, o.err
	}
	marker := fmt.Sprintf(cutMarker, o.limit)
	room := o.limit - int64(len(marker)) - o.sum.Bytes - int64(len(o.chunk))
	cut := int64(len(p)) > room
	if cut {
		p = p[:max(room, 0)]
	}
	o.add(p)
	if cut {
		o.add([]byte(marker))
		o.sum.Truncated = true
		o.send(wire.Truncated)
	}
	return n, o.err
}

// note writes what the runner itself has to say, as a line by itself.
func (o *output) note(text string) {
	o.mu.Lock()
	begin := "["
	if o.open {
		begin = "\n["
	}
	o.mu.Unlock()
	_, _ = o.Write([]byte(begin + text + "]\n")) // close tells of an error
	o.flush()
}

func (o *output) add(p []byte) {
	if len(p) > 0 {
		o.open = p[len(p)-1] != '\n'
	}
	for len(p) > 0 {
		if len(o.chunk) == 0 {
			o.at = time.Now()
		}
		k := min(len(p), wire.MaxChunk-len(o.chunk))
		o.chunk = append(o.chunk, p[:k]...)
		if p = p[k:]; len(o.chunk) == wire.MaxChunk && len(p) > 0 {
			o.send(0)
		}
	}
}

func (o *output) send(flags wire.ChunkFlags) {
	if len(o.chunk) == 0 {
		return
	}
	if err := o.report.write(kindChunk, encodeChunk(o.sum.Bytes, o.at, flags, o.chunk)); err != nil && o.err == nil {
		o.err = err
	}
	_, _ = o.hash.Write(o.chunk) // which never fails
	o.sum.Bytes += int64(len(o.chunk))
	o.sum.Chunks++
	o.chunk = o.chunk[:0]
}

// flush sends what waits, so that an event that follows comes after it.
func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.send(0)
}

// close sends the rest, and returns what was sent altogether.
func (o *output) close() wire.LogSum {
	close(o.quit)
	<-o.done
	o.mu.Lock()
	defer o.mu.Unlock()
	o.send(0)
	o.sum.SHA256 = hex.EncodeToString(o.hash.Sum(nil))
	return o.sum
}
