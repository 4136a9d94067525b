package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// aptSettings is an additional settings file of Debian's postgresql-common, so that the package's
// own configuration stays unchanged.
const aptSettings = "/etc/postgresql-common/createcluster.d/svc.conf"

// byApt installs Debian's package without the system-wide cluster that it would create.
func byApt(ctx context.Context, s search) ([]string, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("not root")
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return nil, errors.New("no apt-get on PATH")
	}
	if err := os.MkdirAll(filepath.Dir(aptLock), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(aptLock, os.O_RDWR|os.O_CREATE, 0o644) //nolint:gosec // all users lock it, and it is empty
	if err != nil {
		return nil, err
	}
	defer file.Close()
	waited, err := lockFile(ctx, file, syscall.LOCK_EX)
	if err != nil {
		return nil, err
	}
	if dirs, err := byGlob(debian)(ctx, s); waited && err == nil {
		return dirs, nil
	}
	s.log.Info("installing PostgreSQL", "by", "apt-get", "package", "postgresql")
	if err := aptInstall(ctx); err != nil {
		return nil, err
	}
	return byGlob(debian)(ctx, s)
}

const (
	debian  = "/usr/lib/postgresql/*/bin"        // programs of the package
	aptLock = "/var/cache/svc-postgres/apt.lock" // held during the installation
)

// byDebian first waits for another process that is installing the package, because the programs are
// incomplete until then.
func byDebian(ctx context.Context, s search) ([]string, error) {
	if file, err := os.Open(aptLock); err == nil { // without the file nobody installs
		defer file.Close()
		if _, err := lockFile(ctx, file, syscall.LOCK_SH); err != nil {
			return nil, err
		}
	}
	return byGlob(debian)(ctx, s)
}

func aptInstall(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
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
