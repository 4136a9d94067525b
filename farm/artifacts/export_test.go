package artifacts

import (
	"errors"
	"io/fs"
	"sync"
)

// SweepInterval is the pause between two rounds of a [Sweeper].
const SweepInterval = sweepInterval

// ErrKilled is the error of all operations after a simulated kill.
var ErrKilled = errors.New("killed")

// A Trap makes a directory fail at a step: only at that step, or at all steps from then on, as in a
// killed process.
type Trap struct {
	At   int   // step that fails, from 1; 0 is none
	Once error // error of that step alone; nil simulates a kill

	mu   sync.Mutex
	Done int // number of steps done
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

// Trapped installs a trap below a directory.
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

func (d trapDisk) Rename(name, other string) error {
	if err := d.trap.step(); err != nil {
		return err
	}
	return d.disk.Rename(name, other)
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

// Write writes half of b before it fails.
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
