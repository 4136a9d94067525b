package rest

import (
	"log/slog"
	"net/http"

	"svc/http/reply"
	"svc/projections"
)

// A download is an answer that [http.ServeContent] writes: with the deadlines of a
// deadlineWriter, and with our body where it refuses.
type download struct {
	http.ResponseWriter
	request *http.Request
	log     *slog.Logger
	careful *deadlineWriter
	size    int64
	refused bool
	err     error // why it did not go on
}

func newDownload(w http.ResponseWriter, r *http.Request, log *slog.Logger, careful *deadlineWriter, a projections.JobArtifact) *download {
	return &download{ResponseWriter: w, request: r, log: log, careful: careful, size: a.Size}
}

// refuse answers an error instead.
func (d *download) refuse(err error) {
	d.refused = true
	reply.Error(d.ResponseWriter, d.request, d.log, err)
}

// WriteHeader puts our body in the place of a text.
func (d *download) WriteHeader(status int) {
	switch status {
	case http.StatusRequestedRangeNotSatisfiable:
		d.replace(status, "range_not_satisfiable", "This file has no such part.")
	case http.StatusPreconditionFailed:
		d.replace(status, "precondition_failed", "This file is not the one that was asked for.")
	default:
		d.ResponseWriter.WriteHeader(status)
	}
}

func (d *download) replace(status int, code, message string) {
	d.refused = true
	h := d.Header()
	for _, name := range []string{"Content-Disposition", "Content-Length", "ETag", "Last-Modified", "Cache-Control"} {
		h.Del(name)
	}
	reply.JSON(d.ResponseWriter, status, reply.Body{Code: code, Message: message, Details: map[string]any{"sizeBytes": d.size}})
}

// Write writes for a reader who is awake and may still read.
func (d *download) Write(b []byte) (n int, err error) {
	if d.refused || d.err != nil {
		return len(b), d.err
	}
	d.err = d.careful.put(b)
	if d.err != nil {
		return 0, d.err
	}
	return len(b), nil
}
