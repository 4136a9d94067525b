package runner

import (
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

// A gathering is how far the files of a job have been copied.
type gathering struct {
	root    *os.Root
	folder  string
	limit   int64 // bytes that are left
	places  wire.Places
	files   []manifestFile
	encoded int      // bytes of those in a manifest
	leftOut []string // files, and what is wrong with them: the first of them
	without int      // how many were left out
}

// take copies a file, or leaves it out. The error is one by which nothing is kept.
func (g *gathering) take(artifact, name string) error {
	if wrong := wire.BadPath(name); wrong != "" {
		g.leave(name, "its path "+wrong)
		return nil
	}
	from, err := g.root.Open(name)
	if err != nil {
		g.leave(name, "it cannot be read")
		return nil // it is left out
	}
	defer from.Close()
	if !g.places.Add(artifact, name) {
		g.leave(name, "on some systems it would be in the place of another file")
		return nil
	}
	if len(g.files) == wire.MaxFiles {
		return fmt.Errorf("%w (%d)", errTooMany, wire.MaxFiles)
	}
	f := manifestFile{ID: "f" + strconv.Itoa(len(g.files)+1), Name: artifact, Path: name, ChunkBytes: chunkBytes}
	if err := f.copy(from, filepath.Join(g.folder, f.ID), g.limit); err != nil {
		return err
	}
	text, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encode manifest: %w", err)
	}
	if g.encoded += len(text) + 1; g.encoded > wire.MaxManifest-manifestFrame {
		return fmt.Errorf("%w: their names are too long", errTooMany)
	}
	g.limit -= f.Size
	g.files = append(g.files, f)
	return nil
}

const manifestFrame = 100 // bytes of a manifest that are no file's

func (g *gathering) leave(name, wrong string) {
	if g.without++; g.without <= maxLeftOut {
		g.leftOut = append(g.leftOut, fmt.Sprintf("%.200q: %s", name, wrong))
	}
}

// copy takes a file as it is now: its size and digest are those of the copy.
func (f *manifestFile) copy(from *os.File, to string, limit int64) error {
	info, err := from.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("artifact %s: it is no file any more", f.Path)
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("copy artifact: %w", err)
	}
	defer out.Close()
	hash := sha256.New()
	f.Size, err = io.Copy(io.MultiWriter(out, hash), io.LimitReader(from, limit+1))
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
