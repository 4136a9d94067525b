package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"svc/farm/runner/sandbox"
)

// A Folder is the runner's own, of which nobody else reads anything:
//
//	identity.json     who the runner is, and where the farm is
//	credentials.pem   the key and the certificate, always of each other
//	server-ca.pem     the authority of the farm's own certificate, where it is a private one
//	spool/<job>.<epoch>/   what was said of a job, and its artifacts until they are uploaded
//	work/<job>.<epoch>/    where it runs
//	control.sock      the running supervisor, for status and drain
//	lock              held by the running supervisor
type Folder string

func (f Folder) path(names ...string) string {
	return filepath.Join(append([]string{string(f)}, names...)...)
}

// The files in it.
const (
	identityFile    = "identity.json"
	credentialsFile = "credentials.pem"
	pendingFile     = "pending-key.pem"
	authorityFile   = "server-ca.pem"
	spoolFolder     = "spool"
	workFolder      = "work"
	socketFile      = "control.sock"
	lockFile        = "lock"
)

// ErrNotEnrolled says that a folder holds no runner.
var ErrNotEnrolled = errors.New("this machine is not enrolled: run svc-runner enroll")

// ErrEnrolled says that a folder holds one already.
var ErrEnrolled = errors.New("this machine is enrolled already: svc-runner uninstall ends that")

// An Identity is who a runner is.
type Identity struct {
	URL         string    `json:"url"` // of the farm
	AgentURL    string    `json:"agentUrl"`
	RunnerID    string    `json:"runnerId"`
	WorkspaceID string    `json:"workspaceId"`
	Name        string    `json:"name"`
	Labels      []string  `json:"labels"`
	Capacity    int       `json:"capacity"`
	Serial      string    `json:"serial"`
	NotBefore   time.Time `json:"notBefore"`
	NotAfter    time.Time `json:"notAfter"`
	ReleaseKeys []string  `json:"releaseKeys"` // that releases are signed with
}

// Make makes the folder and those in it.
func (f Folder) Make() error {
	for _, dir := range []string{"", spoolFolder, workFolder} {
		if err := os.MkdirAll(f.path(dir), 0o700); err != nil {
			return fmt.Errorf("make data folder: %w", err)
		}
	}
	return nil
}

// Identity reads who the runner is.
func (f Folder) Identity() (id Identity, err error) {
	text, err := os.ReadFile(f.path(identityFile))
	if errors.Is(err, os.ErrNotExist) {
		return id, ErrNotEnrolled
	}
	if err == nil {
		err = json.Unmarshal(text, &id)
	}
	if err != nil {
		return id, fmt.Errorf("read identity: %w", err)
	}
	return id, nil
}

func (f Folder) saveIdentity(id Identity) error {
	text, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	return f.replace(identityFile, append(text, '\n'))
}

// replace writes a file in whole, or leaves the one that is there.
func (f Folder) replace(name string, text []byte) error {
	next := f.path(name + ".next")
	out, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = out.Write(text)
	if err = errors.Join(err, out.Sync(), out.Close()); err == nil {
		err = os.Rename(next, f.path(name))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return syncFolder(string(f))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync folder %s: %w", dir, err)
	}
	return nil
}

// ErrRunning says that a supervisor has the folder.
var ErrRunning = errors.New("another svc-runner runs with this data folder")

// lock keeps other supervisors away until the file is closed, at the latest with the process.
func (f Folder) lock() (*os.File, error) {
	file, err := os.OpenFile(f.path(lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data folder: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", f, ErrRunning)
	}
	return file, nil
}

// Uninstall removes all that the runner has here. The service is not told: a person revokes it.
func (f Folder) Uninstall() error {
	if _, err := os.Stat(string(f)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	lock, err := f.lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return fmt.Errorf("uninstall: %w", err)
	}
	for _, e := range entries {
		if !ours(e.Name()) {
			return fmt.Errorf("uninstall: %s is not of svc-runner, so nothing was removed", f.path(e.Name()))
		}
	}
	if err := sandbox.RemoveAll(string(f)); err != nil {
		return fmt.Errorf("uninstall: %w", err)
	}
	return nil
}

func ours(name string) bool {
	switch name {
	case identityFile, credentialsFile, pendingFile, authorityFile, spoolFolder, workFolder, socketFile, lockFile,
		identityFile + ".next", credentialsFile + ".next", pendingFile + ".next", authorityFile + ".next":
		return true
	}
	return false
}
