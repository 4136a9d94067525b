package farm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"svc/farm/artifacts"
	"svc/fault"
)

const (
	partTimeout  = 2 * time.Minute // for each read of a body
	recheckEvery = time.Second     // interval of checking the runner's state
	partHeader   = 16 << 10        // bytes; limit of a part's header
	maxBoundary  = 70              // characters
	tailBytes    = maxBoundary + 64

	// bodyBuffer is the size of reads of headers and the manifest; chunks are read in larger blocks. Each
	// read sets a deadline and is a system call.
	bodyBuffer = 64 << 10
)

// errNotMultipart refuses a body that is not multipart/form-data.
var errNotMultipart = fault.New(fault.UnsupportedMedia, "unsupported_media_type",
	"Send the body as multipart/form-data, and not compressed.")

// An uploadBody reads the body of an upload, with a deadline for each read. Reading ends when the
// runner loses its rights, or the context of watch ends.
type uploadBody struct {
	body    io.Reader
	control *http.ResponseController
	recheck func() error
	checked time.Time
	ended   atomic.Pointer[error] // why the context of watch ended

	terminator []byte // closing delimiter, with which a complete body ends
	tail       []byte // last bytes read
	refusal    error  // error of recheck, to be answered
	readErr    error  // error of reading the connection or parsing the form
}

// newUploadBody returns the body of a request, and a reader of its parts.
func newUploadBody(
	w http.ResponseWriter, r *http.Request, recheck func() error,
) (*uploadBody, *partReader, error) {
	media, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	boundary := parameters["boundary"]
	coding := strings.Join(r.Header.Values("Content-Encoding"), ",")
	if err != nil || media != "multipart/form-data" || boundary == "" || len(boundary) > maxBoundary ||
		coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, nil, errNotMultipart
	}
	b := &uploadBody{
		body: r.Body, control: http.NewResponseController(w), recheck: recheck, checked: time.Now(), terminator: []byte("--" + boundary + "--"),
	}
	return b, &partReader{r: bufio.NewReaderSize(b, bodyBuffer), delimiter: "--" + boundary}, nil
}

// watch makes reads fail once ctx ends, also a blocked one. The caller must call stop before it writes
// the answer.
func (b *uploadBody) watch(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		err := ctx.Err()
		b.ended.Store(&err)
		_ = b.control.SetReadDeadline(time.Now())
	})
}

// Read reads the body from the connection.
func (b *uploadBody) Read(p []byte) (int, error) {
	if err := b.recheckRights(); err != nil {
		b.refusal = err
		return 0, err
	}
	_ = b.control.SetReadDeadline(time.Now().Add(partTimeout)) // fails only if the connection is gone
	n, err := 0, b.endError()                                  // it may have ended before the deadline was set
	if err == nil {
		n, err = b.body.Read(p)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.readErr = err
	}
	b.tail = append(b.tail, p[max(0, n-tailBytes):n]...)
	b.tail = b.tail[max(0, len(b.tail)-tailBytes):]
	return n, err
}

// recheckRights checks once a second whether the runner is still admitted.
func (b *uploadBody) recheckRights() error {
	if time.Since(b.checked) < recheckEvery {
		return nil
	}
	b.checked = time.Now()
	return b.recheck()
}

// endError returns the error of the context of watch if that has ended, or nil.
func (b *uploadBody) endError() error {
	if err := b.ended.Load(); err != nil {
		return *err
	}
	return nil
}

// isComplete reports whether the last bytes read end a body.
func (b *uploadBody) isComplete() bool { return bytes.HasSuffix(bytes.TrimSpace(b.tail), b.terminator) }

// noteReadError records an error of reading the body. A truncated body may give an error of the
// parser only.
func (b *uploadBody) noteReadError(err error) error {
	if fault.As(err) == nil {
		b.readErr = err
	}
	return err
}

// toFault returns the error to answer to the runner. ctx is that of watch. stored is the number of stored bytes of its
// files.
func (b *uploadBody) toFault(ctx context.Context, err error, limit, stored int64) error {
	large, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case b.refusal != nil:
		return b.refusal
	case tooLarge:
		return artifacts.ErrTooLarge.With("limitBytes", limit).With("receivedBytes", large.Limit)
	case ctx.Err() != nil: // whatever error that caused, such as one of the store
	case errors.Is(err, artifacts.ErrIncomplete):
	case fault.As(err) != nil || b.readErr == nil:
		return err
	}
	return fmt.Errorf("%w: %w", artifacts.ErrIncomplete.With("stored", stored), err)
}
