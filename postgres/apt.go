package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Where Debian's postgresql-common reads more settings from. A file of our
// own there leaves the package's configuration file alone.
const aptSettings = "/etc/postgresql-common/createcluster.d/svc.conf"

// byApt installs Debian's package without the system-wide cluster that it
// would make and run.
func byApt(ctx context.Context, s search) ([]string, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("not root")
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return nil, errors.New("no apt-get on PATH")
	}
	release, waited, err := lockApt(syscall.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer release()
	if dirs, err := byGlob(debian)(ctx, s); waited && err == nil {
		return dirs, nil
	}
	s.log.Info("installing PostgreSQL", "by", "apt-get", "package", "postgresql")
	if err := aptInstall(ctx); err != nil {
		return nil, err
	}
	return byGlob(debian)(ctx, s)
}

// debian is where the package's programs are.
const debian = "/usr/lib/postgresql/*/bin"

// byDebian waits for a process that is installing the package: what is there
// meanwhile is not whole.
func byDebian(ctx context.Context, s search) ([]string, error) {
	if os.Geteuid() == 0 {
		release, _, err := lockApt(syscall.LOCK_SH)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	return byGlob(debian)(ctx, s)
}

// lockApt keeps others of ours from installing. waited says that one may have done so.
func lockApt(how int) (release func(), waited bool, err error) {
	const folder = "/var/cache/svc-postgres"
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, false, err
	}
	file, err := os.OpenFile(filepath.Join(folder, "apt.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	fd := int(file.Fd())
	if err = syscall.Flock(fd, how|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		waited, err = true, syscall.Flock(fd, how)
	}
	if err != nil {
		return nil, false, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, waited, nil
}

func aptInstall(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, installLimit)
	defer cancel()
	if err := os.MkdirAll(filepath.Dir(aptSettings), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(aptSettings, []byte("create_main_cluster = false\n"), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"update", "-q"},
		{"install", "-q", "-y", "--no-install-recommends", "postgresql"},
	} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.SysProcAttr = childAttributes()
		if out, err := output(cmd); err != nil {
			return fmt.Errorf("apt-get %s: %w %s", args[0], err, tail(out))
		}
	}
	return nil
}
