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

// A being is a process for good: its number alone may be another's one day.
type being struct {
	pid, parent int
	born        string // in ticks since the machine started
}

func (b being) String() string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", b.pid)) // gone is empty
	return fmt.Sprintf("%d %s", b.pid, bytes.ReplaceAll(text, []byte{0}, []byte{' '}))
}

// look reads what the kernel says of a process. Its name, in parentheses, may
// hold anything. A zombie counts as gone, for in a container nobody may collect
// it, once the last of its threads has ended: until then its files are open, and
// its addresses taken.
func look(pid int) (being, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return being{}, false
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	parent, err := strconv.Atoi(fields[1])
	state, threads := fields[0], fields[17]
	gone := state == "X" || state == "Z" && threads <= "1"
	return being{pid, parent, fields[19]}, err == nil && !gone
}

func everybody() (list []being) {
	entries, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			continue
		}
		if b, ok := look(pid); ok {
			list = append(list, b)
		}
	}
	return list
}

// family returns a process and all its descendants.
func family(pid int) (list []being) {
	all := everybody()
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

// child returns the descendant of a process that runs a program of that name.
func child(t *testing.T, pid int, name string) being {
	t.Helper()
	for _, b := range family(pid) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", b.pid)) // gone is empty
		if program, _, _ := strings.Cut(string(text), "\x00"); filepath.Base(program) == name {
			return b
		}
	}
	require.FailNow(t, name+" does not run")
	return being{}
}

// requireGone waits until none of the processes is there any more, and none
// that has to do with a folder.
func requireGone(t *testing.T, list []being, folder string) {
	t.Helper()
	left := func() []being {
		still := mentioning(folder)
		for _, b := range list {
			if now, ok := look(b.pid); ok && now.born == b.born {
				still = append(still, b)
			}
		}
		return still
	}
	if !assert.Eventually(t, func() bool { return len(left()) == 0 }, patience, 20*time.Millisecond) {
		require.Empty(t, left(), "left behind")
	}
}

// mentioning returns the processes whose command line, environment or working
// directory names a folder.
func mentioning(folder string) (list []being) {
	for _, b := range everybody() {
		if b.pid == os.Getpid() {
			continue
		}
		at := fmt.Sprintf("/proc/%d/", b.pid)
		arguments, _ := os.ReadFile(at + "cmdline") // what cannot be read is another user's
		environ, _ := os.ReadFile(at + "environ")
		directory, _ := os.Readlink(at + "cwd")
		if bytes.Contains(arguments, []byte(folder)) || bytes.Contains(environ, []byte(folder)) || strings.HasPrefix(directory, folder) {
			list = append(list, b)
		}
	}
	return list
}
