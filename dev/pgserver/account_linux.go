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

// namespaces false makes root change its user id even where a user namespace
// could be had, and powers false leaves it none when it does: tests set them.
var namespaces, powers = true, true

// chooseAccount picks who runs PostgreSQL in a folder. Root becomes an
// ordinary user inside a user namespace, where the files stay root's own;
// where the system forbids that, as containers do, it changes to the ordinary
// user for real, and where that one has no way into the folder, such as one
// below /root, it keeps the power to pass.
func chooseAccount(dir string) (account, error) {
	if os.Geteuid() != 0 {
		return ourselves(), nil
	}
	uid, gid, name, err := ordinaryUser()
	if err != nil {
		return account{}, err
	}
	if mapped := mappedAccount(uid, gid); namespaces && mapped.enters(dir) == nil {
		return mapped, nil
	}
	changed := changedAccount(uid, gid)
	err = changed.enters(filepath.Dir(dir))
	if passing := passingAccount(uid, gid); powers && errors.Is(err, syscall.EACCES) && passing.enters("/") == nil {
		changed, err = passing, nil
	}
	if err == nil {
		err = changed.own(dir)
	}
	if errors.Is(err, syscall.EACCES) {
		err = fmt.Errorf("this runs as root, PostgreSQL has to run as %s, which cannot enter the folder; choose one whose parents let others pass, or run as an ordinary user: %w", name, err)
	}
	return changed, err
}

// ordinaryUser is an account that the machine knows: initdb insists on a name.
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

// mappedAccount sees root's files as its own and has none of root's powers.
func mappedAccount(uid, gid uint32) account {
	who := ourselves()
	who.attributes = func() *syscall.SysProcAttr {
		a := childAttributes()
		a.Cloneflags = syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: int(uid), HostID: 0, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: int(gid), HostID: os.Getegid(), Size: 1}}
		return a
	}
	return who
}

func changedAccount(uid, gid uint32) account {
	return account{
		attributes: func() *syscall.SysProcAttr {
			a := childAttributes()
			a.Credential = &syscall.Credential{Uid: uid, Gid: gid}
			return a
		},
		own: func(folder string) error { return handOver(folder, int(uid), int(gid)) },
	}
}

// passingAccount is a changedAccount whose programs no file permissions stop,
// once they run: they have to lie, and to start, where all may go. PostgreSQL
// minds the user id of root, not its capabilities.
func passingAccount(uid, gid uint32) account {
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

// handOver gives away a folder and all in it, and follows no link out of it.
func handOver(folder string, uid, gid int) error {
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

// enters tells whether the account can be had and can enter a folder. It
// starts a program that cannot exist, in that folder: "no such file" says that
// all that comes before went well.
func (a account) enters(dir string) error {
	cmd := &exec.Cmd{Path: "/proc/none", Dir: dir, SysProcAttr: a.attributes()}
	p, err := spawn(cmd)
	<-p.done
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("enter %s: %w", dir, err)
}

// barred tells whether the account cannot enter a folder.
func (a account) barred(dir string) bool { return errors.Is(a.enters(dir), syscall.EACCES) }
