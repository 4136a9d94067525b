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

// clockTick is the unit of processor time in /proc/PID/stat.
const clockTick = 10 * time.Millisecond

// processorTime returns the processor time that this process and all its descendants have
// used so far, including those that have ended: the service, PostgreSQL and the load.
func processorTime() (time.Duration, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	own := map[int]process{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended; its parent has its time
		}
		pid, p, err := parseStat(text)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		own[pid] = p
	}
	var sum time.Duration
	for pid := range own {
		if isDescendant(own, pid, os.Getpid()) {
			sum += own[pid].cpuTime
		}
	}
	return sum, nil
}

// A process is an entry of /proc/PID/stat.
type process struct {
	parent  int
	cpuTime time.Duration // its own, and that of children it has waited for
}

// isDescendant reports whether pid is root or one of its descendants.
func isDescendant(all map[int]process, pid, root int) bool {
	for pid != root {
		p, ok := all[pid]
		if !ok || pid == p.parent {
			return false
		}
		pid = p.parent
	}
	return true
}

// parseStat parses /proc/PID/stat. The name, in parentheses, may contain any character.
func parseStat(text []byte) (pid int, p process, err error) {
	end := bytes.LastIndexByte(text, ')')
	before, _, ok := strings.Cut(string(text), " ")
	if end < 0 || !ok {
		return 0, p, errors.New("no name")
	}
	fields := strings.Fields(string(text[end+1:])) // from the third field on
	if len(fields) < 15 {
		return 0, p, fmt.Errorf("%d fields", len(fields)+2)
	}
	pid, err1 := strconv.Atoi(before)
	parent, err2 := strconv.Atoi(fields[1])
	err = errors.Join(err1, err2)
	for _, field := range fields[11:15] { // utime, stime, cutime, cstime
		n, e := strconv.ParseInt(field, 10, 64)
		p.cpuTime, err = p.cpuTime+time.Duration(n)*clockTick, errors.Join(err, e)
	}
	p.parent = parent
	return pid, p, err
}
