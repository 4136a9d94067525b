//go:build !linux

package child

import "os/exec"

// killWithParent has no effect outside Linux.
func killWithParent(*exec.Cmd) {}
