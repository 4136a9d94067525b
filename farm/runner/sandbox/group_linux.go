package sandbox

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A group is the control groups of one job: a folder of version 2, or one for each
// controller of version 1. A nil group limits nothing.
type group struct {
	folders []string
	events  string // the file that counts what was killed for memory
	word    string // the word before the count
}

// A hierarchy is where groups of jobs are made.
type hierarchy struct {
	two         string // folder in version 2, or none
	memory, cpu string // folders in version 1, or none
}

// mayGroup finds out once where this process may make groups.
var mayGroup = sync.OnceValue(func() hierarchy { return findHierarchy("/proc/self/cgroup", "/proc/self/mountinfo") })

// findHierarchy reads where this process is, and takes the folder beneath which it may make groups.
func findHierarchy(cgroups, mounts string) (h hierarchy) {
	own := map[string]string{} // by controller; version 2 has none
	text, _ := os.ReadFile(cgroups)
	for line := range strings.Lines(string(text)) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			for name := range strings.SplitSeq(f[1], ",") {
				own[name] = f[2]
			}
		}
	}
	for _, m := range groupMounts(mounts) {
		if m.version == 2 && h.two == "" {
			h.two = delegate(filepath.Join(m.at, own[""]))
			continue
		}
		for name := range strings.SplitSeq(m.options, ",") {
			dir := filepath.Join(m.at, own[name])
			switch {
			case name == "memory" && writable(dir):
				h.memory = dir
			case name == "cpu" && writable(dir):
				h.cpu = dir
			}
		}
	}
	return h
}

type groupMount struct {
	at, options string
	version     int
}

// groupMounts finds the mounts of control groups.
func groupMounts(file string) (list []groupMount) {
	text, _ := os.ReadFile(file)
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 {
			continue
		}
		switch right[0] {
		case "cgroup2":
			list = append(list, groupMount{at: left[4], version: 2})
		case "cgroup":
			list = append(list, groupMount{at: left[4], options: right[2], version: 1})
		}
	}
	return list
}

func writable(dir string) bool { return syscall.Access(dir, 2) == nil }

// delegate makes dir, whose processes are this one and its children, one that has groups
// below it: the kernel wants its processes in one of them. It returns "" where the
// controllers are not there, or this process may not.
func delegate(dir string) string {
	offered, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil || !bytes.Contains(offered, []byte("memory")) || dir == "/sys/fs/cgroup" {
		return ""
	}
	if filepath.Base(dir) == "supervisor" { // a child, of the process that has moved there
		return filepath.Dir(dir)
	}
	own := filepath.Join(dir, "supervisor")
	if err := os.Mkdir(own, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return ""
	}
	pids, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	for pid := range strings.FieldsSeq(string(pids)) {
		if put(own, "cgroup.procs", pid) != nil {
			return ""
		}
	}
	if put(dir, "cgroup.subtree_control", "+memory +cpu +pids") != nil {
		return ""
	}
	return dir
}

func put(dir, file, text string) error {
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
		return fmt.Errorf("control group: %w", err)
	}
	return nil
}

// Prepare has this process take the place from which jobs get control groups, and tells
// how memory and processors of a job are limited.
func Prepare() string {
	switch h := mayGroup(); {
	case h.two != "":
		return "control groups, version 2"
	case h.memory != "":
		return "control groups, version 1"
	}
	return "memory of each process alone (RLIMIT_DATA); no control groups may be made"
}

func newGroup(name string, l Limits) *group { return mayGroup().group(name, l) }

const groupPrefix = "svc-job-"

// left names the groups that a job may have had.
func (h hierarchy) left(name string) *group {
	g := &group{}
	for _, dir := range []string{h.two, h.memory, h.cpu} {
		if dir != "" {
			g.folders = append(g.folders, filepath.Join(dir, groupPrefix+name))
		}
	}
	return g
}

// group makes the groups of a job. Where that fails there are none.
func (h hierarchy) group(name string, l Limits) *group {
	const period = 100_000 // microseconds
	g := &group{}
	var err error
	switch name = groupPrefix + name; {
	case l == Limits{}:
		return nil
	case h.two != "":
		g.events, g.word = "memory.events", "oom_kill"
		err = g.add(filepath.Join(h.two, name), map[string]string{
			"memory.max": bytesOf(l.MemoryBytes, "max"), "memory.swap.max": "0",
			"cpu.max": fmt.Sprintf("%s %d", bytesOf(int64(l.CPUs*period), "max"), period),
		})
	case h.memory != "":
		g.events, g.word = "memory.oom_control", "oom_kill"
		err = g.add(filepath.Join(h.memory, name), map[string]string{"memory.limit_in_bytes": bytesOf(l.MemoryBytes, "-1")})
		if h.cpu != "" && err == nil && l.CPUs > 0 {
			err = g.add(filepath.Join(h.cpu, name), map[string]string{"cpu.cfs_quota_us": bytesOf(int64(l.CPUs*period), "-1")})
		}
	default:
		return nil
	}
	if err != nil {
		g.remove()
		return nil
	}
	return g
}

func bytesOf(n int64, none string) string {
	if n <= 0 {
		return none
	}
	return strconv.FormatInt(n, 10)
}

func (g *group) add(dir string, settings map[string]string) error {
	if err := os.Mkdir(dir, 0o750); err != nil {
		return fmt.Errorf("make control group: %w", err)
	}
	g.folders = append(g.folders, dir)
	for file, text := range settings {
		if err := put(dir, file, text); err != nil && file != "memory.swap.max" { // there may be no swap
			return err
		}
	}
	return nil
}

// files are those by which a process enters.
func (g *group) files() (list []string) {
	if g == nil {
		return nil
	}
	for _, dir := range g.folders {
		list = append(list, filepath.Join(dir, "cgroup.procs"))
	}
	return list
}

// kills is how many processes were killed for memory.
func (g *group) kills() int {
	if g == nil {
		return 0
	}
	text, _ := os.ReadFile(filepath.Join(g.folders[0], g.events))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == g.word {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	return 0
}

// remove kills what is in the groups and removes them.
func (g *group) remove() {
	if g == nil {
		return
	}
	for _, dir := range g.folders {
		for late := time.Now().Add(killingLimit); time.Now().Before(late); time.Sleep(killingPause) {
			if err := syscall.Rmdir(dir); err == nil || errors.Is(err, os.ErrNotExist) {
				break
			}
			pids, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
			for pid := range strings.FieldsSeq(string(pids)) {
				if n, err := strconv.Atoi(pid); err == nil && n > 1 {
					_ = syscall.Kill(n, syscall.SIGKILL) // it may have ended
				}
			}
		}
	}
}
