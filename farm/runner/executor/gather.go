package executor

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
	root    *os.Root
	base    string // what steps call the root
	folder  string
	limit   int64 // remaining bytes
	paths   wire.PathSet
	found   []foundFile
	linked  int // files and folders seen behind symbolic links
	files   []ManifestFile
	encoded int // size of files in the encoded manifest
	left    leftOut
}

// add copies a file, or leaves it out. After an error no artifact is uploaded.
func (g *collector) add(ctx context.Context, artifact string, found foundFile) error {
	name := found.name
	if wire.PathProblem(name) != "" {
		g.left.add(name, wire.LeftOutPath)
		return nil
	}
	from, err := g.root.Open(found.real)
	if err != nil {
		g.left.add(name, wire.LeftOutUnreadable)
		return nil
	}
	defer from.Close()
	if !g.paths.Add(artifact, name) {
		g.left.add(name, wire.LeftOutCollision)
		return nil
	}
	if len(g.files) == wire.MaxFiles {
		return fmt.Errorf("%w (%d)", errTooMany, wire.MaxFiles)
	}
	f := ManifestFile{ID: "f" + strconv.Itoa(len(g.files)+1), Name: artifact, Path: name, ChunkBytes: chunkBytes}
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

// A leftOut is what artifacts match and an upload does not have.
type leftOut struct {
	files []wire.LeftOut // the first ones
	count int            // of all
}

func (l *leftOut) add(name, why string) {
	if l.count++; l.count <= wire.MaxLeftOut {
		l.files = append(l.files, wire.LeftOut{Path: name, Reason: why})
	}
}

// leftOutText returns the reason as the log says it.
func leftOutText(f wire.LeftOut) string {
	if f.Reason == wire.LeftOutPath {
		return "its path " + wire.PathProblem(f.Path)
	}
	return leftOutWords[f.Reason]
}

var leftOutWords = map[string]string{
	wire.LeftOutCollision:  "on some systems it would be in the place of another file",
	wire.LeftOutUnreadable: "it cannot be read",
	wire.LeftOutDeep:       "it is nested too deep",
	wire.LeftOutSpecial:    "it is no regular file",
	wire.LeftOutOutside:    "it is a symbolic link that leads out of the working directory, or into .git",
	wire.LeftOutBroken:     "it is a symbolic link that leads nowhere",
	wire.LeftOutLoop:       "it is a symbolic link to a folder that it is in",
	wire.LeftOutLinks:      "too much is behind symbolic links",
	wire.LeftOutOutFolder:  "symbolic links in " + wire.OutFolder + " are not followed",
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
func (f *ManifestFile) copy(ctx context.Context, from *os.File, to string, limit int64) error {
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
