package pgserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// capabilities reports whether ambient capabilities may be used. Tests set it to false.
var capabilities = true

// chooseAccount chooses the account that runs PostgreSQL in a folder. Root switches to an ordinary
// user. If that user cannot reach the folder, for example below /root, it keeps the capability to
// bypass file permissions.
func chooseAccount(dir string) (account, error) {
	if os.Geteuid() != 0 {
		return currentAccount(), nil
	}
	uid, gid, name, err := ordinaryUser()
	if err != nil {
		return account{}, err
	}
	changed := changedAccount(uid, gid)
	err = changed.checkEnter(filepath.Dir(dir))
	if passing := capableAccount(uid, gid); capabilities && errors.Is(err, syscall.EACCES) && passing.checkEnter("/") == nil {
		changed, err = passing, nil
	}
	if err == nil {
		err = changed.own(dir)
	}
	if errors.Is(err, syscall.EACCES) {
		err = fmt.Errorf("this runs as root, PostgreSQL has to run as %s, which cannot enter the folder; "+
			"choose one whose parents let others pass, or run as an ordinary user: %w", name, err)
	}
	return changed, err
}

// ordinaryUser returns an account with a name in the user database, which initdb requires.
func ordinaryUser() (uid, gid uint32, name string, err error) {
	for _, name := range []string{"postgres", "nobody", "daemon"} {
		known, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(known.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(known.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			return uint32(uid), uint32(gid), name, nil
		}
	}
	return 0, 0, "", errors.New("this runs as root, PostgreSQL does not, and there is no user postgres, nobody or daemon to run it as")
}

func changedAccount(uid, gid uint32) account {
	return account{
		attributes: func() *syscall.SysProcAttr {
			a := childAttributes()
			a.Credential = &syscall.Credential{Uid: uid, Gid: gid}
			return a
		},
		own: func(folder string) error { return chownAll(folder, int(uid), int(gid)) },
	}
}

// capableAccount is a changedAccount whose processes bypass file permissions. Their programs and
// working directory must be accessible without that. PostgreSQL checks the user id, not the
// capabilities.
func capableAccount(uid, gid uint32) account {
	const capDACOverride = 1 // of capabilities(7)
	who := changedAccount(uid, gid)
	plain := who.attributes
	who.attributes = func() *syscall.SysProcAttr {
		a := plain()
		a.AmbientCaps = []uintptr{capDACOverride}
		return a
	}
	return who
}

// chownAll changes the owner of a folder and its contents, without following links.
func chownAll(folder string, uid, gid int) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return root.Lchown(path, uid, gid)
	})
}

// checkEnter returns nil if the account can be used and can enter a folder. It starts a program that
// does not exist in that folder: "no such file" means that everything before succeeded.
func (a account) checkEnter(dir string) error {
	cmd := &exec.Cmd{Path: "/proc/none", Dir: dir, SysProcAttr: a.attributes()}
	p, err := spawn(cmd)
	<-p.done
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("enter %s: %w", dir, err)
}

// cannotEnter reports whether the account has no permission to enter a folder.
func (a account) cannotEnter(dir string) bool { return errors.Is(a.checkEnter(dir), syscall.EACCES) }
