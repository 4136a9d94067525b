package artifacts

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// The errors of a [Store] that mean something to its callers. Others are outages.
var (
	ErrExists  = errors.New("there is an object of this key")
	ErrMissing = errors.New("there is no object of this key")
)

// A Store keeps objects by key: a folder, a slash, and a name without one. All of them
// are made of lower-case letters, digits, hyphens and dots; a folder has one slash more.
// Its methods may be called concurrently, and by several processes on the same objects.
type Store interface {
	// Put stores the size bytes of r, all of them or nothing: also when r fails, ctx ends or the process is
	// killed. What it has stored survives a loss of power. If the key is taken it is ErrExists, and the object stays.
	Put(ctx context.Context, key string, size int64, r io.Reader) error

	// Open reads an object from an offset on. Its error may be ErrMissing.
	Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error)

	// List returns the objects of a folder by name; none if there is no such folder.
	List(ctx context.Context, folder string) ([]Object, error)

	// Folders goes through all folders, in no order.
	Folders(ctx context.Context) iter.Seq2[string, error]

	// Remove removes objects. One that is not there is removed already.
	Remove(ctx context.Context, folder string, names ...string) error

	// Clean removes from a folder what puts that broke off before a time have left, and the folder if it is empty.
	Clean(ctx context.Context, folder string, before time.Time) error
}

// An Object is what a store has under a key.
type Object struct {
	Name     string // without the folder
	Size     int64
	Modified time.Time // when it was put, by the clock of the store
}
