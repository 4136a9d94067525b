package artifacts

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"sync"

	"svc/fault"
)

// A Directory is a store in a directory of a file system with hard links. An object is written to a
// temporary file next to it, synced, and linked to its name. Unlike a rename, linking fails if the
// name exists. A staged object, whose name is nobody else's, is renamed.
type Directory struct{ disk disk }

const (
	tempPrefix = ".put-" // prefix of the names of temporary files
	blockSize  = 256 << 10

	folderTries = 10 // tries to create a folder that others remove
)

var (
	folderPattern = regexp.MustCompile(`^[a-z0-9-]{1,64}/[a-z0-9-]{1,64}$`)
	namePattern   = regexp.MustCompile(`^[a-z0-9-][a-z0-9.-]{0,127}$`)
)

// OpenDirectory opens the store in an existing directory, and checks that it is writable and
// supports hard links.
func OpenDirectory(dir string) (*Directory, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open artifact store: %w", err)
	}
	d := &Directory{rootDisk{root}}
	if err := d.checkWritable(); err != nil {
		_ = root.Close()
		return nil, fmt.Errorf("try artifact store %s: %w", dir, err)
	}
	return d, nil
}

// Close closes the directory.
func (d *Directory) Close() error { return d.disk.Close() }

// checkWritable writes a file and links it.
func (d *Directory) checkWritable() error {
	name := tempPrefix + token()
	f, err := d.disk.Create(name)
	if err != nil {
		return err
	}
	_ = f.Close()
	defer func() { _ = d.disk.Remove(name) }()
	if err := d.disk.Link(name, name+"-link"); err != nil {
		return err
	}
	return d.disk.Remove(name + "-link")
}

// token returns a random name.
func token() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func splitKey(key string) (folder, name string, err error) {
	i := strings.LastIndexByte(key, '/')
	if i < 0 || !folderPattern.MatchString(key[:i]) || !namePattern.MatchString(key[i+1:]) {
		return "", "", fmt.Errorf("malformed key %q", key)
	}
	return key[:i], key[i+1:], nil
}

// Put implements [Store].
func (d *Directory) Put(ctx context.Context, key string, size int64, r io.Reader) error {
	t, err := d.stage(ctx, key, size, r)
	if err != nil {
		return err
	}
	err = t.sync()
	if err == nil {
		err = d.publish(t.name, key)
	}
	if left := d.disk.Remove(t.name); left != nil && err == nil && !errors.Is(left, fs.ErrNotExist) {
		err = left // the object exists; Clean removes the temporary file
	}
	if err == nil {
		err = d.sync(path.Dir(key))
	}
	return fault.Wrap(err, "put %s", key)
}

// Stage implements [Store].
func (d *Directory) Stage(ctx context.Context, key string, size int64, r io.Reader) (Staged, error) {
	t, err := d.stage(ctx, key, size, r)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Sync implements [Store].
func (d *Directory) Sync(_ context.Context, folder string) error {
	if !folderPattern.MatchString(folder) {
		return fmt.Errorf("sync artifacts: malformed folder %q", folder)
	}
	if err := d.sync(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sync %s: %w", folder, err)
	}
	return nil
}

// A tempFile is the open temporary file of an object.
type tempFile struct {
	d         *Directory
	name, key string
	f         file
}

func (d *Directory) stage(ctx context.Context, key string, size int64, r io.Reader) (*tempFile, error) {
	folder, _, err := splitKey(key)
	if err != nil {
		return nil, fmt.Errorf("put artifact: %w", err)
	}
	t := &tempFile{d: d, name: folder + "/" + tempPrefix + token(), key: key}
	if t.f, err = d.create(folder, t.name); err != nil {
		return nil, fmt.Errorf("put %s: %w", key, err)
	}
	if err := writeAll(ctx, t.f, size, r); err != nil {
		_ = t.f.Close()
		_ = d.disk.Remove(t.name)
		return nil, fmt.Errorf("put %s: %w", key, err)
	}
	return t, nil
}

// sync makes the content durable and closes the file.
func (t *tempFile) sync() error { return errors.Join(t.f.Sync(), t.f.Close()) }

// Commit implements [Staged].
func (t *tempFile) Commit() error {
	err := t.sync()
	if err == nil {
		err = t.d.disk.Rename(t.name, t.key)
	}
	if err != nil {
		_ = t.d.disk.Remove(t.name)
		return fmt.Errorf("put %s: %w", t.key, err)
	}
	return nil
}

// create creates a temporary file, and its folder if needed. Others may remove an empty folder at
// any moment, but not once the file is in it.
func (d *Directory) create(folder, temp string) (file, error) {
	f, err := d.disk.Create(temp)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	for try := 0; errors.Is(err, fs.ErrNotExist) && try < folderTries; try++ {
		if err := d.disk.MkdirAll(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		f, err = d.disk.Create(temp)
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(d.sync("."), d.sync(path.Dir(folder))); err != nil {
		return nil, errors.Join(err, f.Close(), d.disk.Remove(temp))
	}
	return f, nil
}

var blocks = sync.Pool{New: func() any { return new([blockSize]byte) }}

// writeAll writes size bytes of r to a file.
func writeAll(ctx context.Context, f file, size int64, r io.Reader) error {
	block := blocks.Get().(*[blockSize]byte)
	defer blocks.Put(block)
	var written int64
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := fillBlock(r, block[:])
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		more = err == nil
		if _, err := f.Write(block[:n]); err != nil {
			return err
		}
		written += int64(n)
	}
	if written != size {
		return fmt.Errorf("%d bytes came, not %d", written, size)
	}
	return nil
}

// fillBlock reads until a block is full or r ends. Unlike [io.ReadFull] it returns r's own error.
func fillBlock(r io.Reader, block []byte) (n int, err error) {
	for n < len(block) && err == nil {
		var more int
		more, err = r.Read(block[n:])
		n += more
	}
	return n, err
}

func (d *Directory) publish(temp, key string) error {
	err := d.disk.Link(temp, key)
	if errors.Is(err, fs.ErrExist) {
		return ErrExists
	}
	return err
}

// sync makes the names in a directory durable.
func (d *Directory) sync(dir string) error {
	f, err := d.disk.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Open implements [Store].
func (d *Directory) Open(_ context.Context, key string, offset int64) (io.ReadCloser, error) {
	if _, _, err := splitKey(key); err != nil {
		return nil, fmt.Errorf("open artifact: %w", err)
	}
	f, err := d.disk.Open(key)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrMissing
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", key, err)
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("open %s: %w", key, err)
	}
	return f, nil
}
