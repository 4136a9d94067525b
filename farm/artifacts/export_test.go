package artifacts

import (
	"errors"
	"io/fs"
	"sync"
)

// ErrKilled is what everything answers in a process that was killed.
var ErrKilled = errors.New("killed")

// A Trap fails a directory at a step: from then on for ever, as in a process that was
// killed, or that once.
type Trap struct {
	At   int   // the step, from 1; 0 never
	Once error // nil: killed

	mu   sync.Mutex
	Done int // steps
}

func (t *Trap) step() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Done++
	switch {
	case t.At == 0 || t.Done < t.At || t.Done > t.At && t.Once != nil:
		return nil
	case t.Once != nil:
		return t.Once
	}
	return ErrKilled
}

// Trapped puts a trap under a directory.
func (d *Directory) Trapped(t *Trap) *Directory { return &Directory{trapDisk{d.disk, t}} }

type trapDisk struct {
	disk
	trap *Trap
}

func (d trapDisk) MkdirAll(dir string) error {
	if err := d.trap.step(); err != nil {
		return err
	}
	return d.disk.MkdirAll(dir)
}

func (d trapDisk) Link(name, other string) error {
	if err := d.trap.step(); err != nil {
		return err
	}
	return d.disk.Link(name, other)
}

func (d trapDisk) Remove(name string) error {
	if err := d.trap.step(); err != nil {
		return err
	}
	return d.disk.Remove(name)
}

func (d trapDisk) ReadDir(dir string) ([]fs.DirEntry, error) {
	if err := d.trap.step(); err != nil {
		return nil, err
	}
	return d.disk.ReadDir(dir)
}

func (d trapDisk) Create(name string) (file, error) {
	if err := d.trap.step(); err != nil {
		return nil, err
	}
	f, err := d.disk.Create(name)
	if err != nil {
		return nil, err
	}
	return trapFile{f, d.trap}, nil
}

func (d trapDisk) Open(name string) (file, error) {
	if err := d.trap.step(); err != nil {
		return nil, err
	}
	f, err := d.disk.Open(name)
	if err != nil {
		return nil, err
	}
	return trapFile{f, d.trap}, nil
}

type trapFile struct {
	file
	trap *Trap
}

// Write writes half of b if it fails.
func (f trapFile) Write(b []byte) (int, error) {
	if err := f.trap.step(); err != nil {
		n, _ := f.file.Write(b[:len(b)/2])
		return n, err
	}
	return f.file.Write(b)
}

func (f trapFile) Read(b []byte) (int, error) {
	if err := f.trap.step(); err != nil {
		return 0, err
	}
	return f.file.Read(b)
}

func (f trapFile) Sync() error {
	if err := f.trap.step(); err != nil {
		return err
	}
	return f.file.Sync()
}

func (f trapFile) Close() error {
	return errors.Join(f.file.Close(), f.trap.step())
}
