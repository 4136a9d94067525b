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

// none is the state in which nothing of a needle has been seen.
const none = 0

// A node is a prefix of a needle.
type node struct {
	next  map[byte]int32 // by the byte that follows
	fail  int32          // its longest proper suffix that is a prefix of a needle too
	depth int32          // its length
	match int32          // length of the longest needle that it ends with, or 0
}

// A Set is what to hide. It does not change and may be shared.
type Set struct {
	nodes []node
	root  [256]int32 // successors of none
}

// Len is the number of prefixes that are told apart, a measure of memory.
func (s *Set) Len() int { return len(s.nodes) }

// newSet builds the automaton of needles, none of which is empty.
func newSet(needles [][]byte) *Set {
	s := &Set{nodes: make([]node, 1)}
	for _, n := range needles {
		s.add(n)
	}
	s.link()
	return s
}

func (s *Set) add(needle []byte) {
	at := int32(none)
	for i, b := range needle {
		to, ok := s.nodes[at].next[b]
		if !ok {
			to = int32(len(s.nodes))
			s.nodes = append(s.nodes, node{depth: int32(i + 1)})
			if s.nodes[at].next == nil {
				s.nodes[at].next = map[byte]int32{}
			}
			s.nodes[at].next[b] = to
		}
		at = to
	}
	s.nodes[at].match = s.nodes[at].depth
}

// link sets where each state goes on that its byte does not continue, breadth first:
// the suffix of a state is shorter than it.
func (s *Set) link() {
	queue := []int32{none}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for b, to := range s.nodes[at].next {
			queue = append(queue, to)
			if at == none {
				s.root[b] = to
				continue
			}
			n := &s.nodes[to]
			n.fail = s.step(s.nodes[at].fail, b)
			n.match = max(n.match, s.nodes[n.fail].match)
		}
	}
}

// step returns the state after b.
func (s *Set) step(at int32, b byte) int32 {
	for at != none {
		if to, ok := s.nodes[at].next[b]; ok {
			return to
		}
		at = s.nodes[at].fail
	}
	return s.root[b]
}

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
		n := &w.set.nodes[w.at]
		for i := len(w.held) - int(n.match); i < len(w.held); i++ {
			w.hidden[i] = true
		}
		w.release(len(w.held) - int(n.depth))
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
