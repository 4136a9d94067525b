// Package mask removes secrets from a stream of bytes, such as a build's output.
//
// A [Set] is built from the secrets, and a [Writer] replaces every occurrence of one of its needles
// by [Mark], however the stream is split into writes. Precisely: each byte of the whole stream that
// lies in an occurrence of a needle is hidden, and each maximal run of hidden bytes becomes one
// mark. Needles of encodings that are often broken into lines, such as base64, are also found with up
// to two line ends (\r or \n) between any of their bytes. The line ends themselves stay.
//
// Encoders of URLs and of strings in quotes, such as those of JSON, agree on what an escape sequence means,
// but not on which characters need one. So the secrets are searched for in the decoded stream, whatever
// encoder has written it.
//
// Matching uses Aho-Corasick automata, and holds back the bytes of their current states. Existing
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
	to      io.Writer
	set     *Set
	readers []reader
	held    []byte // bytes not passed on yet, from start on; includes those of unfinished matches
	hidden  []bool // whether the byte of held is known to be in a needle
	start   int
	first   int  // number of held[0], counted from the first byte ever held
	marked  bool // the output ends with a mark, which may still extend
	out     []byte
}

// NewWriter returns a Writer that writes to w.
func (s *Set) NewWriter(w io.Writer) *Writer {
	readers := make([]reader, len(s.forms))
	for i := range readers {
		readers[i].form = &s.forms[i]
	}
	return &Writer{to: w, set: s, readers: readers}
}

// Write accepts all of p. Its error is that of the underlying writer.
func (w *Writer) Write(p []byte) (int, error) {
	w.out = w.out[:0]
	for _, b := range p {
		if len(w.held) == 0 && !w.set.begins[b] { // the common case
			w.out, w.marked = append(w.out, b), false
			continue
		}
		w.held, w.hidden = append(w.held, b), append(w.hidden, false)
		number := w.first + len(w.held) - 1
		end := number + 1
		for i := range w.readers {
			end = min(end, w.readers[i].read(w, b, number))
		}
		w.release(end - w.first)
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
		w.first += w.start
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
	for i := range w.readers {
		w.readers[i].close(w)
	}
	w.release(len(w.held))
	w.marked = false
	return w.flush()
}
