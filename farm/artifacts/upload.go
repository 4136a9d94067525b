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

// The refusals of what is sent.
var (
	ErrDigest     = fault.New(fault.Invalid, "artifact_digest_mismatch", "This file is not what was declared. Send it again.")
	ErrIncomplete = fault.New(fault.Malformed, "upload_incomplete", "The body broke off. Send what is missing.")
	ErrStore      = fault.New(fault.Unavailable, "artifact_store_unavailable", "Artifacts cannot be stored at the moment.")
)

// A Job is one whose files are uploaded: those of its last attempt.
type Job struct {
	Workspace, ID events.ID
	Epoch         int
}

func folderOf(workspace, job events.ID) string { return workspace.String() + "/" + job.String() }

// An Upload is what has come of a job's files. It is one request's, and sees what others
// store meanwhile only where it meets them.
type Upload struct {
	store  Store
	folder string
	files  []*progress
}

// maxAttempts is how often a file may come whole and be another one, which bounds
// how much a runner can have stored of it.
const maxAttempts = 3

// progress is what has come of a file.
type progress struct {
	Artifact
	attempt int      // how often all of it came and was not what was declared
	tokens  []string // of each chunk of this attempt that is stored; "" of others
	sealed  bool
	sum     hash.Hash // of the first chunks
	summed  int64     // how many
}

// Resume finds what has come of the files of a manifest.
func Resume(ctx context.Context, store Store, j Job, m Manifest) (*Upload, error) {
	u := &Upload{store: store, folder: folderOf(j.Workspace, j.ID)}
	byArtifact := map[string]*progress{}
	for _, a := range m.Artifacts(j) {
		p := &progress{Artifact: a, tokens: make([]string, a.Chunks()), sum: sha256.New()}
		u.files = append(u.files, p)
		byArtifact[p.ID.String()] = p
	}
	objects, err := store.List(ctx, u.folder)
	if err != nil {
		return nil, away(err)
	}
	for _, see := range []func(*progress, objectName, int64){(*progress).seeState, (*progress).seeChunk} {
		for _, o := range objects {
			name := parseName(o.Name)
			if p := byArtifact[name.artifact]; p != nil {
				see(p, name, o.Size)
			}
		}
	}
	return u, nil
}

// seeState takes in a seal, or that an attempt was in vain.
func (p *progress) seeState(name objectName, _ int64) {
	switch name.kind {
	case sealObject:
		p.sealed = true
	case failureObject:
		p.attempt = max(p.attempt, name.attempt+1)
	}
}

// seeChunk takes in a chunk of this attempt; of two that are the same one the first.
func (p *progress) seeChunk(name objectName, size int64) {
	n := name.chunk
	if name.kind == chunkObject && name.attempt == p.attempt && n < p.Chunks() && size == p.chunkSize(n) && p.tokens[n] == "" {
		p.tokens[n] = name.token
	}
}

// away says that the store does not do what it should.
func away(err error) error {
	if fault.As(err) != nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrStore, err)
}

// Sealed returns the files that are whole, each with the digest that was declared.
func (u *Upload) Sealed() (list []Artifact) {
	for _, p := range u.files {
		if p.sealed {
			list = append(list, p.Artifact)
		}
	}
	return list
}

// Settle seals files of which everything was there when the upload was resumed: empty
// ones, and those that were left between their last chunk and their seal.
func (u *Upload) Settle(ctx context.Context) error {
	for _, p := range u.files {
		if err := u.settle(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// Receive takes the part of a request that has a name, <file>.<chunk>. A chunk that is there
// already is read and dropped. With the last chunk of a file its digest is checked.
func (u *Upload) Receive(ctx context.Context, name string, r io.Reader) error {
	p, n, err := u.chunk(name)
	if err != nil {
		return err
	}
	part := &partReader{name: name, r: r, left: p.chunkSize(n), broken: ErrIncomplete.With("stored", u.Received())}
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
	return u.settle(ctx, p)
}

// chunk finds the chunk that a part is named after.
func (u *Upload) chunk(name string) (*progress, int64, error) {
	id, number, _ := strings.Cut(name, ".")
	i := slices.IndexFunc(u.files, func(p *progress) bool { return p.File.ID == id })
	n, err := strconv.ParseInt(number, 10, 64)
	if i < 0 || err != nil || strconv.FormatInt(n, 10) != number || n < 0 || n >= u.files[i].Chunks() {
		return nil, 0, fault.Field("part", "must be named <file>.<chunk> after a chunk of the manifest")
	}
	return u.files[i], n, nil
}

// put stores a chunk. It goes through the sum on its way if it is the next there: of a file that
// comes in order, by one request, nothing is read again.
func (u *Upload) put(ctx context.Context, p *progress, n int64, part *partReader) error {
	var source io.Reader = part
	var sum hash.Cloner
	if p.summed == n {
		var err error
		if sum, err = p.sum.(hash.Cloner).Clone(); err != nil {
			return fmt.Errorf("copy a digest: %w", err)
		}
		source = io.TeeReader(part, sum)
	}
	p.tokens[n] = token()
	err := u.store.Put(ctx, u.folder+"/"+chunkName(p.ID.String(), p.attempt, n, p.tokens[n]), p.chunkSize(n), source)
	if err != nil {
		p.tokens[n] = ""
		if part.err != nil {
			return part.err
		}
		return away(err)
	}
	if sum != nil {
		p.sum, p.summed = sum, n+1
	}
	return nil
}

// sumUp adds stored chunks to the sum, as far as there are all.
func (u *Upload) sumUp(ctx context.Context, p *progress) error {
	for p.summed < p.Chunks() && p.tokens[p.summed] != "" {
		n := p.summed
		read, err := u.readChunk(ctx, p, n)
		switch {
		case errors.Is(err, ErrMissing), err == nil && read != p.chunkSize(n): // it went away meanwhile
			p.tokens[n] = ""
			p.sum, p.summed = sha256.New(), 0
		case err != nil:
			return away(err)
		default:
			p.summed++
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
	read, err := io.CopyBuffer(onlyWriter{p.sum}, onlyReader{r}, block[:])
	return read, errors.Join(err, r.Close())
}

// These hide what else a reader and a writer can do, which would leave the buffer unused.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// settle seals a file if all of it is there, and ends the attempt if that is not what
// was declared.
func (u *Upload) settle(ctx context.Context, p *progress) error {
	if p.sealed || p.attempt >= maxAttempts || slices.Contains(p.tokens, "") {
		return nil
	}
	if err := u.sumUp(ctx, p); err != nil || p.summed < p.Chunks() {
		return err
	}
	if hex.EncodeToString(p.sum.Sum(nil)) == p.SHA256 {
		return u.seal(ctx, p)
	}
	return u.fail(ctx, p)
}

// fail ends an attempt at a file. Its chunks are left to be swept: somebody else may just
// be sealing some of them with others that are better.
func (u *Upload) fail(ctx context.Context, p *progress) error {
	err := u.store.Put(ctx, u.folder+"/"+failureName(p.ID.String(), p.attempt), 0, strings.NewReader(""))
	if err != nil && !errors.Is(err, ErrExists) {
		return away(err)
	}
	p.attempt++
	p.tokens = make([]string, p.Chunks())
	p.sum, p.summed = sha256.New(), 0
	return ErrDigest.With("fileId", p.File.ID)
}

// Received is how many bytes of the files are stored.
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

// A State is how much of a file has come.
type State struct {
	Artifact
	Whole    bool
	Received int64   // bytes
	Missing  []int64 // chunks
}

// States returns how much of each file of the manifest has come.
func (u *Upload) States() []State {
	list := make([]State, 0, len(u.files))
	for _, p := range u.files {
		state := State{Artifact: p.Artifact, Whole: p.sealed, Received: p.received(), Missing: []int64{}}
		for n := range p.tokens {
			if !p.sealed && p.tokens[n] == "" {
				state.Missing = append(state.Missing, int64(n))
			}
		}
		list = append(list, state)
	}
	return list
}
