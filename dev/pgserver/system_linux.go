package pgserver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// childAttributes puts a child into its own process group, so that a terminal's Ctrl-C reaches only
// the parent, and has the kernel signal it when the parent dies. SIGQUIT is PostgreSQL's immediate
// shutdown, which frees its shared memory; the next start recovers.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT}
}

// stat returns the state letter and the parent pid of a process.
func stat(pid int) (state byte, parent int, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false
	}
	// The name in parentheses may contain anything: parse what follows it.
	rest := text[bytes.LastIndexByte(text, ')')+1:]
	if _, err := fmt.Sscanf(string(rest), " %c %d", &state, &parent); err != nil {
		return 0, 0, false
	}
	return state, parent, true
}

// isRunning reports whether a process runs. A zombie does not count: in a container nobody may ever
// reap it.
func isRunning(pid int) bool {
	state, _, ok := stat(pid)
	return ok && state != 'Z' && state != 'X'
}

func children(pid int) []int {
	entries, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	var found []int
	for _, entry := range entries {
		child, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			continue
		}
		if _, parent, ok := stat(child); ok && parent == pid {
			found = append(found, child)
		}
	}
	return found
}

func commandLine(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // empty if the process has ended
	return string(bytes.ReplaceAll(text, []byte{0}, []byte{' '}))
}
