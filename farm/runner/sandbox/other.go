//go:build !linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
)

// What a step leaves behind can be found on Linux alone, so that it is run nowhere else.
var errSystem = fmt.Errorf("sandboxes on another system than Linux: %w", errors.ErrUnsupported)

type group struct{}

func newGroup(string, Limits) *group { return nil }

func (*group) remove() {}

// Adopt makes this process the parent of orphans below it.
func Adopt() error { return errSystem }

// Init is a step's first process.
func Init([]string) int { return 127 }

// Sweep kills what is left of a job: nothing, as there was none.
func Sweep(string) int { return 0 }

// Usage is what the descendants of processes take: nobody knows.
func Usage([]int) map[int]Taken { return nil }

// Prepare tells how memory and processors of a job are limited.
func Prepare() string { return errSystem.Error() }

func (*Job) run(context.Context, context.Context, Command) (Result, error) {
	return Result{}, errSystem
}
