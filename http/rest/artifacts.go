package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/projections"
)

// downloadLimit is how long a download may take, however slowly it is read.
const downloadLimit = 6 * time.Hour

// Why an artifact is not answered.
var (
	errNoArtifact    = fault.New(fault.NotFound, "artifact_not_found", "This job has no such artifact.")
	errArtifactStore = fault.New(fault.Unavailable, "artifact_store_unavailable", "Artifacts cannot be read at the moment.")
)

func (s *Server) artifactRoutes() section {
	return section{tag: "Build farm", routes: []route{
		query(s.listArtifacts, route{
			method: "GET", path: "/farm/jobs/{id}/artifacts", guard: readers, farm: true,
			id: "listArtifacts", summary: "List the artifacts of a job",
			text: "The files that a job left, by path. A file is here once all of it was uploaded and its digest checked. A job of another " +
				"workspace is answered like one that does not exist: 404 `farm_job_not_found`.",
			refuses:  []*fault.Fault{aggregates.ErrNoJob},
			answered: newList([]projections.JobArtifact{exampleArtifact}, 1, examplePage, newArtifact),
		}),
		query(s.getArtifact, route{
			method: "GET", path: "/farm/jobs/{id}/artifacts/{artifactId}", guard: readers, farm: true,
			limits: middleware.Limits{Time: downloadLimit, Stream: true},
			id:     "getArtifact", summary: "Download an artifact",
			text: "The bytes of a file, whose name is that of its path. `ETag` is its SHA-256. With `Range` a part of it, so that a download which " +
				"broke off can be gone on with. A reader may be slow, but has to read something every 30 seconds.",
			refuses: []*fault.Fault{aggregates.ErrNoJob, errNoArtifact, errArtifactStore},
			ownSlot: true, answer: describeArtifact, responses: map[string]*huma.Response{
				"206": {Description: "The part that was asked for.", Content: binary()},
				"304": {Description: "`If-None-Match` has its `ETag`."},
				"416": {Description: "It has no such part: `range_not_satisfiable`."},
			},
		}),
	}}
}

// An Artifact is a file that a job left.
type artifact struct {
	ID       string    `json:"id" format:"uuid"`
	Name     string    `json:"name" doc:"Of the artifact in the job's spec that the file belongs to." example:"dist"`
	Path     string    `json:"path" doc:"Relative to the working directory." example:"dist/app.tar"`
	Size     int64     `json:"sizeBytes" example:"20971520"`
	SHA256   string    `json:"sha256" doc:"Checked when it was uploaded." example:"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`
	Mode     int       `json:"mode" doc:"Permission bits: 420 is rw-r--r--." example:"420"`
	Epoch    int       `json:"epoch" doc:"Of the attempt that left it." example:"1"`
	StoredAt timestamp `json:"storedAt"`
}

func newArtifact(a projections.JobArtifact) artifact {
	return artifact{
		ID: a.ID.String(), Name: a.Name, Path: a.Path, Size: a.Size, SHA256: a.SHA256, Mode: a.Mode, Epoch: a.Epoch, StoredAt: at(a.StoredAt),
	}
}

type artifactsQuery struct {
	ID string `path:"id" maxLength:"64" doc:"The job's id."`
	Paging
}

type artifactsAnswer struct{ Body List[artifact] }

func (s *Server) listArtifacts(ctx context.Context, in *artifactsQuery) (*artifactsAnswer, error) {
	job, err := events.ParseID(in.ID)
	if err != nil {
		return nil, aggregates.ErrNoJob
	}
	found, total, ok, err := s.views.Artifacts.Page(ctx, callerOf(ctx).workspace, job, in.Limit, in.Offset)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, aggregates.ErrNoJob
	}
	return &artifactsAnswer{newList(found, total, in.Paging, newArtifact)}, nil
}

type artifactPath struct {
	ID       string `path:"id" maxLength:"64" doc:"The job's id."`
	Artifact string `path:"artifactId" maxLength:"64" doc:"The artifact's id."`
}

// getArtifact opens the file, so that what goes wrong until then has an answer, and leaves
// the rest to the stream.
func (s *Server) getArtifact(ctx context.Context, in *artifactPath) (*huma.StreamResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, beginLimit)
	defer cancel()
	c := callerOf(ctx)
	found, err := s.findArtifact(ctx, c.workspace, in)
	if err != nil {
		return nil, err
	}
	if err := s.take(ctx, s.bounds.downloads); err != nil {
		return nil, err
	}
	if s.farm.Artifact == nil {
		return nil, errArtifactStore
	}
	return openapi.Stream(func(w http.ResponseWriter, r *http.Request) {
		watch := s.live.Watch(c.workspace, nil)
		defer watch.Close()
		still := s.newRights(c, watch.Moved).still
		s.sendArtifact(w, r, found, func() error { return still(r.Context()) }, readLimit)
	}), nil
}

func (s *Server) findArtifact(ctx context.Context, workspace events.ID, in *artifactPath) (projections.JobArtifact, error) {
	var none projections.JobArtifact
	job, err := events.ParseID(in.ID)
	if err != nil {
		return none, aggregates.ErrNoJob
	}
	id, malformed := events.ParseID(in.Artifact)
	found, ofJob, ok, err := s.views.Artifacts.Get(ctx, workspace, job, id)
	switch {
	case err != nil:
		return none, err
	case !ofJob:
		return none, aggregates.ErrNoJob
	case !ok || malformed != nil:
		return none, errNoArtifact
	}
	return found, nil
}

// sendArtifact streams a file. If it cannot go on it breaks the connection off.
func (s *Server) sendArtifact(w http.ResponseWriter, r *http.Request, a projections.JobArtifact, still func() error, patience time.Duration) {
	ctx := r.Context()
	file, err := s.farm.Artifact(ctx, a.Workspace, a.Job, a.ID)
	out := newDownload(w, r, s.log, &deadlineWriter{w, http.NewResponseController(w), patience, still}, a)
	if err != nil {
		out.refuse(fmt.Errorf("%w: %w", errArtifactStore, err))
		return
	}
	defer file.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(a.Path)}))
	h.Set("Cache-Control", "private, no-cache")
	h.Set("ETag", `"`+a.SHA256+`"`)
	content := &watchedReader{ReadSeeker: file}
	http.ServeContent(out, r, "", a.StoredAt, content)
	switch err := errors.Join(out.err, content.err); {
	case err == nil:
		return
	case ctx.Err() != nil:
		s.log.InfoContext(ctx, "the reader of an artifact went away")
	case errors.Is(err, errNoLonger):
		s.log.InfoContext(ctx, "download ended: the reader's rights have changed")
	default:
		s.log.ErrorContext(ctx, "download broke off", "artifact", a.ID.String(), "err", err)
	}
	panic(http.ErrAbortHandler)
}

// A watchedReader keeps what went wrong with it.
type watchedReader struct {
	io.ReadSeeker
	err error
}

func (w *watchedReader) Read(b []byte) (int, error) {
	n, err := w.ReadSeeker.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

func binary() map[string]*huma.MediaType {
	return map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
}

// describeArtifact describes the answer of a download, which is no JSON of ours.
func describeArtifact(huma.Registry) *huma.Response {
	text := &huma.Schema{Type: huma.TypeString}
	return &huma.Response{
		Description: "The file.", Content: binary(),
		Headers: map[string]*huma.Param{
			"Content-Disposition": {Schema: text, Description: "Names the file.", Example: "attachment; filename=app.tar"},
			"ETag":                {Schema: text, Description: "Its SHA-256, in quotes.", Example: `"` + exampleArtifact.SHA256 + `"`},
			"Accept-Ranges":       {Schema: text, Description: "Parts can be asked for.", Example: "bytes"},
		},
	}
}

var exampleArtifact = projections.JobArtifact{
	ID: exampleNo(31), Job: exampleNo(30), Epoch: 1, Name: "dist", Path: "dist/app.tar", Size: 20 << 20,
	SHA256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", Mode: 0o644, StoredAt: exampleAt(3),
}
