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

// A process is a row of /proc.
type process struct {
	pid, parent int
	dead        bool  // a zombie, which waits for its parent
	ticks       int64 // of processors that it and the children it has waited for have had
	pages       int64 // that it has in memory
}

// processes lists all that can be seen.
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

// readStat reads what stands behind the name, which may have anything in it.
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

// tick is the unit of time in /proc, which is the same on all architectures that Go knows.
const tick = 10 * time.Millisecond

// Usage is what the descendants of processes take at the moment, and have taken, by process.
func Usage(pids []int) map[int]Taken {
	children := map[int][]process{}
	for _, p := range processes() {
		children[p.parent] = append(children[p.parent], p)
	}
	all := map[int]Taken{}
	for _, pid := range pids {
		var sum Taken
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

// A relative is a living descendant, and by how many generations.
type relative struct{ pid, depth int }

// descendants lists the living descendants of root, nearer ones first.
func descendants(root int) []relative {
	children := map[int][]process{}
	for _, p := range processes() {
		children[p.parent] = append(children[p.parent], p)
	}
	var list []relative
	at := []relative{{root, 0}}
	for len(at) > 0 {
		r := at[0]
		at = at[1:]
		for _, c := range children[r.pid] {
			next := relative{c.pid, r.depth + 1}
			at = append(at, next)
			if !c.dead {
				list = append(list, next)
			}
		}
	}
	return list
}

// How long killing goes on, and between two looks: a killed process is gone when the
// kernel has freed its memory, and one that waits for a disk when that has answered.
const (
	killingLimit = 10 * time.Second
	killingPause = 5 * time.Millisecond
)

// killDescendants kills all descendants of root until there is none. Each is stopped
// first, so that none makes another while they are counted. It reports whether none is left.
func killDescendants(root int) bool {
	for late := time.Now().Add(killingLimit); time.Now().Before(late); {
		stopped := map[int]bool{}
		for range 100 { // generations that come faster than that are killed in the next turn
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
			_ = syscall.Kill(pid, syscall.SIGKILL) // the same
		}
		time.Sleep(killingPause)
	}
	return false
}

// terminate asks the descendants of root to end, from that generation on, and reports
// whether there was one.
func terminate(root, from int) (found bool) {
	for _, r := range descendants(root) {
		if r.depth >= from {
			found = true
			_ = syscall.Kill(r.pid, syscall.SIGTERM) // it may have ended
		}
	}
	return found
}

// Sweep kills what is left of a job whose runner was killed: processes of this user that
// have the job's [Marker] among their variables, and those in its control groups. It
// returns how many of the former there were.
func Sweep(name string) (n int) {
	defer mayGroup().left(name).remove()
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
		time.Sleep(killingPause)
	}
	return n
}
