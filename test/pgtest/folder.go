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

// newFolder creates the folder of this binary's cluster, in memory if there is enough space, and
// removes the folders of test binaries that were killed.
func newFolder() (string, error) {
	base := memoryFolder()
	if base == "" {
		base = os.TempDir()
	}
	removeDead(base)
	return os.MkdirTemp(base, fmt.Sprintf("%s%d-", folderPrefix, os.Getpid()))
}

// removeDead removes the folders of processes that have ended, except those of other users.
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

// logger returns a logger that discards everything unless the tests run with -v.
func logger() *slog.Logger {
	if testing.Verbose() {
		return slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return slog.New(slog.DiscardHandler)
}
