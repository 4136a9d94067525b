package farm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"svc/farm/artifacts"
	"svc/fault"
)

const (
	partPatience = 2 * time.Minute // for the next bytes of a body
	recheckEvery = time.Second     // whether the runner still is one
	partHeader   = 16 << 10        // bytes of the header of a part
	maxBoundary  = 70              // characters
	tailBytes    = maxBoundary + 64

	// What is read of a connection at once: [multipart.Reader] asks for 4 KiB, and each
	// read sets a deadline and is a call of the system's.
	bodyBuffer = 64 << 10
)

// errNotMultipart refuses a body that has no parts.
var errNotMultipart = fault.New(fault.UnsupportedMedia, "unsupported_media_type",
	"Send the body as multipart/form-data, and not compressed.")

// An uploadBody is the body of an upload as it comes in. It waits for its runner as long as it may,
// and ends when the runner's rights do, or when ctx ends.
type uploadBody struct {
	ctx     context.Context // io.Reader has no room for it
	body    io.Reader
	buffer  *bufio.Reader // of arriving
	control *http.ResponseController
	still   func(context.Context) error
	checked time.Time

	close []byte // what the body ends with if all of it has come
	tail  []byte // what came last
	ended bool   // nothing comes after that

	header bool  // a part's header is being read, which is kept in memory
	room   int64 // for it
	why    error // the refusal that ended it
	broken error // what is wrong with what came
}

// newUploadBody returns the parts of a request.
func newUploadBody(
	ctx context.Context, w http.ResponseWriter, r *http.Request, still func(context.Context) error,
) (*uploadBody, *multipart.Reader, error) {
	media, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	boundary := parameters["boundary"]
	coding := strings.Join(r.Header.Values("Content-Encoding"), ",")
	if err != nil || media != "multipart/form-data" || boundary == "" || len(boundary) > maxBoundary ||
		coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, nil, errNotMultipart
	}
	b := &uploadBody{
		ctx: ctx, body: r.Body, control: http.NewResponseController(w), still: still, checked: time.Now(), close: []byte("--" + boundary + "--"),
	}
	b.buffer = bufio.NewReaderSize(arriving{b}, bodyBuffer)
	return b, multipart.NewReader(b, boundary), nil
}

// watch ends a Read that waits when ctx ends. Call stop before the answer is written.
func (b *uploadBody) watch() (stop func() bool) {
	return context.AfterFunc(b.ctx, func() { _ = b.control.SetReadDeadline(time.Now()) })
}

// Read reads on.
func (b *uploadBody) Read(p []byte) (int, error) {
	if b.header {
		if b.room <= 0 {
			b.why = fault.Field("part", "must have a header of 16 KiB or less")
			return 0, b.why
		}
		p = p[:min(int64(len(p)), b.room)]
	}
	n, err := b.buffer.Read(p)
	b.room -= int64(n)
	return n, err
}

// arriving is the body as it comes over the connection.
type arriving struct{ *uploadBody }

func (a arriving) Read(p []byte) (int, error) {
	b := a.uploadBody
	if err := b.admitted(); err != nil {
		b.why = err
		return 0, err
	}
	_ = b.control.SetReadDeadline(time.Now().Add(partPatience)) // only a connection that is gone refuses
	n, err := 0, b.ctx.Err()                                    // it may have ended before that
	if err == nil {
		n, err = b.body.Read(p)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.broken = err
	}
	b.tail = append(b.tail, p[max(0, n-tailBytes):n]...)
	b.tail = b.tail[max(0, len(b.tail)-tailBytes):]
	b.ended = b.ended || errors.Is(err, io.EOF)
	return n, err
}

// admitted looks each second whether the runner is still let in.
func (b *uploadBody) admitted() error {
	if time.Since(b.checked) < recheckEvery {
		return nil
	}
	b.checked = time.Now()
	return b.still(b.ctx)
}

// next returns the next part; io.EOF after the last.
func (b *uploadBody) next(parts *multipart.Reader) (*multipart.Part, error) {
	b.header, b.room = true, partHeader
	defer func() { b.header = false }()
	part, err := parts.NextRawPart()
	switch {
	case err == nil:
		return part, nil
	case err == io.EOF && (!b.ended || bytes.HasSuffix(bytes.TrimSpace(b.tail), b.close)):
		return nil, io.EOF
	}
	return nil, b.breaks(fmt.Errorf("next part: %v", err)) //nolint:errorlint // it is no EOF to whoever asks
}

// breaks notes an error of reading the body, which may have ended too soon without one of its own.
func (b *uploadBody) breaks(err error) error {
	if fault.As(err) == nil {
		b.broken = err
	}
	return err
}

// fault says what an error of an upload means to the runner. stored is how much of its
// files there is.
func (b *uploadBody) fault(err error, most, stored int64) error {
	large, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case b.why != nil:
		return b.why
	case tooLarge:
		return artifacts.ErrTooLarge.With("limitBytes", most).With("receivedBytes", large.Limit)
	case b.ctx.Err() != nil: // whatever that led to, such as a store that gave up
	case fault.As(err) != nil || b.broken == nil:
		return err
	}
	return fmt.Errorf("%w: %w", artifacts.ErrIncomplete.With("stored", stored), err)
}
