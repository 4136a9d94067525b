package fault

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
)

// Away reports whether err says that something we depend on does not
// answer, so that the same request may succeed later: the connection could not
// be made, broke, or took too long, or the database is starting or stopping.
func Away(err error) bool {
	if f := As(err); f != nil {
		return f.Kind == Busy || f.Kind == Unavailable
	}
	if state, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		class := state.SQLState()
		return strings.HasPrefix(class, "08") || strings.HasPrefix(class, "57P") || strings.HasPrefix(class, "53") ||
			class == "55P03" || class == "57014" || // a lock, or more, took too long
			class == "40P01" || // of two who waited for each other this one gave way
			class == "40001" // a replica that gives up a read for the sake of keeping up; nothing else of ours is serializable
	}
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "conn closed") // what pgx calls a connection that broke before
}
