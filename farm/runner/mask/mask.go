// Package mask removes secrets from a stream of bytes, such as a build's output.
//
// A [Set] is built from the secrets, and a [Writer] replaces every occurrence of one of its needles
// by [Mark], however the stream is split into writes. Precisely: each byte of the whole stream that
// lies in an occurrence of a needle is hidden, and each maximal run of hidden bytes becomes one
// mark.
//
// Matching uses the Aho-Corasick automaton, and holds back the bytes of its current state. Existing
// libraries search whole texts and report only the first of overlapping matches, which would reveal
// the rest of an overlapping secret.
package mask

import (
	"fmt"
	"io"
)

// Mark replaces a secret.
const Mark = "***"

// A Writer passes on what is written to it with secrets masked. It holds back bytes that may be the
// beginning of a secret, until more is written or [Writer.Close] is called. It is not safe for
// concurrent use.
type Writer struct {
	to     io.Writer
	set    *Set
	state  int32
	held   []byte // bytes not passed on yet, from start on; includes those of the current state
	hidden []bool // whether the byte of held is known to be in a needle
	start  int
	marked bool // the output ends with a mark, which may still extend
	out    []byte
}

// NewWriter returns a Writer that writes to w.
func (s *Set) NewWriter(w io.Writer) *Writer { return &Writer{to: w, set: s} }

// Write accepts all of p. Its error is that of the underlying writer.
func (w *Writer) Write(p []byte) (int, error) {
	w.out = w.out[:0]
	for _, b := range p {
		w.state = w.set.step(w.state, b)
		if w.state == rootState && w.start == len(w.held) { // the common case
			w.out, w.marked = append(w.out, b), false
			continue
		}
		w.held, w.hidden = append(w.held, b), append(w.hidden, false)
		for i := len(w.held) - w.set.matched(w.state); i < len(w.held); i++ {
			w.hidden[i] = true
		}
		w.release(len(w.held) - int(w.set.nodes[w.state].depth))
	}
	return len(p), w.flush()
}

// release passes on the held bytes before end, which no unfinished match can include.
func (w *Writer) release(end int) {
	for ; w.start < end; w.start++ {
		if !w.hidden[w.start] {
			w.out, w.marked = append(w.out, w.held[w.start]), false
		} else if !w.marked {
			w.out, w.marked = append(w.out, Mark...), true
		}
	}
	if 2*w.start >= len(w.held) { // so that the cost of moving is amortized
		w.held = w.held[:copy(w.held, w.held[w.start:])]
		w.hidden = w.hidden[:copy(w.hidden, w.hidden[w.start:])]
		w.start = 0
	}
}

func (w *Writer) flush() error {
	if len(w.out) == 0 {
		return nil
	}
	if _, err := w.to.Write(w.out); err != nil {
		return fmt.Errorf("write masked output: %w", err)
	}
	return nil
}

// Held returns the number of bytes held back.
func (w *Writer) Held() int { return len(w.held) - w.start }

// Close passes on the bytes held back, since no match can be completed any more.
func (w *Writer) Close() error {
	w.out = w.out[:0]
	w.release(len(w.held))
	w.state, w.marked = rootState, false
	return w.flush()
}
