package engine

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"time"

	"svc/engine/client"
	"svc/engine/git"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/reply"
	"svc/http/router"
)

const (
	maxStepJSON = 4 << 20
	maxLine     = 4 << 20
	writeLimit  = 30 * time.Second
	busySeconds = 2
)

// Errors of requests that are no steps.
var (
	errStep = fault.New(fault.NotFound, client.CodeStep, "The engine does not know this step. It may be older than its client.")
	errForm = fault.New(fault.Invalid, codeInput, "The request is not the form of a step.")
)

// route returns the route of steps.
func (s *Steps) route() router.Route {
	return router.Route{
		Method: http.MethodPost, Path: "/internal/steps/{kind}", Handler: http.HandlerFunc(s.serve),
		Limits: middleware.Limits{Body: maxStepJSON + git.MaxChange + 1<<20, Time: time.Hour, Stream: true},
	}
}

// serve answers a step with lines of [client.Line].
func (s *Steps) serve(w http.ResponseWriter, r *http.Request) {
	kind := client.Kind(r.PathValue("kind"))
	do, known := kinds[kind]
	if !known {
		reply.Error(w, r, s.log, errStep)
		return
	}
	request, form, err := readStep(r)
	if err != nil {
		reply.Error(w, r, s.log, errForm)
		return
	}
	began := time.Now()
	release := s.slots.take(r.Context(), request.Workspace, request.Repository.ID, request.Run != "")
	a := &answer{w: w, c: http.NewResponseController(w)}
	st, err := s.newStep(request)
	defer st.end()
	switch {
	case release == nil:
		err = &client.Failure{Class: client.Transient, Code: client.CodeBusy, Message: "The engine is busy.", RetryAfter: busySeconds}
	case err == nil:
		defer release()
		if err = st.receive(form, r.Body); err == nil {
			err = a.follow(r.Context(), st, do)
		}
	default:
		release()
	}
	outcome := "done"
	if err != nil {
		f := st.failure(err)
		outcome = f.Code
		switch {
		case r.Context().Err() != nil:
			outcome = "abandoned"
		case f.Code == client.CodeEngine:
			s.log.WarnContext(r.Context(), "step failed", "kind", string(kind), "repository", request.Repository.ID, "err", st.clean(err.Error()))
		}
		a.write(client.Line{Error: f}, st)
	}
	s.log.InfoContext(r.Context(), "step", "kind", string(kind), "repository", request.Repository.ID,
		"duration_ms", time.Since(began).Milliseconds(), "outcome", outcome)
}

// readStep reads the first part of a request's form.
func readStep(r *http.Request) (step client.Step, form *multipart.Reader, err error) {
	if form, err = r.MultipartReader(); err != nil {
		return step, nil, err
	}
	part, err := form.NextPart()
	if err != nil {
		return step, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(part, maxStepJSON+1))
	if err == nil && (part.FormName() != "step" || len(text) > maxStepJSON) {
		err = errForm
	}
	if err != nil {
		return step, nil, err
	}
	return step, form, json.Unmarshal(text, &step)
}

// receive reads the rest of the request, with the change if there is one. What is left of the body has to be read
// for the server to see that the client goes away.
func (s *step) receive(form *multipart.Reader, body io.Reader) error {
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, body)
			return err
		}
		if err != nil {
			return err
		}
		if part.FormName() == "change" && s.change == "" {
			if err := s.save(part); err != nil {
				return err
			}
		}
	}
}

// An answer is the answer to one step.
type answer struct {
	w       http.ResponseWriter
	c       *http.ResponseController
	started bool
	broken  error // the client no longer reads
}

// follow runs a step, and writes what it does and its result. It returns when the step has ended.
func (a *answer) follow(caller context.Context, s *step, do func(context.Context, *step) (any, error)) error {
	timed, end := context.WithTimeoutCause(caller, s.limit(), errTime)
	defer end()
	ctx, cancel := context.WithCancelCause(timed)
	defer cancel(nil)
	news, ended := make(chan string), make(chan error, 1)
	s.progress = func(text string) {
		select {
		case news <- text:
		case <-ctx.Done():
		}
	}
	var result any
	go func() {
		var err error
		result, err = do(ctx, s)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		ended <- err
	}()
	ticks := time.NewTicker(s.beat)
	defer ticks.Stop()
	for last := "started"; ; {
		a.progress(last, s)
		if a.broken != nil {
			cancel(a.broken)
		}
		select {
		case last = <-news:
		case <-ticks.C:
		case err := <-ended:
			if err != nil {
				return err
			}
			return a.result(result, s)
		}
	}
}

func (a *answer) progress(text string, s *step) { a.write(client.Line{Progress: text}, s) }

func (a *answer) result(result any, s *step) error {
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	if len(text) > maxLine-1024 {
		return fail(client.Permanent, client.CodeTooLarge, "The result of the step is too large.")
	}
	a.write(client.Line{Result: text}, s)
	return nil
}

// write writes a line without the step's credentials.
func (a *answer) write(line client.Line, s *step) {
	if a.broken != nil {
		return
	}
	text, err := json.Marshal(line)
	if err != nil {
		a.broken = err
		return
	}
	if !a.started {
		a.started = true
		a.w.Header().Set("Content-Type", "application/x-ndjson")
		a.w.WriteHeader(http.StatusOK)
	}
	_ = a.c.SetWriteDeadline(time.Now().Add(writeLimit))                       // fails only if the connection is gone
	if _, err := io.WriteString(a.w, s.clean(string(text))+"\n"); err != nil { //nolint:gosec // JSON for a program, not a page
		a.broken = err
		return
	}
	a.broken = a.c.Flush()
}
