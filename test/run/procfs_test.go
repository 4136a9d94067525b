//go:build linux

package run

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An osProcess identifies a process by its pid and start time, because pids are reused.
type osProcess struct {
	pid, parent int
	startTicks  string // start time in clock ticks since boot
}

func (b osProcess) String() string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", b.pid)) // empty if it has ended
	return fmt.Sprintf("%d %s", b.pid, bytes.ReplaceAll(text, []byte{0}, []byte{' '}))
}

// readProcess reads /proc/PID/stat and reports whether the process is alive. Its name, in parentheses,
// may contain anything. A zombie counts as ended once its last thread has ended, because in a container
// nobody may reap it; before that its files and sockets are open.
func readProcess(pid int) (osProcess, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return osProcess{}, false
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	parent, err := strconv.Atoi(fields[1])
	state, threads := fields[0], fields[17]
	gone := state == "X" || state == "Z" && threads <= "1"
	return osProcess{pid, parent, fields[19]}, err == nil && !gone
}

func allProcesses() (list []osProcess) {
	entries, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			continue
		}
		if b, ok := readProcess(pid); ok {
			list = append(list, b)
		}
	}
	return list
}

// processTree returns a process and all its descendants.
func processTree(pid int) (list []osProcess) {
	all := allProcesses()
	in := map[int]bool{pid: true}
	for range all { // a parent may come after its child
		for _, b := range all {
			in[b.pid] = in[b.pid] || in[b.parent]
		}
	}
	for _, b := range all {
		if in[b.pid] {
			list = append(list, b)
		}
	}
	return list
}

// descendant returns the descendant of a process that runs the named program.
func descendant(t *testing.T, pid int, name string) osProcess {
	t.Helper()
	for _, b := range processTree(pid) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", b.pid)) // empty if it has ended
		if program, _, _ := strings.Cut(string(text), "\x00"); filepath.Base(program) == name {
			return b
		}
	}
	require.FailNow(t, name+" does not run")
	return osProcess{}
}

// requireGone waits until all processes of a list have ended, and all that use a folder.
func requireGone(t *testing.T, list []osProcess, folder string) {
	t.Helper()
	left := func() []osProcess {
		still := processesUsing(folder)
		for _, b := range list {
			if now, ok := readProcess(b.pid); ok && now.startTicks == b.startTicks {
				still = append(still, b)
			}
		}
		return still
	}
	if !assert.Eventually(t, func() bool { return len(left()) == 0 }, waitLimit, 20*time.Millisecond) {
		require.Empty(t, left(), "left behind")
	}
}

// processesUsing returns the processes whose command line, environment or working
// directory names a folder.
func processesUsing(folder string) (list []osProcess) {
	for _, b := range allProcesses() {
		if b.pid == os.Getpid() {
			continue
		}
		at := fmt.Sprintf("/proc/%d/", b.pid)
		arguments, _ := os.ReadFile(at + "cmdline") // unreadable if it is another user's
		environ, _ := os.ReadFile(at + "environ")
		directory, _ := os.Readlink(at + "cwd")
		if bytes.Contains(arguments, []byte(folder)) || bytes.Contains(environ, []byte(folder)) || strings.HasPrefix(directory, folder) {
			list = append(list, b)
		}
	}
	return list
}
