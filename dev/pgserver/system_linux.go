package pgserver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// childAttributes make a child a process group of its own, so that a
// terminal's ctrl-C reaches only the parent, and have the kernel end it when
// the parent dies. SIGQUIT is PostgreSQL's immediate shutdown: it ends for
// sure, clears its shared memory, and the next start recovers.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT}
}

// stat is the state letter and the parent of a process, ok false without one.
func stat(pid int) (state byte, parent int, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false
	}
	// The name, in parentheses, may hold anything: read on after its end.
	rest := text[bytes.LastIndexByte(text, ')')+1:]
	if _, err := fmt.Sscanf(string(rest), " %c %d", &state, &parent); err != nil {
		return 0, 0, false
	}
	return state, parent, true
}

// alive counts a zombie as gone: in a container nobody may ever reap it.
func alive(pid int) bool {
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
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // gone is empty
	return string(bytes.ReplaceAll(text, []byte{0}, []byte{' '}))
}
