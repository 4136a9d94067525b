package artifacts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"

	"svc/events"
	"svc/fault"
)

// Errors about uploads.
var (
	ErrDigest     = fault.New(fault.Invalid, "artifact_digest_mismatch", "This file is not what was declared. Send it again.")
	ErrIncomplete = fault.New(fault.Malformed, "upload_incomplete", "The body broke off. Send what is missing.")
	ErrStore      = fault.New(fault.Unavailable, "artifact_store_unavailable", "Artifacts cannot be stored at the moment.")
)

// A Job identifies the files of one epoch of a job.
type Job struct {
	Workspace, ID events.ID
	Epoch         int
}

func folderOf(workspace, job events.ID) string { return workspace.String() + "/" + job.String() }

// An Upload is the progress of a job's upload as one request sees it. It does not see what other
// requests store meanwhile, except where it collides with it. Chunks are committed in the background:
// [Upload.Finish] must be called at the end, before anybody is told what is stored.
type Upload struct {
	store   Store
	folder  string
	files   []*progress
	commits commits
}

// maxAttempts is how often a file may arrive completely with a wrong digest. It bounds the storage
// that a runner can use up.
const maxAttempts = 3

// A progress is the state of one file.
type progress struct {
	Artifact
	attempt int      // number of failed attempts
	tokens  []string // tokens of the stored chunks of this attempt, "" for missing ones
	sealed  bool
	digest  hash.Hash // digest of the first hashed chunks
	hashed  int64     // number of chunks in digest
}

// Resume returns the state of the upload of a manifest, from what is stored.
func Resume(ctx context.Context, store Store, j Job, m Manifest) (*Upload, error) {
	u := &Upload{store: store, folder: folderOf(j.Workspace, j.ID)}
	byArtifact := map[string]*progress{}
	for _, a := range m.Artifacts(j) {
		p := &progress{Artifact: a, tokens: make([]string, a.Chunks()), digest: sha256.New()}
		u.files = append(u.files, p)
		byArtifact[p.ID.String()] = p
	}
	objects, err := store.List(ctx, u.folder)
	if err != nil {
		return nil, storeError(err)
	}
	for _, apply := range []func(*progress, objectName, int64){(*progress).applyState, (*progress).applyChunk} {
		for _, o := range objects {
			name := parseName(o.Name)
			if p := byArtifact[name.artifact]; p != nil {
				apply(p, name, o.Size)
			}
		}
	}
	return u, nil
}

// applyState applies a seal or a failed attempt.
func (p *progress) applyState(name objectName, _ int64) {
	switch name.kind {
	case sealObject:
		p.sealed = true
	case failureObject:
		p.attempt = max(p.attempt, name.attempt+1)
	}
}

// applyChunk applies a chunk of this attempt. The first of several copies is used.
func (p *progress) applyChunk(name objectName, size int64) {
	n := name.chunk
	if name.kind == chunkObject && name.attempt == p.attempt && n < p.Chunks() && size == p.chunkSize(n) && p.tokens[n] == "" {
		p.tokens[n] = name.token
	}
}

// storeError wraps an error of the store as [ErrStore], unless it is a fault already.
func storeError(err error) error {
	if fault.As(err) != nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrStore, err)
}

// Sealed returns the complete files. Each has the declared digest.
func (u *Upload) Sealed() (list []Artifact) {
	for _, p := range u.files {
		if p.sealed {
			list = append(list, p.Artifact)
		}
	}
	return list
}

// SealComplete seals files whose chunks were all stored when the upload was resumed: empty files,
// and those of a process that died before sealing.
func (u *Upload) SealComplete(ctx context.Context) error {
	for _, p := range u.files {
		if err := u.sealIfComplete(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// ChunkSize returns the size of the chunk that a part named <file>.<chunk> has.
func (u *Upload) ChunkSize(name string) (int64, error) {
	p, n, err := u.chunk(name)
	if err != nil {
		return 0, err
	}
	return p.chunkSize(n), nil
}

// Receive stores the part of a request named <file>.<chunk>. A chunk that is stored already is read
// and dropped. After the last chunk of a file its digest is checked; it returns [ErrDigest] if that
// is wrong and [ErrIncomplete] if the body broke off. An error of the store may be that of an earlier
// chunk.
func (u *Upload) Receive(ctx context.Context, name string, r io.Reader) error {
	p, n, err := u.chunk(name)
	if err != nil {
		return err
	}
	if u.commits.failed.Load() {
		return u.wait()
	}
	part := &partReader{name: name, r: r, left: p.chunkSize(n)}
	if p.sealed || p.tokens[n] != "" {
		_, err := io.Copy(io.Discard, part)
		return err
	}
	if p.attempt >= maxAttempts {
		return ErrDigest.With("fileId", p.File.ID)
	}
	if err := u.put(ctx, p, n, part); err != nil {
		return err
	}
	return u.sealIfComplete(ctx, p)
}

// chunk returns the file and chunk that a part's name refers to.
func (u *Upload) chunk(name string) (*progress, int64, error) {
	id, number, _ := strings.Cut(name, ".")
	i := slices.IndexFunc(u.files, func(p *progress) bool { return p.File.ID == id })
	n, err := strconv.ParseInt(number, 10, 64)
	if i < 0 || err != nil || strconv.FormatInt(n, 10) != number || n < 0 || n >= u.files[i].Chunks() {
		return nil, 0, fault.Field("part", "must be named <file>.<chunk> after a chunk of the manifest")
	}
	return u.files[i], n, nil
}

// put stages a chunk, which is then committed in the background. If it is the next one to hash, it is
// hashed on the way, so that a file that arrives in order is not read again.
func (u *Upload) put(ctx context.Context, p *progress, n int64, part *partReader) error {
	var source io.Reader = part
	var sum hash.Cloner
	if p.hashed == n {
		var err error
		if sum, err = p.digest.(hash.Cloner).Clone(); err != nil {
			return fmt.Errorf("copy a digest: %w", err)
		}
		source = io.TeeReader(part, sum)
	}
	name := token()
	staged, err := u.store.Stage(ctx, u.folder+"/"+chunkName(p.ID.String(), p.attempt, n, name), p.chunkSize(n), source)
	if err != nil {
		if part.err != nil {
			return part.err
		}
		return storeError(err)
	}
	p.tokens[n] = name
	u.commits.begin(p, n, staged)
	if sum != nil {
		p.digest, p.hashed = sum, n+1
	}
	return nil
}

func (p *progress) resetDigest() { p.digest, p.hashed = sha256.New(), 0 }

// hashStored hashes further stored chunks, up to the first missing one.
func (u *Upload) hashStored(ctx context.Context, p *progress) error {
	for p.hashed < p.Chunks() && p.tokens[p.hashed] != "" {
		n := p.hashed
		read, err := u.readChunk(ctx, p, n)
		switch {
		case errors.Is(err, ErrMissing), err == nil && read != p.chunkSize(n): // it was removed meanwhile
			p.tokens[n] = ""
			p.resetDigest()
		case err != nil:
			p.resetDigest() // it may have a part of the chunk
			return storeError(err)
		default:
			p.hashed++
		}
	}
	return nil
}

func (u *Upload) readChunk(ctx context.Context, p *progress, n int64) (int64, error) {
	r, err := u.store.Open(ctx, u.folder+"/"+chunkName(p.ID.String(), p.attempt, n, p.tokens[n]), 0)
	if err != nil {
		return 0, err
	}
	block := blocks.Get().(*[blockSize]byte)
	defer blocks.Put(block)
	read, err := io.CopyBuffer(onlyWriter{p.digest}, onlyReader{r}, block[:])
	return read, errors.Join(err, r.Close())
}

// These hide ReadFrom and WriteTo, with which io.CopyBuffer would not use the buffer.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// sealIfComplete seals a file whose chunks are all stored, or fails the attempt if the digest is
// not the declared one.
func (u *Upload) sealIfComplete(ctx context.Context, p *progress) error {
	if p.sealed || p.attempt >= maxAttempts || slices.Contains(p.tokens, "") {
		return nil
	}
	if err := u.wait(); err != nil {
		return err
	}
	if err := u.hashStored(ctx, p); err != nil || p.hashed < p.Chunks() {
		return err
	}
	if hex.EncodeToString(p.digest.Sum(nil)) == p.SHA256 {
		return u.seal(ctx, p)
	}
	return u.failAttempt(ctx, p)
}

// failAttempt marks an attempt at a file as failed. Its chunks are left to the sweep, since another
// replica may be sealing some of them together with correct ones.
func (u *Upload) failAttempt(ctx context.Context, p *progress) error {
	err := u.store.Put(ctx, u.folder+"/"+failureName(p.ID.String(), p.attempt), 0, strings.NewReader(""))
	if err != nil && !errors.Is(err, ErrExists) {
		return storeError(err)
	}
	p.attempt++
	p.tokens = make([]string, p.Chunks())
	p.resetDigest()
	return ErrDigest.With("fileId", p.File.ID)
}

// Received returns the number of stored bytes.
func (u *Upload) Received() (sum int64) {
	for _, p := range u.files {
		sum += p.received()
	}
	return sum
}

func (p *progress) received() (sum int64) {
	if p.sealed {
		return p.Size
	}
	for n := range p.tokens {
		if p.tokens[n] != "" {
			sum += p.chunkSize(int64(n))
		}
	}
	return sum
}

// A State is the progress of a file.
type State struct {
	Artifact
	Complete bool
	Received int64   // bytes
	Missing  []int64 // chunks
}

// States returns the progress of each file of the manifest.
func (u *Upload) States() []State {
	list := make([]State, 0, len(u.files))
	for _, p := range u.files {
		state := State{Artifact: p.Artifact, Complete: p.sealed, Received: p.received(), Missing: []int64{}}
		for n := range p.tokens {
			if !p.sealed && p.tokens[n] == "" {
				state.Missing = append(state.Missing, int64(n))
			}
		}
		list = append(list, state)
	}
	return list
}
