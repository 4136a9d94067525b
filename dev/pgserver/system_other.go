//go:build !linux

package pgserver

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// childAttributes puts a child into its own process group. Only Linux ends a child with its parent;
// elsewhere the next start on the folder does.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func isRunning(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }

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
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	out, _ := exec.CommandContext(ctx, name, args...).Output() // no output if there is no such process
	return string(out)
}
