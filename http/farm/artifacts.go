package farm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/farm/artifacts"
	"svc/fault"
	"svc/http/fair"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/http/reply"
)

const (
	uploadTimeout = events.ArtifactUploadWindow // of one request
	uploadFraming = 4 << 20                     // bytes of a body besides files: the manifest and part headers
	commitEvery   = 64                          // complete files per event
	commitTimeout = 30 * time.Second
)

var errArtifactsFull = fault.New(fault.RateLimited, "artifact_volume_exceeded",
	"The artifacts of this workspace's jobs, or of those that the same person or service account submitted, "+
		"in the last 24 hours are too large together.")

func newUploads() *fair.Semaphore {
	return fair.New(fair.Bound{
		Name: "uploads", Slots: 64, PerCaller: 8,
		Queue: 64, Wait: 10 * time.Second, Retry: 5 * time.Second,
	})
}

func (s *Server) artifactRoutes() []openapi.Mounted {
	return []openapi.Mounted{{Operation: openapi.Operation{
		Method: "POST", Path: prefix + "/jobs/{id}/artifacts", Guard: s.Admit(math.MaxInt64),
		Limits: middleware.Limits{Body: s.ArtifactMaxJobBytes + uploadFraming, Time: uploadTimeout},
		ID:     "uploadArtifacts", Tag: "Build farm", Summary: "Upload a job's artifacts",
		Description: "The runner that had a job sends the files that it left, within an hour of its " +
			"end. The first part, `manifest`, declares all of them, " +
			"and stays the same however often the upload is taken up again; " +
			"each other part is a chunk, named `<file>.<chunk>` after the id of its " +
			"file and its number, from 0, with `chunkBytes` bytes but for the last. A request " +
			"with the manifest alone answers what is missing, which " +
			"may be sent to any replica. A file is there for readers once all of it has come and its digest was checked. A second request for the " +
			"same job ends the first one.\n\n" + forRunners,
		Faults: append(commonFaults(), ErrCertificateRequired, errRunnerSuspended, errRunnerRevoked, errRunnerRetired, errWorkspaceGone,
			farm.ErrNoJob,
			farm.ErrJobNotOwner, farm.ErrJobNotFinished, farm.ErrArtifactsClosed, artifacts.ErrTooLarge,
			errArtifactsFull, errNotMultipart, artifacts.ErrDigest, artifacts.ErrIncomplete, artifacts.ErrStore, commands.ErrOutcomeUnknown),
		Security: certificateSecurity, Body: describeUpload(), Answer: describeUploaded, AnswerExample: exampleUploaded,
	}, Handler: openapi.Handle(s.uploadArtifacts)}}
}

type uploadPath struct {
	ID string `path:"id" maxLength:"64" doc:"The job's id."`
}

// An uploaded is the answer to an upload: its progress.
type uploaded struct {
	State         string         `json:"state" enum:"partial,complete"`
	Files         []uploadedFile `json:"files" nullable:"false"`
	ReceivedBytes int64          `json:"receivedBytes"`
	LimitBytes    int64          `json:"limitBytes" doc:"That the files of a job may have together."`
}

type uploadedFile struct {
	ID       string  `json:"id" doc:"As in the manifest." example:"f1"`
	Artifact string  `json:"artifactId" format:"uuid"`
	State    string  `json:"state" enum:"missing,partial,complete"`
	Missing  []int64 `json:"missing" nullable:"false" doc:"Numbers of the chunks that have not come."`
}

// uploadArtifacts returns a stream, since the body is processed while it is read.
func (s *Server) uploadArtifacts(ctx context.Context, in *uploadPath) (*huma.StreamResponse, error) {
	runner := RunnerOf(ctx)
	return openapi.Stream(func(w http.ResponseWriter, r *http.Request) {
		out, err := s.upload(w, r, runner, in.ID)
		if err != nil {
			reply.Error(w, r, s.Log, err)
			return
		}
		reply.JSON(w, http.StatusOK, out)
	}), nil
}

// An upload is the state of one request.
type upload struct {
	server   *Server
	runner   *Runner
	job      artifacts.Job
	body     *uploadBody
	parts    *partReader
	progress *artifacts.Upload
	recorded int   // number of complete files that the log has
	position int64 // of the log after the last command of the request
}

func (s *Server) upload(w http.ResponseWriter, r *http.Request, runner *Runner, job string) (*uploaded, error) {
	id, err := events.ParseID(job)
	switch limit := s.ArtifactMaxJobBytes; {
	case err != nil:
		return nil, farm.ErrNoJob
	case r.ContentLength > limit+uploadFraming:
		return nil, artifacts.ErrTooLarge.With("limitBytes", limit).With("declaredBytes", r.ContentLength)
	case s.Artifacts == nil:
		return nil, artifacts.ErrStore
	}
	slot, err := s.uploads.Acquire(r.Context(), fair.Holder{Caller: runner.ID, Workspace: runner.Workspace})
	if err != nil {
		return nil, err
	}
	defer slot.Release()
	ctx, done := s.takeover.begin(r.Context(), runner.ID, id)
	defer done()
	u := &upload{server: s, runner: runner, job: artifacts.Job{Workspace: runner.Workspace, ID: id}}
	u.body, u.parts, err = newUploadBody(w, r, func() error { return u.checkRunner(ctx) })
	if err != nil {
		return nil, err
	}
	stop := u.body.watch(ctx)
	err = u.receive(ctx)
	stop()
	if err != nil {
		return nil, u.body.toFault(ctx, err, s.ArtifactMaxJobBytes, u.stored())
	}
	w.Header().Set("X-Svc-Position", strconv.FormatInt(u.position, 10))
	return u.report(), nil
}

// receive stores the manifest and the chunks. Complete files are recorded in the log even if
// receive ends with an error, such as a lost connection.
func (u *upload) receive(ctx context.Context) error {
	if err := u.begin(ctx); err != nil {
		return err
	}
	err := u.chunks(ctx)
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	return cmp.Or(err, u.progress.Finish(within), u.commit(within))
}

// begin reads the manifest, declares its files and finds what is stored already.
func (u *upload) begin(ctx context.Context) error {
	name, err := u.parts.next()
	switch {
	case errors.Is(err, io.EOF), err == nil && name != "manifest":
		return fault.Field("manifest", "must be the first part")
	case err != nil:
		return u.body.noteReadError(err)
	}
	text, err := u.parts.small(artifacts.MaxManifest)
	if err != nil {
		return u.body.noteReadError(err)
	}
	manifest, err := artifacts.ReadManifest(bytes.NewReader(text), u.server.ArtifactMaxJobBytes)
	if err != nil {
		return err
	}
	u.job.Epoch = manifest.Epoch
	declare := commands.DeclareArtifacts{Meta: u.runner.Meta(), Job: u.job.ID, Runner: u.runner.ID, Epoch: u.job.Epoch}
	declare.Admit = func(ctx context.Context, submitter events.ID) error {
		return u.server.countArtifacts(ctx, u.job, submitter, declare.Files)
	}
	for _, a := range manifest.Artifacts(u.job) {
		declare.Files = append(declare.Files, events.JobArtifact{
			ID: a.ID, Name: a.Name, Path: a.Path, Size: a.Size, SHA256: a.SHA256, Mode: a.Mode,
		})
	}
	done, err := u.server.Commands.DeclareArtifacts(ctx, declare)
	if err != nil {
		return err
	}
	u.position = done.Position
	if u.progress, err = artifacts.Resume(ctx, u.server.Artifacts, u.job, manifest); err != nil {
		return err
	}
	return u.progress.SealComplete(ctx)
}

// countArtifacts counts the sizes of a job's files, once however often the runner has to try until they
// are declared.
func (s *Server) countArtifacts(ctx context.Context, job artifacts.Job, submitter events.ID, files []events.JobArtifact) error {
	var bytes int64
	for _, f := range files {
		bytes += f.Size
	}
	counted, _ := s.counted.Get(job)
	if bytes <= counted {
		return nil
	}
	if wait := s.ArtifactLimit.TakeShare(ctx, job.Workspace, submitter, int(bytes-counted)); wait > 0 {
		return errArtifactsFull.After(wait)
	}
	s.counted.Add(job, bytes)
	return nil
}

func (u *upload) chunks(ctx context.Context) error {
	for {
		name, err := u.parts.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return u.body.noteReadError(err)
		}
		size, err := u.progress.ChunkSize(name)
		if err == nil {
			err = u.receiveChunk(ctx, name, size)
		}
		if err == nil && len(u.progress.Sealed()) >= u.recorded+commitEvery {
			err = u.commit(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// receiveChunk stores a chunk. In a complete body, one that ends too early is shorter than declared.
func (u *upload) receiveChunk(ctx context.Context, name string, size int64) error {
	err := u.progress.Receive(ctx, name, u.parts.chunk(name, size))
	if errors.Is(err, io.ErrUnexpectedEOF) && u.body.isComplete() {
		return artifacts.ErrChunkLength(name)
	}
	return err
}

// commit records complete files in the log, which ignores those that it has already.
func (u *upload) commit(ctx context.Context) error {
	sealed := u.progress.Sealed()
	if len(sealed) == u.recorded {
		return nil
	}
	if err := u.checkRunner(ctx); err != nil {
		return err
	}
	store := commands.StoreArtifacts{Meta: u.runner.Meta(), Job: u.job.ID, Runner: u.runner.ID, Epoch: u.job.Epoch}
	for _, a := range sealed {
		store.Files = append(store.Files, a.ID)
	}
	done, err := u.server.Commands.StoreArtifacts(ctx, store)
	if err != nil {
		return err
	}
	u.position = done.Position
	u.recorded = len(sealed)
	return nil
}

// checkRunner returns an error if the runner has lost its rights: an upload may take longer than
// they last.
func (u *upload) checkRunner(ctx context.Context) error {
	h, err := u.server.Runners.Holder(ctx, u.runner.Workspace, u.runner.ID)
	switch {
	case err != nil:
		return err
	case h.State == nil:
		return ErrCertificateRequired
	}
	return stateError(*h.State)
}

// stored returns the number of stored bytes.
func (u *upload) stored() int64 {
	if u.progress == nil {
		return 0
	}
	return u.progress.Received()
}

func (u *upload) report() *uploaded {
	out := &uploaded{State: "complete", ReceivedBytes: u.progress.Received(), LimitBytes: u.server.ArtifactMaxJobBytes}
	for _, s := range u.progress.States() {
		f := uploadedFile{ID: s.File.ID, Artifact: s.Artifact.ID.String(), State: "complete", Missing: s.Missing}
		switch {
		case s.Complete:
		case s.Received == 0:
			f.State, out.State = "missing", "partial"
		default:
			f.State, out.State = "partial", "partial"
		}
		out.Files = append(out.Files, f)
	}
	return out
}
