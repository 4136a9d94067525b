package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A process is an entry of /proc.
type process struct {
	pid, parent int
	dead        bool  // a zombie
	ticks       int64 // processor time of the process and of the children it has waited for
	pages       int64 // resident pages
}

// processes returns all visible processes.
func processes() []process {
	entries, _ := os.ReadDir("/proc")
	list := make([]process, 0, len(entries))
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, ok := readStat(pid); ok {
				list = append(list, p)
			}
		}
	}
	return list
}

// readStat parses the stat file from behind the program's name, which may contain anything.
func readStat(pid int) (process, bool) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 22 {
		return process{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	p := process{pid: pid, parent: parent, dead: fields[0] == "Z" || fields[0] == "X"}
	for _, f := range fields[11:15] { // utime, stime, cutime, cstime
		n, _ := strconv.ParseInt(f, 10, 64)
		p.ticks += n
	}
	p.pages, _ = strconv.ParseInt(fields[21], 10, 64)
	return p, err == nil
}

// tick is the unit of time in /proc, the same on all architectures that Go supports.
const tick = 10 * time.Millisecond

// Usage returns the resource usage of the descendants of each process.
func Usage(pids []int) map[int]Resources {
	children := map[int][]process{}
	for _, p := range processes() {
		children[p.parent] = append(children[p.parent], p)
	}
	all := map[int]Resources{}
	for _, pid := range pids {
		var sum Resources
		for at := []int{pid}; len(at) > 0; {
			next := children[at[0]]
			at = at[1:]
			for _, c := range next {
				at = append(at, c.pid)
				sum.CPU += time.Duration(c.ticks) * tick
				sum.RSS += c.pages * int64(os.Getpagesize())
			}
		}
		all[pid] = sum
	}
	return all
}

// A descendant is a living descendant of a process, depth generations below it.
type descendant struct{ pid, depth int }

// descendants returns the living descendants of root, in order of depth.
func descendants(root int) []descendant {
	children := map[int][]process{}
	for _, p := range processes() {
		children[p.parent] = append(children[p.parent], p)
	}
	var list []descendant
	at := []descendant{{root, 0}}
	for len(at) > 0 {
		r := at[0]
		at = at[1:]
		for _, c := range children[r.pid] {
			next := descendant{c.pid, r.depth + 1}
			at = append(at, next)
			if !c.dead {
				list = append(list, next)
			}
		}
	}
	return list
}

// Timeout of killing, and the pause between two rounds. A killed process is gone only when the kernel
// has freed its memory, and one that waits for a disk when that has answered.
const (
	killTimeout = 10 * time.Second
	killPause   = 5 * time.Millisecond
)

// killDescendants kills all descendants of root, and reports whether none is left. Each is stopped
// first, so that none forks while they are listed.
func killDescendants(root int) bool {
	for late := time.Now().Add(killTimeout); time.Now().Before(late); {
		stopped := map[int]bool{}
		for range 100 { // if processes fork faster than that, the next round kills them
			found := false
			for _, r := range descendants(root) {
				if !stopped[r.pid] {
					stopped[r.pid], found = true, true
					_ = syscall.Kill(r.pid, syscall.SIGSTOP) // it may have ended
				}
			}
			if !found {
				break
			}
		}
		if len(stopped) == 0 {
			return true
		}
		for pid := range stopped {
			_ = syscall.Kill(pid, syscall.SIGKILL) // as above
		}
		time.Sleep(killPause)
	}
	return false
}

// terminate sends SIGTERM to the descendants of root from a generation on, and reports whether
// there were any.
func terminate(root, from int) (found bool) {
	for _, r := range descendants(root) {
		if r.depth >= from {
			found = true
			_ = syscall.Kill(r.pid, syscall.SIGTERM) // it may have ended
		}
	}
	return found
}

// Sweep kills what is left of a job whose runner was killed: processes of this user with the job's
// [Marker], and those in its control groups. It returns the number of the former. [Children] kills
// what is in neither.
func Sweep(name string) (n int) {
	defer ownHierarchy().leftover(name).remove()
	want := []byte(Marker + "=" + name + "\x00")
	for range 100 {
		found := false
		for _, p := range processes() {
			env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "environ"))
			if err != nil || p.dead || p.pid == os.Getpid() || !bytes.Contains(append(env, 0), want) {
				continue
			}
			if syscall.Kill(p.pid, syscall.SIGKILL) == nil {
				found = true
				n++
			}
		}
		if !found {
			break
		}
		time.Sleep(killPause)
	}
	return n
}
