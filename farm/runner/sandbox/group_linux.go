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

// A group is the control groups of one job: one folder in version 2, or one per controller in
// version 1. A nil group limits nothing.
type group struct {
	folders   []string
	killFile  bool   // whether cgroup.kill kills all processes, as in version 2
	events    string // file with the number of OOM kills; "" if memory is not limited
	processes string // file with the limit of processes; "" if they are not limited
}

// A hierarchy has the folders in which control groups of jobs can be created.
type hierarchy struct {
	v2                string // in version 2, "" if there is none
	memory, cpu, pids string // in version 1, "" if there are none
}

// ownHierarchy finds the hierarchy of this process once.
var ownHierarchy = sync.OnceValue(func() hierarchy { return findHierarchy("/proc/self/cgroup", "/proc/self/mountinfo") })

// findHierarchy returns the folders below which this process may create groups.
func findHierarchy(cgroups, mounts string) (h hierarchy) {
	own := map[string]string{} // this process's group by controller; "" for version 2
	text, _ := os.ReadFile(cgroups)
	for line := range strings.Lines(string(text)) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			for name := range strings.SplitSeq(f[1], ",") {
				own[name] = f[2]
			}
		}
	}
	for _, m := range groupMounts(mounts) {
		if m.version == 2 && h.v2 == "" {
			h.v2 = delegate(filepath.Join(m.at, own[""]))
			continue
		}
		for name := range strings.SplitSeq(m.options, ",") {
			dir := filepath.Join(m.at, own[name])
			switch {
			case name == "memory" && writable(dir):
				h.memory = dir
			case name == "cpu" && writable(dir):
				h.cpu = dir
			case name == "pids" && writable(dir):
				h.pids = dir
			}
		}
	}
	return h
}

type groupMount struct {
	at, options string
	version     int
}

// groupMounts returns the mounts of control groups in a mountinfo file.
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

// delegate prepares the version 2 group dir, which has this process and its children, for groups
// below it. Since the kernel does not allow processes in an inner group, they are moved to a child
// group. It returns "" if the controllers are missing or permission is denied.
func delegate(dir string) string {
	offered, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil || !bytes.Contains(offered, []byte("memory")) || dir == "/sys/fs/cgroup" {
		return ""
	}
	if filepath.Base(dir) == "supervisor" { // moved there already, by this process or its parent
		return filepath.Dir(dir)
	}
	own := filepath.Join(dir, "supervisor")
	if err := os.Mkdir(own, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return ""
	}
	pids, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	for pid := range strings.FieldsSeq(string(pids)) {
		if writeSetting(own, "cgroup.procs", pid) != nil {
			return ""
		}
	}
	if writeSetting(dir, "cgroup.subtree_control", "+memory +cpu +pids") != nil {
		return ""
	}
	return dir
}

func writeSetting(dir, file, text string) error {
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil { //nolint:gosec // a group of a job
		return fmt.Errorf("control group: %w", err)
	}
	return nil
}

// Prepare moves this process so that control groups can be created for jobs, and describes how
// memory, processors and processes of a job are limited.
func Prepare() string { return ownHierarchy().describe(os.Geteuid() == 0) }

func (h hierarchy) describe(root bool) string {
	if h.v2 != "" {
		return "control groups, version 2"
	}
	memory, cpus := "memory of each process alone (RLIMIT_DATA)", "processors are not limited"
	processes := "processes of all jobs together (RLIMIT_NPROC)"
	if root {
		processes = "the number of processes is not limited"
	}
	if h.memory != "" {
		memory = "memory (control groups, version 1)"
	}
	if h.cpu != "" {
		cpus = "processors (control groups, version 1)"
	}
	if h.pids != "" {
		processes = "processes (control groups, version 1)"
	}
	return memory + ", " + cpus + ", " + processes
}

func newGroup(name string, l Limits) *group { return ownHierarchy().newGroup(name, l) }

const groupPrefix = "svc-job-"

// leftover returns the groups that a job may have left.
func (h hierarchy) leftover(name string) *group {
	g := &group{killFile: h.v2 != ""}
	for _, dir := range []string{h.v2, h.memory, h.cpu, h.pids} {
		if dir != "" {
			g.folders = append(g.folders, filepath.Join(dir, groupPrefix+name))
		}
	}
	if h.pids != "" {
		g.processes = filepath.Join(h.pids, groupPrefix+name, "pids.max")
	}
	return g
}

// newGroup creates the groups of a job, by which it is also killed. It returns nil if that fails.
func (h hierarchy) newGroup(name string, l Limits) *group {
	const period = 100_000 // microseconds
	g := &group{killFile: h.v2 != ""}
	name = groupPrefix + name
	quota, processes := bytesOf(int64(l.CPUs*period), "max"), bytesOf(int64(l.Processes), "max")
	var err error
	add := func(in string, settings map[string]string) string {
		dir := filepath.Join(in, name)
		if in != "" && err == nil {
			err = g.add(dir, settings)
		}
		return dir
	}
	if h.v2 != "" {
		dir := add(h.v2, map[string]string{
			"memory.max": bytesOf(l.MemoryBytes, "max"), "memory.swap.max": "0",
			"cpu.max": fmt.Sprintf("%s %d", quota, period), "pids.max": processes,
		})
		g.events, g.processes = filepath.Join(dir, "memory.events"), filepath.Join(dir, "pids.max")
	}
	if h.memory != "" {
		dir := add(h.memory, map[string]string{"memory.limit_in_bytes": bytesOf(l.MemoryBytes, "-1")})
		g.events = filepath.Join(dir, "memory.oom_control")
	}
	if h.cpu != "" && l.CPUs > 0 {
		add(h.cpu, map[string]string{"cpu.cfs_quota_us": quota})
	}
	if h.pids != "" {
		g.processes = filepath.Join(add(h.pids, map[string]string{"pids.max": processes}), "pids.max")
	}
	if err != nil || len(g.folders) == 0 {
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
		if err := writeSetting(dir, file, text); err != nil && file != "memory.swap.max" { // the machine may have no swap
			return err
		}
	}
	return nil
}

// files returns the files through which a process enters the groups.
func (g *group) files() (list []string) {
	if g == nil {
		return nil
	}
	for _, dir := range g.folders {
		list = append(list, filepath.Join(dir, "cgroup.procs"))
	}
	return list
}

// kills returns how many processes were killed for lack of memory.
func (g *group) kills() int {
	if g == nil {
		return 0
	}
	text, _ := os.ReadFile(g.events)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "oom_kill" {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	return 0
}

// kill kills all processes in the groups. It reports whether none is left.
func (g *group) kill() bool {
	if g == nil {
		return true
	}
	if !g.killFile && g.processes != "" { // so that none forks meanwhile
		dir, file := filepath.Split(g.processes)
		if before, err := os.ReadFile(g.processes); err == nil {
			_ = writeSetting(dir, file, "0")
			defer func() { _ = writeSetting(dir, file, strings.TrimSpace(string(before))) }() // the next step forks again
		}
	}
	for late := time.Now().Add(killTimeout); time.Now().Before(late); time.Sleep(killPause) {
		left := false
		for _, dir := range g.folders {
			left = killGroup(dir, g.killFile) || left
		}
		if !left {
			return true
		}
	}
	return false
}

// killGroup kills the processes in a group and in those below it, which a job with the right to do
// so may have made. It reports whether there were any.
func killGroup(dir string, killFile bool) (found bool) {
	if killFile {
		_ = writeSetting(dir, "cgroup.kill", "1") // the rest is for kernels before 5.14
	}
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // it is gone
		}
		pids, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for pid := range strings.FieldsSeq(string(pids)) {
			if n, err := strconv.Atoi(pid); err == nil && n > 1 && n != os.Getpid() {
				found = true
				_ = syscall.Kill(n, syscall.SIGKILL) // it may have ended
			}
		}
		return nil
	})
	return found
}

// remove kills the processes in the groups and removes the groups.
func (g *group) remove() {
	if g == nil {
		return
	}
	g.kill()
	for _, dir := range g.folders {
		for late := time.Now().Add(killTimeout); time.Now().Before(late) && !removeGroup(dir); time.Sleep(killPause) {
			killGroup(dir, g.killFile)
		}
	}
}

// removeGroup removes a group and those below it, and reports whether it is gone.
func removeGroup(dir string) bool {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			removeGroup(filepath.Join(dir, e.Name()))
		}
	}
	err := syscall.Rmdir(dir)
	return err == nil || errors.Is(err, os.ErrNotExist)
}
