//go:build !linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
)

// errSystem is the error on all systems except Linux, where the processes that a step leaves cannot
// be found.
var errSystem = fmt.Errorf("sandboxes on another system than Linux: %w", errors.ErrUnsupported)

type group struct{}

func newGroup(string, Limits) *group { return nil }

func (*group) remove() {}

// Adopt returns an error: it is only supported on Linux.
func Adopt() error { return errSystem }

// Children are the processes that this process has started.
type Children struct{}

// Adopt returns an error: it is only supported on Linux.
func (*Children) Adopt() error { return errSystem }

// Start starts a command.
func (*Children) Start(cmd *exec.Cmd) error { return cmd.Start() }

// Wait waits for a command that was started by [Children.Start].
func (*Children) Wait(cmd *exec.Cmd) error { return cmd.Wait() }

// KillAdopted does nothing: there are no jobs.
func (*Children) KillAdopted() int { return 0 }

// Init fails: it is only supported on Linux.
func Init([]string) int { return 127 }

// Sweep does nothing: there are no jobs.
func Sweep(string) int { return 0 }

// Usage returns nil: it is only supported on Linux.
func Usage([]int) map[int]Resources { return nil }

// Prepare says that sandboxes are not supported.
func Prepare() string { return errSystem.Error() }

func (*Job) run(context.Context, context.Context, Command) (Result, error) {
	return Result{}, errSystem
}
