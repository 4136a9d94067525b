package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"time"
)

// ErrUnavailable says that the engine did not say how a step ended: it cannot be reached, is too old
// for the step, or fell silent. The step may have had its effect, and can be asked for again.
var ErrUnavailable = errors.New("the engine is not available")

const (
	maxLineBytes  = 4 << 20  // of an answer to a step
	maxStepBytes  = 16 << 20 // of the whole answer
	silenceLimit  = 30 * time.Second
	maxErrorBytes = 64 << 10
)

// Error returns the sentence.
func (f *Failure) Error() string { return f.Code + ": " + f.Message }

// Do runs a step of a kind and decodes its result. It is [Client.Run] for the types of the kind.
func Do[In, Out any](
	ctx context.Context, c Client, kind Kind, step Step, in In, change io.Reader, progress func(string),
) (out Out, err error) {
	if step.Input, err = json.Marshal(in); err != nil {
		return out, fmt.Errorf("engine step %s: %w", kind, err)
	}
	result, err := c.Run(ctx, kind, step, change, progress)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(result, &out); err != nil {
		return out, fmt.Errorf("engine step %s: %w: the result: %w", kind, ErrUnavailable, err)
	}
	return out, nil
}

// Run runs a step and returns its result. The change, if there is one, is sent as it is read. Progress, if it is not
// nil, is called with what the engine does, whenever that changes.
//
// A step that fails has a [*Failure]. The error is [ErrKey] if the engine rejects the secret,
// [ErrUnavailable] if it is away or silent, that of ctx if ctx ended, and that of change if it could
// not be read.
func (c Client) Run(ctx context.Context, kind Kind, step Step, change io.Reader, progress func(string)) (json.RawMessage, error) {
	if step.Protocol == 0 {
		step.Protocol = Protocol
	}
	result, err := c.run(ctx, kind, step, change, progress)
	if err != nil {
		return nil, fmt.Errorf("engine step %s: %w", kind, err)
	}
	return result, nil
}

// errSilent ends a step whose engine neither takes its request nor writes lines.
var errSilent = errors.New("it was silent for too long")

func (c Client) run(caller context.Context, kind Kind, step Step, change io.Reader, progress func(string)) (json.RawMessage, error) {
	ctx, end := context.WithCancelCause(caller)
	defer end(nil)
	idle := time.AfterFunc(silenceLimit, func() { end(errSilent) })
	defer idle.Stop()
	alive := func() { idle.Reset(silenceLimit) }

	body, form := io.Pipe()
	contentType, sent := send(form, step, change, alive)
	defer func() {
		_ = body.CloseWithError(context.Canceled) // always nil
		<-sent
	}()
	path := c.URL.URL().JoinPath("internal/steps", string(kind)).String()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Authorization", "Bearer "+c.Secret.Reveal())
	res, err := c.patient().Do(req)
	if err != nil {
		return nil, outage(caller, ctx, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, refusal(res)
	}
	result, err := lines(res.Body, alive, progress)
	if _, failed := errors.AsType[*Failure](err); err != nil && !failed {
		return nil, outage(caller, ctx, err)
	}
	return result, err
}

// An uploadError says that the change could not be read.
type uploadError struct{ err error }

func (e *uploadError) Error() string { return "read the change: " + e.err.Error() }
func (e *uploadError) Unwrap() error { return e.err }

// send writes the form of a request in the background and closes sent at the end. It ends when the
// other end of the pipe is closed.
func send(form *io.PipeWriter, step Step, change io.Reader, alive func()) (contentType string, sent <-chan struct{}) {
	w, done := multipart.NewWriter(form), make(chan struct{})
	go func() {
		defer close(done)
		_ = form.CloseWithError(sendParts(w, step, change, alive)) // always nil
	}()
	return w.FormDataContentType(), done
}

func sendParts(w *multipart.Writer, step Step, change io.Reader, alive func()) error {
	part, err := w.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="step"`}, "Content-Type": {"application/json"},
	})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(part).Encode(step); err != nil {
		return err
	}
	if change != nil {
		part, err := w.CreateFormFile("change", "change.diff")
		if err != nil {
			return err
		}
		if _, err := io.Copy(part, &uploaded{change, alive}); err != nil {
			return err
		}
	}
	return w.Close()
}

// An uploaded reader marks its errors, so that they are told from those of the connection.
type uploaded struct {
	change io.Reader
	alive  func()
}

func (u *uploaded) Read(p []byte) (int, error) {
	n, err := u.change.Read(p)
	u.alive()
	if err != nil && !errors.Is(err, io.EOF) {
		err = &uploadError{err}
	}
	return n, err
}

// outage returns the error of a step whose end is unknown.
func outage(caller, ctx context.Context, err error) error {
	if upload, ok := errors.AsType[*uploadError](err); ok {
		return upload
	}
	if caller.Err() != nil {
		return caller.Err()
	}
	if errors.Is(context.Cause(ctx), errSilent) {
		err = errSilent
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// refusal returns the error of an answer that has no lines.
func refusal(res *http.Response) error {
	if res.StatusCode == http.StatusUnauthorized {
		return ErrKey
	}
	var body struct{ Code string }
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBytes))
	if json.Unmarshal(text, &body) != nil || body.Code == "" {
		return fmt.Errorf("%w: %s", ErrUnavailable, res.Status)
	}
	return fmt.Errorf("%w: %s: %s", ErrUnavailable, res.Status, body.Code)
}

// lines reads the answer to a step up to its last line.
func lines(body io.Reader, alive func(), progress func(string)) (json.RawMessage, error) {
	limited := &io.LimitedReader{R: body, N: maxStepBytes}
	scan := bufio.NewScanner(limited)
	scan.Buffer(nil, maxLineBytes)
	for last := ""; scan.Scan(); {
		alive()
		if len(bytes.TrimSpace(scan.Bytes())) == 0 {
			continue
		}
		var line Line
		if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("a line of the answer: %w", err)
		}
		switch {
		case line.Error != nil:
			return nil, line.Error
		case line.Result != nil:
			return bytes.Clone(line.Result), nil
		case line.Progress != "" && line.Progress != last && progress != nil:
			last = line.Progress
			progress(last)
		}
	}
	if err := scan.Err(); err != nil {
		return nil, err
	}
	return nil, io.ErrUnexpectedEOF
}

// patient returns the client without a limit for the whole of an answer: a step that goes on writes lines.
func (c Client) patient() *http.Client {
	h := *c.http()
	h.Timeout = 0
	h.CheckRedirect = defaultHTTP.CheckRedirect
	return &h
}
