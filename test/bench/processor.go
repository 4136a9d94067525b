package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit in which Linux tells processor time to every program.
const tick = 10 * time.Millisecond

// processorTime is what this process, all that it started and all that those
// started have used so far, whether they still run or not: the service,
// PostgreSQL and who sends the load.
func processorTime() (time.Duration, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	own := map[int]process{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended, and whoever waited for it has its time
		}
		pid, p, err := parseStat(text)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		own[pid] = p
	}
	var sum time.Duration
	for pid := range own {
		if descends(own, pid, os.Getpid()) {
			sum += own[pid].used
		}
	}
	return sum, nil
}

// A process is what /proc/PID/stat says of one.
type process struct {
	parent int
	used   time.Duration // by itself, and by those that it has waited for
}

// descends reports whether pid is root, or was started by one that descends from it.
func descends(all map[int]process, pid, root int) bool {
	for pid != root {
		p, ok := all[pid]
		if !ok || pid == p.parent {
			return false
		}
		pid = p.parent
	}
	return true
}

// parseStat reads a line of proc(5): the name, in parentheses, may have any character.
func parseStat(text []byte) (pid int, p process, err error) {
	end := bytes.LastIndexByte(text, ')')
	before, _, ok := strings.Cut(string(text), " ")
	if end < 0 || !ok {
		return 0, p, errors.New("no name")
	}
	fields := strings.Fields(string(text[end+1:])) // from the third on
	if len(fields) < 15 {
		return 0, p, fmt.Errorf("%d fields", len(fields)+2)
	}
	pid, err1 := strconv.Atoi(before)
	parent, err2 := strconv.Atoi(fields[1])
	err = errors.Join(err1, err2)
	for _, field := range fields[11:15] { // utime, stime, cutime, cstime
		n, e := strconv.ParseInt(field, 10, 64)
		p.used, err = p.used+time.Duration(n)*tick, errors.Join(err, e)
	}
	p.parent = parent
	return pid, p, err
}
