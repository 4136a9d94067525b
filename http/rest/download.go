package rest

import (
	"log/slog"
	"net/http"

	"svc/fault"
	"svc/http/reply"
	"svc/projections"
)

// A download is the ResponseWriter for [http.ServeContent]. It writes through a deadlineWriter and
// replaces the text bodies of errors by our JSON.
type download struct {
	http.ResponseWriter
	request *http.Request
	log     *slog.Logger
	writer  *deadlineWriter
	size    int64
	refused bool
	err     error // the first failed write
}

func newDownload(w http.ResponseWriter, r *http.Request, log *slog.Logger, writer *deadlineWriter, a projections.JobArtifact) *download {
	return &download{ResponseWriter: w, request: r, log: log, writer: writer, size: a.Size}
}

// writeError answers with an error instead of the file.
func (d *download) writeError(err error) {
	d.refused = true
	reply.Error(d.ResponseWriter, d.request, d.log, err)
}

// WriteHeader writes our body for the statuses that http.ServeContent answers with a text.
func (d *download) WriteHeader(status int) {
	switch status {
	case http.StatusRequestedRangeNotSatisfiable:
		d.replaceBody(errNoFileRange)
	case http.StatusPreconditionFailed:
		d.replaceBody(errFileChanged)
	default:
		d.ResponseWriter.WriteHeader(status)
	}
}

func (d *download) replaceBody(f *fault.Fault) {
	d.refused = true
	h := d.Header()
	for _, name := range []string{"Content-Disposition", "Content-Length", "ETag", "Last-Modified", "Cache-Control"} {
		h.Del(name)
	}
	reply.JSON(d.ResponseWriter, f.Kind.Status(), reply.BodyOf(f.With("sizeBytes", d.size)))
}

// Write writes while the client keeps reading and still has the right to.
func (d *download) Write(b []byte) (n int, err error) {
	if d.refused || d.err != nil {
		return len(b), d.err
	}
	d.err = d.writer.write(b)
	if d.err != nil {
		return 0, d.err
	}
	return len(b), nil
}
