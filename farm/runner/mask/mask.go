// Package mask removes secrets from a stream of bytes, such as a build's output.
//
// A [Set] is built from the secrets, and a [Writer] replaces every occurrence of one of its needles
// by [Mark], however the stream is split into writes. Precisely: each byte of the whole stream that
// lies in an occurrence of a needle is hidden, and each maximal run of hidden bytes becomes one
// mark. Needles of encodings that are often broken into lines, such as base64, are also found with up
// to two line ends (\r or \n) between any of their bytes. The line ends themselves stay.
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
	held   []byte // bytes not passed on yet, from start on; includes those of the current states
	hidden []bool // whether the byte of held is known to be in a needle
	start  int
	marked bool // the output ends with a mark, which may still extend
	out    []byte
	first  int     // number of held[0], counted from the first byte ever held
	open   numbers // of the held bytes that are not known to be in a needle

	wrapped  int32   // state of the automaton that does not see line ends
	gap      int     // line ends in a row
	seen     numbers // of the bytes that led to wrapped
	openSeen numbers // those of seen that are not known to be in one of its needles
}

// numbers are those of held bytes, in order.
type numbers []int

// maxGap is how many line ends in a row are left out, as few as encoders write. More could make the
// Writer hold back any amount.
const maxGap = 2

// NewWriter returns a Writer that writes to w.
func (s *Set) NewWriter(w io.Writer) *Writer { return &Writer{to: w, set: s} }

// Write accepts all of p. Its error is that of the underlying writer.
func (w *Writer) Write(p []byte) (int, error) {
	w.out = w.out[:0]
	for _, b := range p {
		w.state = w.set.plain.step(w.state, b)
		seen := w.stepWrapped(b)
		if w.state == rootState && w.wrapped == rootState && w.start == len(w.held) { // the common case
			w.out, w.marked = append(w.out, b), false
			continue
		}
		w.held, w.hidden = append(w.held, b), append(w.hidden, false)
		last := w.first + len(w.held) - 1
		w.open = w.hide(append(w.open, last), last+1-w.set.plain.matched(w.state))
		end := len(w.held) - w.set.plain.depth(w.state)
		w.release(min(end, w.hideWrapped(seen, last)))
	}
	return len(p), w.flush()
}

// hide hides the bytes of open from a number on, and returns the others. Each byte is hidden once, or the
// time would be the product of a secret's length and the output's where the secret repeats itself.
func (w *Writer) hide(open numbers, from int) numbers {
	n := len(open)
	for ; n > 0 && open[n-1] >= from; n-- {
		w.hidden[open[n-1]-w.first] = true
	}
	return open[:n]
}

// stepWrapped advances the automaton that does not see line ends, and reports whether it saw b.
func (w *Writer) stepWrapped(b byte) bool {
	if b != '\n' && b != '\r' {
		w.wrapped, w.gap = w.set.wrapped.step(w.wrapped, b), 0
		return true
	}
	if w.gap++; w.gap > maxGap {
		w.wrapped = rootState
	}
	return false
}

// hideWrapped hides the needles that end with the last held byte if the automaton saw it. It returns
// where in held the current state begins.
func (w *Writer) hideWrapped(seen bool, last int) int {
	depth := w.set.wrapped.depth(w.wrapped)
	if seen && depth > 0 {
		w.seen, w.openSeen = append(w.seen, last), append(w.openSeen, last)
		if n := w.set.wrapped.matched(w.wrapped); n > 0 {
			w.openSeen = w.hide(w.openSeen, w.seen[len(w.seen)-n])
		}
	}
	if len(w.seen) > 2*depth { // so that the cost of moving is amortized
		w.seen = w.seen[:copy(w.seen, w.seen[len(w.seen)-depth:])]
	}
	if depth == 0 {
		return len(w.held)
	}
	return w.seen[len(w.seen)-depth] - w.first
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
		w.first += w.start
		w.held = w.held[:copy(w.held, w.held[w.start:])]
		w.hidden = w.hidden[:copy(w.hidden, w.hidden[w.start:])]
		w.open, w.openSeen = w.open.since(w.first), w.openSeen.since(w.first)
		w.start = 0
	}
}

// since removes the numbers below one.
func (n numbers) since(first int) numbers {
	i := 0
	for i < len(n) && n[i] < first {
		i++
	}
	return n[:copy(n, n[i:])]
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
	w.state, w.wrapped, w.gap, w.seen, w.marked = rootState, rootState, 0, nil, false
	return w.flush()
}
