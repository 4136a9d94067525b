package artifacts

import (
	"errors"
	"fmt"
	"io"

	"svc/fault"
)

// A partReader reads a part of a request and checks that it has the length of its chunk. err is
// what was wrong, if anything.
type partReader struct {
	name   string
	r      io.Reader
	left   int64
	broken error // error to wrap when the body breaks off
	err    error
}

func (p *partReader) Read(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	if len(b) == 0 {
		return 0, nil
	}
	n, err := p.r.Read(b[:min(int64(len(b)), p.left+1)]) // one more byte than allowed, to notice too long parts
	p.left -= int64(n)
	switch {
	case p.left < 0, errors.Is(err, io.EOF) && p.left > 0:
		p.err = fault.Field(p.name, "must have the length of its chunk")
	case err != nil && !errors.Is(err, io.EOF):
		p.err = fmt.Errorf("%w: read %s: %w", p.broken, p.name, err)
	default:
		return n, err
	}
	return n, p.err
}
