package farm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/textproto"
	"strings"

	"svc/farm/artifacts"
	"svc/fault"
)

var (
	errPartHeader = fault.Field("part", "must have a header of 16 KiB or less")
	errMalformed  = errors.New("malformed multipart body")
)

// A partReader reads the parts of a multipart body. Unlike [mime/multipart.Reader] it does not look
// for the boundary within chunks, whose lengths are known, and reads them without copying.
type partReader struct {
	r         *bufio.Reader
	delimiter string // without the line break before it
	rest      string // what follows the delimiter in its line
	begun     bool
}

// next returns the name of the next part, or io.EOF after the last one.
func (p *partReader) next() (string, error) {
	if !p.begun {
		p.begun = true
		if start, _ := p.r.Peek(2); string(start) == "\r\n" {
			_, _ = p.r.Discard(2)
		}
		if err := p.readDelimiter(); err != nil {
			return "", err
		}
	}
	if strings.HasPrefix(p.rest, "--") {
		return "", io.EOF
	}
	if strings.Trim(p.rest, " \t") != "\r\n" {
		return "", errMalformed
	}
	header, err := p.readHeader()
	if err != nil {
		return "", err
	}
	disposition, parameters, err := mime.ParseMediaType(header.Get("Content-Disposition"))
	if err != nil || disposition != "form-data" {
		return "", nil //nolint:nilerr // a part without a name is refused where the name is used
	}
	return parameters["name"], nil
}

// readHeader reads the header of a part, up to the empty line.
func (p *partReader) readHeader() (textproto.MIMEHeader, error) {
	var text []byte
	for {
		line, err := p.r.ReadSlice('\n')
		text = append(text, line...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull), len(text) > partHeader:
			return nil, errPartHeader
		case err != nil:
			return nil, unexpected(err)
		}
		if len(bytes.TrimRight(line, "\r\n")) == 0 {
			break
		}
	}
	header, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(text))).ReadMIMEHeader()
	if err != nil {
		return nil, errMalformed
	}
	return header, nil
}

// readDelimiter reads the line of a delimiter. The last one need not end in a line break.
func (p *partReader) readDelimiter() error {
	line, err := p.r.ReadSlice('\n')
	rest, ok := strings.CutPrefix(string(line), p.delimiter)
	switch {
	case err != nil && (!ok || !errors.Is(err, io.EOF) || !strings.HasPrefix(rest, "--")):
		return unexpected(err)
	case !ok:
		return errMalformed
	}
	p.rest = rest
	return nil
}

// small reads a part of up to limit bytes. It returns limit+1 bytes, or a few more, of a larger one.
func (p *partReader) small(limit int) ([]byte, error) {
	var text []byte
	lineStart := true
	for len(text) <= limit {
		line, err := p.r.ReadSlice('\n')
		rest, isDelimiter := strings.CutPrefix(string(line), p.delimiter)
		switch {
		case lineStart && isDelimiter && (err == nil || errors.Is(err, io.EOF) && strings.HasPrefix(rest, "--")):
			p.rest = rest
			return bytes.TrimSuffix(text, []byte("\r\n")), nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return nil, unexpected(err)
		}
		lineStart = bytes.HasSuffix(line, []byte("\r\n"))
		text = append(text, line...)
	}
	return text, nil
}

// chunk returns a reader of a part of exactly size bytes.
func (p *partReader) chunk(name string, size int64) io.Reader {
	return &chunkReader{parts: p, name: name, left: size}
}

// A chunkReader reads a chunk, and the delimiter after it.
type chunkReader struct {
	parts *partReader
	name  string
	left  int64
	end   error // after the chunk
}

// Read implements [io.Reader].
func (c *chunkReader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if c.left == 0 && c.end == nil {
		c.end = c.readEnd()
	}
	if c.end != nil {
		return 0, c.end
	}
	n, err := c.parts.r.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	if err != nil {
		c.end = unexpected(err)
		return n, c.end
	}
	return n, nil
}

// readEnd returns io.EOF if the chunk is followed by a delimiter.
func (c *chunkReader) readEnd() error {
	var lineBreak [2]byte
	if _, err := io.ReadFull(c.parts.r, lineBreak[:]); err != nil {
		return unexpected(err)
	}
	err := errMalformed
	if string(lineBreak[:]) == "\r\n" {
		err = c.parts.readDelimiter()
	}
	switch {
	case err == nil:
		return io.EOF
	case errors.Is(err, errMalformed) || errors.Is(err, bufio.ErrBufferFull):
		return artifacts.ErrChunkLength(c.name)
	}
	return err
}

// unexpected returns the error of a body that ends within a part.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read part: %w", err)
}
