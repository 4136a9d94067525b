package rest

import "net/http"

// A download is the ResponseWriter for [http.ServeContent]. It writes through a deadlineWriter, while the client
// keeps reading and still has the right to.
type download struct {
	http.ResponseWriter
	writer *deadlineWriter
	err    error // the first failed write
}

// Write returns the first error of all writes.
func (d *download) Write(b []byte) (n int, err error) {
	if d.err == nil {
		d.err = d.writer.write(b)
	}
	if d.err != nil {
		return 0, d.err
	}
	return len(b), nil
}
