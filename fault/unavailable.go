package fault

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
)

// IsUnavailable reports whether err means that something the service depends on does not
// answer, so that a retry may succeed later: the connection could not be made, broke or
// timed out, the database does not accept the service's login, is starting, stopping or short of
// resources, or a lock was not granted in time.
func IsUnavailable(err error) bool {
	if f := As(err); f != nil {
		return f.Kind == Busy || f.Kind == Unavailable
	}
	if state, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		class := state.SQLState()
		return strings.HasPrefix(class, "08") || strings.HasPrefix(class, "57P") || strings.HasPrefix(class, "53") ||
			strings.HasPrefix(class, "28") || class == "3D000" || // a login, or a database, that there is not
			class == "55P03" || class == "57014" || // a lock or statement timeout
			class == "40P01" || // the victim of a deadlock
			class == "40001" // a replica cancelled a read to keep up; nothing of ours is serializable otherwise
	}
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "conn closed") // pgx's error for a connection that broke before
}
