package mask

// maxGap is how many line ends in a row are left out, as few as encoders write. More could make the
// Writer hold back any amount.
const maxGap = 2

// A form is a way in which the output may contain secrets.
type form struct {
	needles *automaton
	decode  decoder // nil if each byte stands for itself
	escape  byte    // with which every sequence begins that decode changes
	wrapped bool    // line ends may be between any bytes
}

// A reader searches the output for the needles of a form.
type reader struct {
	*form
	state   int32
	gap     int     // line ends in a row
	encoded []byte  // the last bytes read, which are not a whole escape sequence yet
	text    [4]byte // what they mean
	begins  numbers // of the bytes with which the encodings of those begin that led to state
	open    numbers // of the bytes since then that are not known to be in a needle
}

// numbers are those of held bytes, in order.
type numbers []int

// read takes the byte with a number, and hides in w the needles that end with it. It returns the number of
// the first byte that an unfinished match may include.
func (r *reader) read(w *Writer, b byte, number int) int {
	switch {
	case r.wrapped && (b == '\n' || b == '\r'):
		if r.gap++; r.gap > maxGap {
			r.reset()
		}
	case r.decode == nil || len(r.encoded) == 0 && b != r.escape:
		r.gap = 0
		r.take(w, number, 1, b)
	default:
		r.encoded = append(r.encoded, b)
		for len(r.encoded) > 0 {
			n, decoded := r.decode(r.text[:0], r.encoded)
			if n == 0 {
				break
			}
			r.take(w, number+1-len(r.encoded), n, decoded...)
			r.encoded = r.encoded[:copy(r.encoded, r.encoded[n:])]
		}
	}
	if depth := r.needles.depth(r.state); depth > 0 {
		return r.begins[len(r.begins)-depth]
	}
	return number + 1 - len(r.encoded)
}

// take advances the automaton by text, which the size bytes from a number on encode.
func (r *reader) take(w *Writer, number, size int, text ...byte) {
	for i := range size {
		r.open = append(r.open, number+i)
	}
	for _, b := range text {
		r.state = r.needles.step(r.state, b)
		r.begins = append(r.begins, number)
		if n := r.needles.matched(r.state); n > 0 {
			r.hide(w, r.begins[len(r.begins)-n])
		}
	}
	depth := r.needles.depth(r.state)
	switch {
	case depth == 0:
		r.begins, r.open = r.begins[:0], r.open[:0]
	case len(r.begins) > 2*depth: // so that the cost of moving is amortized
		r.begins = r.begins[:copy(r.begins, r.begins[len(r.begins)-depth:])]
		r.open = r.open.since(r.begins[0])
	}
}

// hide hides the open bytes from a number on. Each byte is hidden once, or the time would be the product of
// the lengths of the output and of a secret that repeats itself.
func (r *reader) hide(w *Writer, from int) {
	n := len(r.open)
	for ; n > 0 && r.open[n-1] >= from; n-- {
		w.hidden[r.open[n-1]-w.first] = true
	}
	r.open = r.open[:n]
}

// since removes the numbers below first.
func (n numbers) since(first int) numbers {
	i := 0
	for i < len(n) && n[i] < first {
		i++
	}
	return n[:copy(n, n[i:])]
}

// close reads what is not a whole escape sequence as it is, and resets the reader.
func (r *reader) close(w *Writer) {
	for i, b := range r.encoded {
		r.take(w, w.first+len(w.held)-len(r.encoded)+i, 1, b)
	}
	r.encoded = r.encoded[:0]
	r.reset()
}

func (r *reader) reset() {
	r.state, r.gap, r.begins, r.open = rootState, 0, r.begins[:0], r.open[:0]
}
