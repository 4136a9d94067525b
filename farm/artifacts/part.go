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
	name string
	r    io.Reader
	left int64
	err  error
}

// ErrChunkLength refuses a part that does not have the length of its chunk.
func ErrChunkLength(part string) error { return fault.Field(part, "must have the length of its chunk") }

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
		p.err = ErrChunkLength(p.name)
	case fault.As(err) != nil:
		p.err = err
	case err != nil && !errors.Is(err, io.EOF):
		p.err = fmt.Errorf("%w: read %s: %w", ErrIncomplete, p.name, err)
	default:
		return n, err
	}
	return n, p.err
}
