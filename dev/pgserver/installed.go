package pgserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

func bySetting(_ context.Context, s search) ([]string, error) {
	dir := os.Getenv("SVC_PG_BINDIR")
	if dir == "" {
		return nil, errors.New("not set")
	}
	if dir, err := filepath.Abs(dir); err == nil && hasPrograms(dir) {
		return []string{dir}, nil
	}
	// The user asked for this folder, so falling back must not be silent.
	s.log.Warn("SVC_PG_BINDIR holds no PostgreSQL programs, other ways are tried", "folder", dir)
	return nil, fmt.Errorf("no postgres and initdb in %s", dir)
}

func hasPrograms(dir string) bool {
	for _, name := range []string{"postgres", "initdb"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// byPath follows links to the folder that has all programs and libraries. The folder of the link
// comes second.
func byPath(context.Context, search) ([]string, error) {
	found, err := exec.LookPath("postgres")
	if err != nil {
		return nil, errors.New("no postgres on it")
	}
	if found, err = filepath.Abs(found); err != nil {
		return nil, err
	}
	dirs := []string{filepath.Dir(found)}
	if target, err := filepath.EvalSymlinks(found); err == nil && filepath.Dir(target) != dirs[0] {
		dirs = append([]string{filepath.Dir(target)}, dirs...)
	}
	return dirs, nil
}

// byGlob returns the folders that match, highest version first.
func byGlob(patterns ...string) func(context.Context, search) ([]string, error) {
	return func(context.Context, search) ([]string, error) {
		var dirs []string
		for _, pattern := range patterns {
			found, err := filepath.Glob(pattern)
			if err != nil {
				return nil, err
			}
			dirs = append(dirs, found...)
		}
		if len(dirs) == 0 {
			return nil, errors.New("no such folder")
		}
		slices.SortStableFunc(dirs, func(a, b string) int { return cmp.Compare(folderVersion(b), folderVersion(a)) })
		return dirs, nil
	}
}

var digits = regexp.MustCompile(`\d+`)

// folderVersion returns the version in the name of bin's parent folder, such as
// "/usr/lib/postgresql/17/bin" or "…/opt/postgresql@17/bin", or 0.
func folderVersion(bin string) int {
	version, err := strconv.Atoi(digits.FindString(filepath.Base(filepath.Dir(bin))))
	if err != nil {
		return 0
	}
	return version
}
