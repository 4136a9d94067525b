package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	s.log.Info("installing PostgreSQL", "by", "apt-get", "package", "postgresql")
	if err := aptInstall(ctx); err != nil {
		return nil, err
	}
	return byGlob("/usr/lib/postgresql/*/bin")(ctx, s)
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
