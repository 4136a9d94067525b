package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"os"
	"path/filepath"
	"sync"

	"svc/farm/runner/executor"
)

// An uploadForm is the body of an upload: the manifest as the first part, and each piece as a part
// named <file>.<number>. Its size is known in advance. Files are opened when their turn comes.
type uploadForm struct {
	io.Reader
	size        int64
	contentType string
	pieces      []*pieceReader
}

func newUploadForm(folder string, m executor.Manifest, pieces []piece) (*uploadForm, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	var head bytes.Buffer // what multipart.Writer writes around the pieces
	form := multipart.NewWriter(&head)
	f := &uploadForm{contentType: form.FormDataContentType()}
	var readers []io.Reader
	flush := func() {
		f.size += int64(head.Len())
		readers = append(readers, bytes.NewReader(bytes.Clone(head.Bytes())))
		head.Reset()
	}
	part, err := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="manifest"`}, "Content-Type": {"application/json"},
	})
	if err == nil {
		_, err = part.Write(text)
	}
	for _, p := range pieces {
		if err != nil {
			break
		}
		_, err = form.CreatePart(textproto.MIMEHeader{
			"Content-Disposition": {fmt.Sprintf(`form-data; name="%s.%d"; filename="%s.%d"`, p.file.ID, p.n, p.file.ID, p.n)},
			"Content-Type":        {"application/octet-stream"},
		})
		flush()
		r := &pieceReader{path: filepath.Join(folder, p.file.ID), at: p.n * p.file.ChunkBytes, left: p.size()}
		f.size += r.left
		f.pieces, readers = append(f.pieces, r), append(readers, r)
	}
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("write upload: %w", err)
	}
	flush()
	f.Reader = io.MultiReader(readers...)
	return f, nil
}

// Close closes the open file. It may be called while another goroutine reads.
func (f *uploadForm) Close() error {
	for _, p := range f.pieces {
		p.close()
	}
	return nil
}

// A pieceReader reads left bytes of a file from an offset on.
type pieceReader struct {
	path string

	mu       sync.Mutex
	at, left int64
	file     *os.File
	closed   bool
}

// Read implements [io.Reader]. A file that is too short is an error.
func (p *pieceReader) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.left == 0:
		return 0, io.EOF
	case p.closed:
		return 0, fmt.Errorf("read artifact: %w", os.ErrClosed)
	}
	if p.file == nil {
		f, err := os.Open(p.path)
		if err != nil {
			return 0, fmt.Errorf("open artifact: %w", err)
		}
		p.file = f
	}
	n, err := p.file.ReadAt(b[:min(int64(len(b)), p.left)], p.at)
	p.at, p.left = p.at+int64(n), p.left-int64(n)
	switch {
	case p.left == 0:
		p.closeLocked()
		return n, nil
	case errors.Is(err, io.EOF):
		return n, fmt.Errorf("read artifact: %d bytes are missing: %w", p.left, io.ErrUnexpectedEOF)
	case err != nil:
		return n, fmt.Errorf("read artifact: %w", err)
	}
	return n, nil
}

func (p *pieceReader) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.closeLocked()
}

func (p *pieceReader) closeLocked() {
	if p.file != nil {
		_ = p.file.Close()
		p.file = nil
	}
}
