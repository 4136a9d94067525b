// Package identity is who the agent on a build machine is at the farm: its data folder with the key and
// the certificate, how it is enrolled, and the client that makes requests with them.
package identity

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"svc/atomicfile"
	"svc/farm/runner/sandbox"
	"svc/filelock"
)

// A Folder is the path of the runner's data folder, which only the runner's user can read:
//
//	identity.json          who the runner is, and where the farm is
//	credentials.pem        the key and its certificate
//	renewed.pem            their successors, until the first request with them
//	pending-key.pem        the key of an enrollment in progress
//	server-ca.pem          the authority of the farm's server certificate, if it is private
//	spool/<job>.<epoch>/   unacknowledged messages of a job, and its artifacts until they are uploaded
//	work/<job>.<epoch>/    where the job runs
//	control.sock           the supervisor's socket for status and drain
//	lock                   held by the running supervisor
//
// The folder itself is locked by other processes while they make a request with the certificate.
type Folder string

// Path returns the path of a file in the folder.
func (f Folder) Path(names ...string) string {
	return filepath.Join(append([]string{string(f)}, names...)...)
}

// The names in the folder.
const (
	IdentityFile    = "identity.json"
	CredentialsFile = "credentials.pem"
	RenewedFile     = "renewed.pem"
	PendingFile     = "pending-key.pem"
	AuthorityFile   = "server-ca.pem"
	SpoolFolder     = "spool"
	WorkFolder      = "work"
	SocketFile      = "control.sock"
	lockFile        = "lock"

	oldSuffix = ".old" // of identity and credentials that were replaced
)

// ErrNotEnrolled says that the folder has no identity.
var ErrNotEnrolled = errors.New("this machine is not enrolled: run svc-runner enroll")

// ErrEnrolled says that the folder has an identity already.
var ErrEnrolled = errors.New("this machine is enrolled already: svc-runner uninstall ends that")

// An Identity says who a runner is.
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
	ReleaseKeys []string  `json:"releaseKeys"` // keys that sign releases
}

// Make creates the folder and its subfolders, durably.
func (f Folder) Make() error {
	for _, dir := range []string{"", SpoolFolder, WorkFolder} {
		if err := atomicfile.MkdirAll(f.Path(dir), 0o700); err != nil {
			return fmt.Errorf("make data folder: %w", err)
		}
	}
	return nil
}

// describe sets the fields that depend on the runner's certificate.
func (id *Identity) describe(c *x509.Certificate) {
	id.Serial, id.NotBefore, id.NotAfter = c.SerialNumber.Text(16), c.NotBefore, c.NotAfter
}

// Identity reads the runner's identity. Its error is [ErrNotEnrolled] if there is none. The file may
// describe an earlier certificate, if a renewal stored the next one and was interrupted; the identity
// describes the newest.
func (f Folder) Identity() (id Identity, err error) {
	text, err := os.ReadFile(f.Path(IdentityFile))
	if errors.Is(err, os.ErrNotExist) {
		return id, ErrNotEnrolled
	}
	if err == nil {
		err = json.Unmarshal(text, &id)
	}
	if err != nil {
		return id, fmt.Errorf("read identity: %w", err)
	}
	c, err := f.ReadCredentials(RenewedFile)
	if err != nil {
		c, err = f.Credentials()
	}
	if err == nil { // otherwise the first use of the certificate says so
		id.describe(c.Leaf)
	}
	return id, nil
}

func (f Folder) saveIdentity(id Identity) error {
	text, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	return f.replaceFile(IdentityFile, append(text, '\n'))
}

// replaceFile replaces a file atomically and durably.
func (f Folder) replaceFile(name string, text []byte) error {
	return atomicfile.Write(f.Path(name), text, 0o600)
}

// remove removes a file, if it exists.
func (f Folder) remove(name string) error {
	if err := os.Remove(f.Path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove file of the data folder: %w", err)
	}
	return nil
}

// ErrRunning says that another supervisor has locked the folder.
var ErrRunning = errors.New("another svc-runner runs with this data folder")

// Lock locks the folder until the lock is released or the process ends. Its error wraps [ErrRunning]
// if another supervisor holds the lock.
func (f Folder) Lock() (*filelock.Lock, error) {
	l, err := filelock.Try(f.Path(lockFile))
	if _, ok := errors.AsType[*filelock.HeldError](err); ok {
		err = ErrRunning
	}
	if err != nil {
		return nil, fmt.Errorf("lock data folder %s: %w", f, err)
	}
	return l, nil
}

// deregisterTimeout limits how long [Folder.Uninstall] tries to reach the farm.
const deregisterTimeout = 15 * time.Second

// Uninstall removes the folder, after it has revoked the runner at the farm. An empty folder is left if
// the one above belongs to another user. It refuses if the folder has files of others, and, unless force
// is set, messages or artifacts of jobs that were not sent. revokeErr says why the farm was not reached
// or refused; the folder is removed nevertheless. It is [ErrNotEnrolled] if there was nothing to revoke.
func (f Folder) Uninstall(ctx context.Context, force bool) (revokeErr, err error) {
	if _, err := os.Stat(string(f)); errors.Is(err, os.ErrNotExist) {
		return ErrNotEnrolled, nil
	}
	lock, err := f.Lock()
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return nil, fmt.Errorf("uninstall: %w", err)
	}
	for _, e := range entries {
		if !isOurs(e.Name()) {
			return nil, fmt.Errorf("uninstall: %s does not belong to svc-runner, so nothing was removed", f.Path(e.Name()))
		}
	}
	if unsent, _ := os.ReadDir(f.Path(SpoolFolder)); len(unsent) > 0 && !force { // it may never have been made
		var names []string
		for _, e := range unsent {
			names = append(names, e.Name())
		}
		return nil, fmt.Errorf("uninstall: messages or artifacts of jobs %s were not sent, so nothing was removed: "+
			"svc-runner run sends them, and uninstall -force discards them", strings.Join(names, ", "))
	}
	revokeErr = f.deregister(ctx)
	if err := sandbox.RemoveAll(string(f)); err != nil {
		if left, unread := os.ReadDir(string(f)); unread != nil || len(left) > 0 {
			return revokeErr, fmt.Errorf("uninstall: %w", err)
		}
	}
	return revokeErr, nil
}

// deregister revokes the runner at the farm, unless it is over already.
func (f Folder) deregister(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, deregisterTimeout)
	defer cancel()
	id, err := f.Identity()
	if err != nil {
		return err
	}
	l, err := OpenClient(f, id)
	if err != nil {
		return err
	}
	defer l.Close()
	err = l.CallJSON(ctx, "DELETE", RegistrationsPath+"/self", nil, nil)
	var r *Refusal
	if errors.As(err, &r) && r.Final() {
		return nil
	}
	return err
}

func isOurs(name string) bool {
	switch name {
	case IdentityFile, CredentialsFile, RenewedFile, PendingFile, AuthorityFile, SpoolFolder, WorkFolder, SocketFile, lockFile,
		IdentityFile + oldSuffix, CredentialsFile + oldSuffix,
		IdentityFile + atomicfile.TempSuffix, CredentialsFile + atomicfile.TempSuffix, RenewedFile + atomicfile.TempSuffix,
		PendingFile + atomicfile.TempSuffix, AuthorityFile + atomicfile.TempSuffix:
		return true
	}
	return false
}
