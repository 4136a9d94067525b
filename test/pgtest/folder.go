package pgtest

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const folderPrefix = "svc-pgtest-"

// newFolder makes the folder of this binary's cluster, in memory where there
// is room, and removes those of binaries that were killed.
func newFolder() (string, error) {
	base := memory()
	if base == "" {
		base = os.TempDir()
	}
	removeDead(base)
	return os.MkdirTemp(base, fmt.Sprintf("%s%d-", folderPrefix, os.Getpid()))
}

// removeDead removes what it can: the folders of other users stay.
func removeDead(base string) {
	folders, _ := filepath.Glob(filepath.Join(base, folderPrefix+"*")) // the pattern is well-formed
	for _, folder := range folders {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(folder), folderPrefix), "-")
		pid, err := strconv.Atoi(number)
		if err == nil && pid > 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(folder)
		}
	}
}

// logger tells how PostgreSQL was found when the tests run with -v.
func logger() *slog.Logger {
	if testing.Verbose() {
		return slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return slog.New(slog.DiscardHandler)
}
