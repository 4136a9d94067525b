package rest

import (
	"net/http"
	"time"
)

// chunkSize is the number of bytes written under one deadline.
const chunkSize = 16 << 10

// A deadlineWriter fails when the client stops reading: each chunk has writeTimeout to be sent. Before
// each chunk it calls checkRights, if set, and fails with its error.
type deadlineWriter struct {
	w            http.ResponseWriter
	controller   *http.ResponseController
	writeTimeout time.Duration
	checkRights  func() error
}

func (d *deadlineWriter) writeAndFlush(text []byte) error {
	if err := d.write(text); err != nil {
		return err
	}
	if err := d.extend(); err != nil {
		return err
	}
	return d.controller.Flush()
}

func (d *deadlineWriter) write(text []byte) error {
	for len(text) > 0 {
		n := min(chunkSize, len(text))
		if d.checkRights != nil {
			if err := d.checkRights(); err != nil {
				return err
			}
		}
		if err := d.extend(); err != nil {
			return err
		}
		if _, err := d.w.Write(text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

func (d *deadlineWriter) extend() error {
	return d.controller.SetWriteDeadline(time.Now().Add(d.writeTimeout))
}
