package artifacts

import (
	"io"
	"io/fs"
	"os"
)

// A disk is the file system below a [Directory]. Tests inject failures into it.
type disk interface {
	MkdirAll(dir string) error
	Create(name string) (file, error) // fails if the file exists
	Open(name string) (file, error)
	Link(name, other string) error
	Rename(name, other string) error
	Remove(name string) error
	ReadDir(dir string) ([]fs.DirEntry, error)
	Stat(name string) (fs.FileInfo, error)
	Close() error
}

type file interface {
	io.ReadWriteSeeker
	Sync() error
	Close() error
}

// A rootDisk is a directory that no name or link leads out of.
type rootDisk struct{ root *os.Root }

func (d rootDisk) MkdirAll(dir string) error     { return d.root.MkdirAll(dir, 0o700) }
func (d rootDisk) Link(name, other string) error { return d.root.Link(name, other) }
func (d rootDisk) Remove(name string) error      { return d.root.Remove(name) }
func (d rootDisk) Rename(name, to string) error  { return d.root.Rename(name, to) }
func (d rootDisk) Close() error                  { return d.root.Close() }

// Stat does not follow links.
func (d rootDisk) Stat(name string) (fs.FileInfo, error) { return d.root.Lstat(name) }

func (d rootDisk) Create(name string) (file, error) {
	return d.open(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
}

func (d rootDisk) Open(name string) (file, error) { return d.open(name, os.O_RDONLY) }

// open avoids returning a nil *os.File as a non-nil file.
func (d rootDisk) open(name string, flag int) (file, error) {
	f, err := d.root.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d rootDisk) ReadDir(dir string) ([]fs.DirEntry, error) { return fs.ReadDir(d.root.FS(), dir) }
