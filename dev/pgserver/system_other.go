//go:build !linux

package pgserver

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// childAttributes make a child a process group of its own. Nothing but Linux
// ends a child with its parent: elsewhere the next start on the folder does.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func alive(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }

func children(pid int) []int {
	var found []int
	for _, word := range strings.Fields(run("pgrep", "-P", strconv.Itoa(pid))) {
		if child, err := strconv.Atoi(word); err == nil {
			found = append(found, child)
		}
	}
	return found
}

func commandLine(pid int) string { return run("ps", "-p", strconv.Itoa(pid), "-o", "args=") }

func run(name string, args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), killLimit)
	defer cancel()
	out, _ := exec.CommandContext(ctx, name, args...).Output() // no such process is no output
	return string(out)
}
