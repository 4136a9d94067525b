package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"svc/farm/wire"
)

// A collector copies the files of a job's artifacts.
type collector struct {
	root         *os.Root
	folder       string
	limit        int64 // remaining bytes
	paths        wire.PathSet
	files        []manifestFile
	encoded      int      // size of files in the encoded manifest
	leftOut      []string // the first files that were left out, each with the reason
	leftOutCount int      // number of files left out
}

// add copies a file, or leaves it out. After an error no artifact is uploaded.
func (g *collector) add(ctx context.Context, artifact, name string) error {
	if wrong := wire.PathProblem(name); wrong != "" {
		g.leaveOut(name, "its path "+wrong)
		return nil
	}
	from, err := g.root.Open(name)
	if err != nil {
		g.leaveOut(name, "it cannot be read")
		return nil
	}
	defer from.Close()
	if !g.paths.Add(artifact, name) {
		g.leaveOut(name, "on some systems it would be in the place of another file")
		return nil
	}
	if len(g.files) == wire.MaxFiles {
		return fmt.Errorf("%w (%d)", errTooMany, wire.MaxFiles)
	}
	f := manifestFile{ID: "f" + strconv.Itoa(len(g.files)+1), Name: artifact, Path: name, ChunkBytes: chunkBytes}
	if err := f.copy(ctx, from, filepath.Join(g.folder, f.ID), g.limit); err != nil {
		return err
	}
	text, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encode manifest: %w", err)
	}
	if g.encoded += len(text) + 1; g.encoded > wire.MaxManifest-manifestOverhead {
		return fmt.Errorf("%w: their names are too long", errTooMany)
	}
	g.limit -= f.Size
	g.files = append(g.files, f)
	return nil
}

const manifestOverhead = 100 // bytes of a manifest without files

func (g *collector) leaveOut(name, wrong string) {
	if g.leftOutCount++; g.leftOutCount <= maxLeftOut {
		g.leftOut = append(g.leftOut, fmt.Sprintf("%.200q: %s", name, wrong))
	}
}

// A stoppable is a reader that fails when ctx is done.
type stoppable struct {
	ctx  context.Context // io.Reader has no parameter for it
	from io.Reader
}

func (s stoppable) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	return s.from.Read(p)
}

// copy copies a file as it is now. Size and digest are those of the copy.
func (f *manifestFile) copy(ctx context.Context, from *os.File, to string, limit int64) error {
	info, err := from.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("artifact %s: it is not a file any more", f.Path)
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("copy artifact: %w", err)
	}
	defer out.Close()
	hash := sha256.New()
	f.Size, err = io.Copy(io.MultiWriter(out, hash), io.LimitReader(stoppable{ctx, from}, limit+1))
	if err == nil && f.Size > limit {
		err = fmt.Errorf("artifacts are larger than a job's may be, with %s", f.Path)
	}
	if err == nil {
		err = errors.Join(out.Sync(), out.Close())
	}
	if err != nil {
		return fmt.Errorf("copy artifact: %w", err)
	}
	f.SHA256, f.Mode = hex.EncodeToString(hash.Sum(nil)), int(info.Mode().Perm())
	return nil
}
