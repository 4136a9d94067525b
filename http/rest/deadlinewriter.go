package rest

import (
	"net/http"
	"time"
)

// portion is how many bytes are written under one deadline.
const portion = 16 << 10

// A deadlineWriter writes for a reader who may be slow but not asleep: each
// portion has to be taken within the patience. Before each it asks still, if
// there is one, which ends the writing by its error.
type deadlineWriter struct {
	w          http.ResponseWriter
	controller *http.ResponseController
	patience   time.Duration
	still      func() error
}

// write writes text and flushes it.
func (d *deadlineWriter) write(text []byte) error {
	if err := d.put(text); err != nil {
		return err
	}
	if err := d.extend(); err != nil {
		return err
	}
	return d.controller.Flush()
}

// put writes text.
func (d *deadlineWriter) put(text []byte) error {
	for len(text) > 0 {
		n := min(portion, len(text))
		if d.still != nil {
			if err := d.still(); err != nil {
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
	return d.controller.SetWriteDeadline(time.Now().Add(d.patience))
}
