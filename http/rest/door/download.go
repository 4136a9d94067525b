package door

import "net/http"

// A Download is the ResponseWriter for [http.ServeContent]. It writes through a DeadlineWriter, while the client
// keeps reading and still has the right to.
type Download struct {
	http.ResponseWriter
	writer *DeadlineWriter

	Err error // of the first write that failed
}

// NewDownload returns a Download; checkRights may be nil.
func NewDownload(w http.ResponseWriter, slowest Pace, checkRights func() error) *Download {
	return &Download{ResponseWriter: w, writer: NewDeadlineWriter(w, slowest, checkRights)}
}

// Write fails with the first error of all writes.
func (d *Download) Write(b []byte) (n int, err error) {
	if d.Err != nil {
		return 0, d.Err
	}
	n, d.Err = d.writer.Write(b)
	return n, d.Err
}
