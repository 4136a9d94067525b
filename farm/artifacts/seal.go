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

// A seal lists the chunks that make up a file, whose digest was checked.
type seal struct {
	Attempt    int      `json:"attempt"`
	Size       int64    `json:"size"`
	SHA256     string   `json:"sha256"`
	ChunkBytes int64    `json:"chunkBytes"`
	Tokens     []string `json:"chunks"`
}

// maxSeal is more than the seal of a file with the most chunks needs.
const maxSeal = 1 << 20

// seal makes a file of its hashed chunks. If another replica has sealed the file first, its chunks
// make up the file, and others are left to the sweep.
func (u *Upload) seal(ctx context.Context, p *progress) error {
	if err := u.sync(ctx); err != nil { // a seal never names a chunk that a crash can undo
		return err
	}
	text, err := json.Marshal(seal{p.attempt, p.Size, p.SHA256, p.ChunkBytes, p.tokens})
	if err != nil {
		return fmt.Errorf("encode a seal: %w", err)
	}
	err = u.store.Put(ctx, u.folder+"/"+p.ID.String(), int64(len(text)), bytes.NewReader(text))
	if err != nil && !errors.Is(err, ErrExists) {
		return storeError(err)
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

// Open returns a reader of an artifact's data. Its error is [ErrMissing] if there is no seal.
func Open(ctx context.Context, store Store, workspace, job, artifact events.ID) (*Reader, error) {
	folder := folderOf(workspace, job)
	s, err := readSeal(ctx, store, folder+"/"+artifact.String())
	if err != nil {
		return nil, err
	}
	return &Reader{ctx: ctx, store: store, folder: folder, artifact: artifact.String(), seal: s}, nil
}

// A Reader reads an artifact chunk by chunk, and can seek. It must be closed.
type Reader struct {
	ctx    context.Context // io.Reader has no parameter for it
	store  Store
	folder string

	artifact string
	seal     seal
	at       int64
	chunk    io.ReadCloser // the chunk at position at; nil if it is not open
	left     int64         // unread bytes of the chunk
}

// Size returns the size of the artifact in bytes.
func (r *Reader) Size() int64 { return r.seal.Size }

// SHA256 returns the artifact's digest in hex.
func (r *Reader) SHA256() string { return r.seal.SHA256 }

// Seek implements [io.Seeker].
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

// Close closes the open chunk. The reader can still be used.
func (r *Reader) Close() error {
	if r.chunk == nil {
		return nil
	}
	err := r.chunk.Close()
	r.chunk = nil
	return err
}

// Read implements [io.Reader]. A chunk that is shorter than the seal says gives
// [io.ErrUnexpectedEOF].
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
