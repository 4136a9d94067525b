package farm

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"mime/multipart"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/farm/artifacts"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/http/quota"
	"svc/http/reply"
)

const (
	uploadLimit   = artifacts.Patience // for one request
	uploadFraming = 4 << 20            // bytes of a body that are no file's: the manifest, headers of parts
	commitEvery   = 64                 // files that are whole are told to the log together
	commitLimit   = 30 * time.Second
)

func newUploads() *quota.Semaphore {
	return quota.New(quota.Bound{
		Name: "uploads", Slots: 64, Caller: 8,
		Queue: 64, Wait: 10 * time.Second, Retry: 5 * time.Second,
	})
}

func (s *Server) artifactRoutes() []openapi.Mounted {
	return []openapi.Mounted{{Operation: openapi.Operation{
		Method: "POST", Path: prefix + "/jobs/{id}/artifacts", Guard: s.Admit(math.MaxInt64),
		Limits: middleware.Limits{Body: s.ArtifactMaxJobBytes + uploadFraming, Time: uploadLimit},
		ID:     "uploadArtifacts", Tag: "Build farm", Summary: "Upload a job's artifacts",
		Text: "The runner that had a job sends the files that it left, within an hour of its end. The first part, `manifest`, declares all of them, " +
			"and stays the same however often the upload is taken up again; each other part is a chunk, named `<file>.<chunk>` after the id of its " +
			"file and its number, from 0, with `chunkBytes` bytes but for the last. A request with the manifest alone answers what is missing, which " +
			"may be sent to any replica. A file is there for readers once all of it has come and its digest was checked. A second request for the " +
			"same job ends the first one.\n\n" + forRunners,
		Faults: append(common(), ErrCertificateRequired, errRunnerSuspended, errRunnerRevoked, errRunnerRetired, aggregates.ErrNoJob,
			aggregates.ErrJobNotOwner, aggregates.ErrJobNotFinished, aggregates.ErrArtifactsClosed, artifacts.ErrTooLarge, errNotMultipart,
			artifacts.ErrDigest, artifacts.ErrIncomplete, artifacts.ErrStore, commands.ErrOutcomeUnknown),
		Security: bySecurity, Body: describeUpload(), Answer: describeUploaded, Answered: exampleUploaded,
	}, Handler: openapi.Handle(s.uploadArtifacts)}}
}

type uploadPath struct {
	ID string `path:"id" maxLength:"64" doc:"The job's id."`
}

// An uploaded says what of an upload there is.
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

// uploadArtifacts leaves everything to the stream: the body is read as it comes.
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

// An upload is a request that is being answered.
type upload struct {
	server *Server
	runner *Runner
	job    artifacts.Job
	body   *uploadBody
	parts  *multipart.Reader
	has    *artifacts.Upload
	told   int // files that are whole and of which the log knows
}

func (s *Server) upload(w http.ResponseWriter, r *http.Request, runner *Runner, job string) (*uploaded, error) {
	id, err := events.ParseID(job)
	switch most := s.ArtifactMaxJobBytes; {
	case err != nil:
		return nil, aggregates.ErrNoJob
	case r.ContentLength > most+uploadFraming:
		return nil, artifacts.ErrTooLarge.With("limitBytes", most).With("declaredBytes", r.ContentLength)
	case s.Artifacts == nil:
		return nil, artifacts.ErrStore
	}
	release, err := s.uploads.Acquire(r.Context(), quota.Holder{Caller: runner.ID, Workspace: runner.Workspace})
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, done := s.takeover.begin(r.Context(), runner.ID, id)
	defer done()
	u := &upload{server: s, runner: runner, job: artifacts.Job{Workspace: runner.Workspace, ID: id}}
	u.body, u.parts, err = newUploadBody(ctx, w, r, u.still)
	if err != nil {
		return nil, err
	}
	stop := u.body.watch()
	err = u.receive(ctx)
	stop()
	if err != nil {
		return nil, u.body.fault(err, s.ArtifactMaxJobBytes, u.stored())
	}
	return u.report(), nil
}

// receive takes in the manifest and the chunks. What is whole when it ends is told to the log,
// also where it ends by an error, such as that the runner went away.
func (u *upload) receive(ctx context.Context) error {
	if err := u.begin(ctx); err != nil {
		return err
	}
	err := u.chunks(ctx)
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitLimit)
	defer cancel()
	return cmp.Or(err, u.commit(within))
}

// begin reads the manifest, declares its files and finds what has come of them.
func (u *upload) begin(ctx context.Context) error {
	part, err := u.body.next(u.parts)
	switch {
	case errors.Is(err, io.EOF), err == nil && part.FormName() != "manifest":
		return fault.Field("manifest", "must be the first part")
	case err != nil:
		return err
	}
	manifest, err := artifacts.ReadManifest(part, u.server.ArtifactMaxJobBytes)
	if err != nil {
		return u.body.breaks(err)
	}
	u.job.Epoch = manifest.Epoch
	declare := commands.DeclareArtifacts{Meta: u.runner.Meta(), Job: u.job.ID, Runner: u.runner.ID, Epoch: u.job.Epoch}
	for _, a := range manifest.Artifacts(u.job) {
		declare.Files = append(declare.Files, events.JobArtifact{
			ID: a.ID, Name: a.Name, Path: a.Path, Size: a.Size, SHA256: a.SHA256, Mode: a.Mode,
		})
	}
	if _, err := u.server.Commands.DeclareArtifacts(ctx, declare); err != nil {
		return err
	}
	if u.has, err = artifacts.Resume(ctx, u.server.Artifacts, u.job, manifest); err != nil {
		return err
	}
	return u.has.Settle(ctx)
}

func (u *upload) chunks(ctx context.Context) error {
	for {
		part, err := u.body.next(u.parts)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = u.has.Receive(ctx, part.FormName(), part)
		}
		if err == nil && len(u.has.Sealed()) >= u.told+commitEvery {
			err = u.commit(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// commit tells the log which files are whole. Of those that it knows it takes no notice.
func (u *upload) commit(ctx context.Context) error {
	sealed := u.has.Sealed()
	if len(sealed) == u.told {
		return nil
	}
	if err := u.still(ctx); err != nil {
		return err
	}
	store := commands.StoreArtifacts{Meta: u.runner.Meta(), Job: u.job.ID, Runner: u.runner.ID, Epoch: u.job.Epoch}
	for _, a := range sealed {
		store.Files = append(store.Files, a.ID)
	}
	if _, err := u.server.Commands.StoreArtifacts(ctx, store); err != nil {
		return err
	}
	u.told = len(sealed)
	return nil
}

// still returns why the runner may not go on: an upload may take longer than its rights last.
func (u *upload) still(ctx context.Context) error {
	h, err := u.server.Runners.Holder(ctx, u.runner.Workspace, u.runner.ID)
	switch {
	case err != nil:
		return err
	case h.State == nil:
		return ErrCertificateRequired
	}
	return refusedState(*h.State)
}

// stored is how many bytes of the files there are.
func (u *upload) stored() int64 {
	if u.has == nil {
		return 0
	}
	return u.has.Received()
}

func (u *upload) report() *uploaded {
	out := &uploaded{State: "complete", ReceivedBytes: u.has.Received(), LimitBytes: u.server.ArtifactMaxJobBytes}
	for _, s := range u.has.States() {
		f := uploadedFile{ID: s.File.ID, Artifact: s.Artifact.ID.String(), State: "complete", Missing: s.Missing}
		switch {
		case s.Whole:
		case s.Received == 0:
			f.State, out.State = "missing", "partial"
		default:
			f.State, out.State = "partial", "partial"
		}
		out.Files = append(out.Files, f)
	}
	return out
}
