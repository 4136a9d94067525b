package artifacts

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// Errors of a [Store]. All others are outages.
var (
	ErrExists  = errors.New("there is an object of this key")
	ErrMissing = errors.New("there is no object of this key")
)

// A Store stores objects by key: a folder, a slash, and a name. Keys have only lower-case letters,
// digits, hyphens and dots; the folder has one slash more. Its methods may be called concurrently,
// and by several processes on the same objects.
type Store interface {
	// Put stores the size bytes of r atomically, even if r fails, ctx ends or the process is killed. After it
	// returns the object is durable. If the key exists it returns ErrExists and the object is unchanged.
	Put(ctx context.Context, key string, size int64, r io.Reader) error

	// Stage writes the size bytes of r like Put, but not durably, and the object does not exist before the result is
	// committed. Nobody else may put or stage the key. Several staged objects of a folder are made durable together,
	// by Sync after their commits.
	Stage(ctx context.Context, key string, size int64, r io.Reader) (Staged, error)

	// Sync makes the committed objects of a folder durable. The folder need not exist.
	Sync(ctx context.Context, folder string) error

	// Open reads an object from an offset on. It returns ErrMissing if there is none.
	Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error)

	// List returns the objects of a folder in order of names, none if the folder does not exist.
	List(ctx context.Context, folder string) ([]Object, error)

	// Folders iterates over all folders in any order.
	Folders(ctx context.Context) iter.Seq2[string, error]

	// Remove removes objects. Missing ones are ignored.
	Remove(ctx context.Context, folder string, names ...string) error

	// Clean removes what interrupted puts left in a folder before a time, and the folder and that above it if they are empty.
	Clean(ctx context.Context, folder string, before time.Time) error
}

// A Staged is an object that is written and does not exist yet. Commit must be called, once, from any
// goroutine. It lets the object exist, completely or, if it fails, not at all.
type Staged interface{ Commit() error }

// An Object describes a stored object.
type Object struct {
	Name     string // without the folder
	Size     int64
	Modified time.Time // time of the put, by the store's clock
}
