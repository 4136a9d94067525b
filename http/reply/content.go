package reply

import (
	"io"
	"net/http"
	"time"

	"svc/fault"
)

// Errors of [ServeContent].
var (
	ErrContentRange   = fault.New(fault.OutOfRange, "range_not_satisfiable", "The file does not contain the requested range.")
	ErrContentChanged = fault.New(fault.Precondition, "precondition_failed", "The file does not match If-Match.")
)

// ServeContent is [http.ServeContent] for a file of size bytes, whose errors have the body of all others.
func ServeContent(w http.ResponseWriter, r *http.Request, size int64, modified time.Time, content io.ReadSeeker) {
	http.ServeContent(&contentWriter{ResponseWriter: w, size: size}, r, "", modified, content)
}

// A contentWriter replaces the text of errors.
type contentWriter struct {
	http.ResponseWriter
	size    int64
	refused bool
}

// Unwrap is for [http.ResponseController].
func (w *contentWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader writes the whole answer if it is an error.
func (w *contentWriter) WriteHeader(status int) {
	switch status {
	case http.StatusRequestedRangeNotSatisfiable:
		w.refuse(ErrContentRange)
	case http.StatusPreconditionFailed:
		w.refuse(ErrContentChanged)
	default:
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *contentWriter) refuse(f *fault.Fault) {
	w.refused = true
	for _, name := range []string{"Content-Disposition", "Content-Length", "Etag", "Last-Modified", "Cache-Control"} {
		w.Header().Del(name)
	}
	JSON(w.ResponseWriter, f.Kind.Status(), BodyOf(f.With("sizeBytes", w.size)))
}

func (w *contentWriter) Write(b []byte) (int, error) {
	if w.refused {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}
