package executor

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
	chunkEvery = time.Second // how long output may wait to fill a chunk
	cutMarker  = "\n[the log has reached its limit of %d bytes; the job goes on]\n"
)

// An output splits the masked output of steps into chunks, and enforces the limit of a log.
type output struct {
	report *reporter
	limit  int64

	mu      sync.Mutex
	chunk   []byte
	at      time.Time // of its first byte
	midLine bool      // the last line has no newline yet
	sum     wire.LogSum
	hash    hash.Hash
	err     error
	quit    chan struct{}
	done    chan struct{}
}

// newOutput returns an output of at most limit bytes, including the marker that replaces the rest.
func newOutput(r *reporter, limit int64) *output {
	o := &output{report: r, limit: limit, hash: sha256.New(), quit: make(chan struct{}), done: make(chan struct{})}
	go o.flushLoop()
	return o
}

// flushLoop sends chunks that have waited for long enough.
func (o *output) flushLoop() {
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
				o.sendChunk(0)
			}
			o.mu.Unlock()
		}
	}
}

// Write accepts all of p. Output beyond the limit is dropped, and replaced by a marker once.
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
	o.buffer(p)
	if cut {
		o.buffer([]byte(marker))
		o.sum.Truncated = true
		o.sendChunk(wire.Truncated)
	}
	return n, o.err
}

// note writes a message of the runner as a line of its own.
func (o *output) note(text string) {
	o.mu.Lock()
	begin := "["
	if o.midLine {
		begin = "\n["
	}
	o.mu.Unlock()
	_, _ = o.Write([]byte(begin + text + "]\n")) // o.err keeps an error
	o.flush()
}

func (o *output) buffer(p []byte) {
	if len(p) > 0 {
		o.midLine = p[len(p)-1] != '\n'
	}
	for len(p) > 0 {
		if len(o.chunk) == 0 {
			o.at = time.Now()
		}
		k := min(len(p), wire.MaxChunk-len(o.chunk))
		o.chunk = append(o.chunk, p[:k]...)
		if p = p[k:]; len(o.chunk) == wire.MaxChunk && len(p) > 0 {
			o.sendChunk(0)
		}
	}
}

func (o *output) sendChunk(flags wire.ChunkFlags) {
	if len(o.chunk) == 0 {
		return
	}
	if err := o.report.write(KindChunk, encodeChunk(o.sum.Bytes, o.at, flags, o.chunk)); err != nil && o.err == nil {
		o.err = err
	}
	_, _ = o.hash.Write(o.chunk) // never fails
	o.sum.Bytes += int64(len(o.chunk))
	o.sum.Chunks++
	o.chunk = o.chunk[:0]
}

// flush sends the buffered output, so that an event reported next comes after it.
func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sendChunk(0)
}

// close sends the rest, and returns the summary of all output.
func (o *output) close() wire.LogSum {
	close(o.quit)
	<-o.done
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sendChunk(0)
	o.sum.SHA256 = hex.EncodeToString(o.hash.Sum(nil))
	return o.sum
}
