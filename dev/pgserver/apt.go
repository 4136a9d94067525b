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
	if err := os.MkdirAll(filepath.Dir(aptLock), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(aptLock, os.O_RDWR|os.O_CREATE, 0o644) //nolint:gosec // everybody waits by it, and it holds nothing
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
	debian  = "/usr/lib/postgresql/*/bin"        // where the package's programs are
	aptLock = "/var/cache/svc-postgres/apt.lock" // held by who installs it
)

// byDebian waits for a process of ours that is installing the package: what is
// there meanwhile is not whole.
func byDebian(ctx context.Context, s search) ([]string, error) {
	if file, err := os.Open(aptLock); err == nil { // else nobody ever did
		defer file.Close()
		if _, err := lockFile(ctx, file, syscall.LOCK_SH); err != nil {
			return nil, err
		}
	}
	return byGlob(debian)(ctx, s)
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
