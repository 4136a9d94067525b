// Package mask keeps secrets out of a stream of bytes, such as a build's output.
//
// A [Set] is made of the secrets, a [Writer] replaces every occurrence of one of its
// needles by [Mark], wherever the stream is cut into writes. What it passes on is
// exactly this: of the whole stream, each byte that lies in some occurrence of a needle
// is hidden, and each longest run of hidden bytes becomes one mark.
//
// Matching is Aho and Corasick's automaton with the bytes of its current state held
// back. The libraries at hand search whole texts and keep the first of overlapping
// matches, which would let the rest of an overlapping secret through.
package mask

import (
	"fmt"
	"io"
)

// Mark stands where a secret was.
const Mark = "***"

// A Writer passes on what is written to it without the secrets. It holds bytes back
// while they may be the beginning of one, however long that takes, until [Writer.Close].
// It is not for concurrent use.
type Writer struct {
	to     io.Writer
	set    *Set
	at     int32
	held   []byte // not passed on yet, from start on: at least the bytes of the current state
	hidden []bool // beside each byte of held, whether it is in a needle for certain
	start  int
	marked bool // the last that was passed on is a mark, and the run may go on
	out    []byte
}

// NewWriter returns a Writer that passes on to w.
func (s *Set) NewWriter(w io.Writer) *Writer { return &Writer{to: w, set: s} }

// Write takes in all of p, or returns the error of the writer behind.
func (w *Writer) Write(p []byte) (int, error) {
	w.out = w.out[:0]
	for _, b := range p {
		w.at = w.set.step(w.at, b)
		if w.at == none && w.start == len(w.held) { // what most bytes are
			w.out, w.marked = append(w.out, b), false
			continue
		}
		w.held, w.hidden = append(w.held, b), append(w.hidden, false)
		for i := len(w.held) - w.set.matched(w.at); i < len(w.held); i++ {
			w.hidden[i] = true
		}
		w.release(len(w.held) - int(w.set.nodes[w.at].depth))
	}
	return len(p), w.flush()
}

// release passes on the held bytes before end: no needle that may yet end has any of them.
func (w *Writer) release(end int) {
	for ; w.start < end; w.start++ {
		if !w.hidden[w.start] {
			w.out, w.marked = append(w.out, w.held[w.start]), false
		} else if !w.marked {
			w.out, w.marked = append(w.out, Mark...), true
		}
	}
	if 2*w.start >= len(w.held) { // moves as many bytes as were passed on, at the most
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

// Held is the number of bytes that wait for what comes next.
func (w *Writer) Held() int { return len(w.held) - w.start }

// Close passes on what was held back: the stream has ended, so it begins no needle.
func (w *Writer) Close() error {
	w.out = w.out[:0]
	w.release(len(w.held))
	w.at, w.marked = none, false
	return w.flush()
}
