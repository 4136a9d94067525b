package artifacts

import (
	"io"
	"io/fs"
	"os"
)

// A disk is what a [Directory] does to its file system. Tests let it fail.
type disk interface {
	MkdirAll(dir string) error
	Create(name string) (file, error) // one that was not there
	Open(name string) (file, error)
	Link(name, other string) error
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

// rootDisk is a directory that no name leads out of, whatever links it has in it.
type rootDisk struct{ root *os.Root }

func (d rootDisk) MkdirAll(dir string) error     { return d.root.MkdirAll(dir, 0o700) }
func (d rootDisk) Link(name, other string) error { return d.root.Link(name, other) }
func (d rootDisk) Remove(name string) error      { return d.root.Remove(name) }
func (d rootDisk) Close() error                  { return d.root.Close() }

// Stat follows no link.
func (d rootDisk) Stat(name string) (fs.FileInfo, error) { return d.root.Lstat(name) }

func (d rootDisk) Create(name string) (file, error) {
	return d.open(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
}

func (d rootDisk) Open(name string) (file, error) { return d.open(name, os.O_RDONLY) }

// open makes no file of a nil pointer.
func (d rootDisk) open(name string, flag int) (file, error) {
	f, err := d.root.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d rootDisk) ReadDir(dir string) ([]fs.DirEntry, error) { return fs.ReadDir(d.root.FS(), dir) }
