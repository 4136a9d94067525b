package artifacts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"svc/events"
)

// A seal says which chunks make a file, whose digest was checked.
type seal struct {
	Attempt    int      `json:"attempt"`
	Size       int64    `json:"size"`
	SHA256     string   `json:"sha256"`
	ChunkBytes int64    `json:"chunkBytes"`
	Tokens     []string `json:"chunks"`
}

// maxSeal is more than that of a file with as many chunks as there may be has.
const maxSeal = 1 << 20

// seal makes a file of the chunks that were hashed. If somebody else was first theirs
// are the file, and what is not among them is left to be swept.
func (u *Upload) seal(ctx context.Context, p *progress) error {
	text, err := json.Marshal(seal{p.attempt, p.Size, p.SHA256, p.ChunkBytes, p.tokens})
	if err != nil {
		return fmt.Errorf("encode a seal: %w", err)
	}
	err = u.store.Put(ctx, u.folder+"/"+p.ID.String(), int64(len(text)), bytes.NewReader(text))
	if err != nil && !errors.Is(err, ErrExists) {
		return away(err)
	}
	p.sealed = true
	return nil
}

func readSeal(ctx context.Context, store Store, key string) (seal, error) {
	var s seal
	r, err := store.Open(ctx, key, 0)
	if err != nil {
		return s, err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxSeal))
	if err := errors.Join(err, r.Close()); err != nil {
		return s, fmt.Errorf("read %s: %w", key, err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("read %s: %w", key, err)
	}
	if f := (File{Size: s.Size, ChunkBytes: max(s.ChunkBytes, 1)}); f.Chunks() != int64(len(s.Tokens)) {
		return s, fmt.Errorf("read %s: %d chunks of %d bytes", key, len(s.Tokens), s.Size)
	}
	return s, nil
}

// Open returns an artifact's bytes. Its error may be [ErrMissing].
func Open(ctx context.Context, store Store, workspace, job, artifact events.ID) (*Reader, error) {
	folder := folderOf(workspace, job)
	s, err := readSeal(ctx, store, folder+"/"+artifact.String())
	if err != nil {
		return nil, err
	}
	return &Reader{ctx: ctx, store: store, folder: folder, artifact: artifact.String(), seal: s}, nil
}

// A Reader reads an artifact, chunk after chunk, from any place in it.
type Reader struct {
	ctx    context.Context // io.Reader has no room for it
	store  Store
	folder string

	artifact string
	seal     seal
	at       int64
	chunk    io.ReadCloser // that at lies in; nil before it is opened
	left     int64         // bytes of it that were not read
}

// Size is how many bytes the artifact has.
func (r *Reader) Size() int64 { return r.seal.Size }

// SHA256 is its digest in hex.
func (r *Reader) SHA256() string { return r.seal.SHA256 }

// Seek sets where the next Read begins.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.seal.Size
	}
	if offset < 0 {
		return r.at, fmt.Errorf("seek %s: to %d", r.artifact, offset)
	}
	if offset == r.at {
		return r.at, nil
	}
	r.at = offset
	return r.at, r.Close()
}

// Close closes what is open.
func (r *Reader) Close() error {
	if r.chunk == nil {
		return nil
	}
	err := r.chunk.Close()
	r.chunk = nil
	return err
}

// Read reads on. A chunk that is shorter than it was is an error.
func (r *Reader) Read(b []byte) (int, error) {
	if r.at >= r.seal.Size {
		return 0, io.EOF
	}
	if len(b) == 0 {
		return 0, nil
	}
	if r.chunk == nil {
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	n, err := r.chunk.Read(b[:min(int64(len(b)), r.left)])
	r.at, r.left = r.at+int64(n), r.left-int64(n)
	switch {
	case r.left == 0:
		return n, r.Close()
	case errors.Is(err, io.EOF):
		return n, fmt.Errorf("read %s: a chunk is too short: %w", r.artifact, io.ErrUnexpectedEOF)
	}
	return n, err
}

func (r *Reader) open() error {
	f := File{Size: r.seal.Size, ChunkBytes: r.seal.ChunkBytes}
	n := r.at / f.ChunkBytes
	within := r.at - n*f.ChunkBytes
	chunk, err := r.store.Open(r.ctx, r.folder+"/"+chunkName(r.artifact, r.seal.Attempt, n, r.seal.Tokens[n]), within)
	if err != nil {
		return err
	}
	r.chunk, r.left = chunk, f.chunkSize(n)-within
	return nil
}
