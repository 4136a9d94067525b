package pgserver

import (
	"errors"
	"fmt"

	"svc/filelock"
)

// acquire takes the lock on a folder without waiting. If another process has it, the error contains
// its pid.
func acquire(path string) (*filelock.Lock, error) {
	l, err := filelock.Try(path)
	if held, ok := errors.AsType[*filelock.HeldError](err); ok {
		return nil, fmt.Errorf("the folder is in use by process %s", held.PID)
	}
	return l, err
}
