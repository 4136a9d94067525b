package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"svc/aggregates/farm"
	"svc/events"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/http/reply"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections/farmviews"
)

// downloadLimit bounds a whole download; door.SlowestReader bounds how slowly it is read.
const downloadLimit = 6 * time.Hour

// Refusals of an artifact.
var (
	errNoArtifact       = fault.New(fault.NotFound, "artifact_not_found", "This job has no such artifact.")
	errArtifactsRemoved = fault.New(fault.Gone, "artifacts_removed", "The artifacts of this job were removed because of their age.")
	errArtifactStore    = fault.New(fault.Unavailable, "artifact_store_unavailable", "Artifacts cannot be read at the moment.")
)

func (s *Server) artifactRoutes() door.Section {
	return door.Section{Tag: "Build farm", Routes: []door.Route{
		door.Query(s.listArtifacts, door.Route{
			Method: "GET", Path: "/farm/jobs/{id}/artifacts", Guard: door.AnyMemberOrReadToken, Farm: true,
			ID: "listArtifacts", Summary: "List the artifacts of a job",
			Text: "Lists the files that a job produced, ordered by path. A file is listed once it is uploaded completely and its digest is " +
				"verified. A job of another workspace is not found: 404 `farm_job_not_found`. " +
				"Artifacts that were removed because of their age are 410 `artifacts_removed`.",
			Refuses:       []*fault.Fault{farm.ErrNoJob, errArtifactsRemoved},
			AnswerExample: schema.NewList([]farmviews.JobArtifact{exampleArtifact}, 1, schema.ExamplePage, newArtifact),
		}),
		door.Query(s.getArtifact, door.Route{
			Method: "GET", Path: "/farm/jobs/{id}/artifacts/{artifactId}", Guard: door.AnyMemberOrReadToken, Farm: true,
			Limits: middleware.Limits{Time: downloadLimit, Stream: true},
			ID:     "getArtifact", Summary: "Download an artifact",
			Text: "Returns the content of a file. `ETag` is its SHA-256. Send `Range` to get a part of it, for example to resume a download. " +
				"The connection is closed if the client reads nothing for 30 seconds, or less than 16 KiB a second for longer.",
			Refuses: []*fault.Fault{
				farm.ErrNoJob, errNoArtifact, errArtifactsRemoved, errArtifactStore, reply.ErrContentRange, reply.ErrContentChanged,
			},
			OwnSlot: true, Answer: describeArtifact, Responses: map[string]*huma.Response{
				"206": describePart(binary(), describeArtifactHeaders()),
				"304": {
					Description: "Not modified: `If-None-Match` contains the file's `ETag`.",
					Headers:     map[string]*huma.Param{"ETag": describeArtifactHeaders()["ETag"]},
				},
			},
		}),
	}}
}

// An artifact is a file that a job produced.
type artifact struct {
	ID       string            `json:"id" format:"uuid"`
	Name     string            `json:"name" doc:"Name of the artifact in the job's spec that the file belongs to." example:"dist"`
	Path     string            `json:"path" doc:"Path relative to the working directory." example:"dist/app.tar"`
	Size     int64             `json:"sizeBytes" example:"20971520"`
	SHA256   string            `json:"sha256" doc:"Verified on upload." example:"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`
	Mode     int               `json:"mode" doc:"Permission bits as a decimal number: 420 is rw-r--r--." example:"420"`
	Epoch    int               `json:"epoch" doc:"Epoch of the attempt that produced it." example:"1"`
	StoredAt openapi.Timestamp `json:"storedAt"`
}

func newArtifact(a farmviews.JobArtifact) artifact {
	return artifact{
		ID: a.ID.String(), Name: a.Name, Path: a.Path, Size: a.Size, SHA256: a.SHA256, Mode: a.Mode, Epoch: a.Epoch,
		StoredAt: openapi.FormatTime(a.StoredAt),
	}
}

type artifactsQuery struct {
	ID string `path:"id" maxLength:"64" doc:"The job's id."`
	schema.Paging
}

type artifactsAnswer struct{ Body schema.List[artifact] }

func (s *Server) listArtifacts(ctx context.Context, in *artifactsQuery) (*artifactsAnswer, error) {
	job, err := door.ParseID(in.ID, farm.ErrNoJob)
	if err != nil {
		return nil, err
	}
	found, total, ok, err := s.Artifacts.Page(ctx, door.CallerOf(ctx).Workspace, job, in.Limit, in.Offset)
	if err := door.CheckFound(ok, err, farm.ErrNoJob); err != nil {
		return nil, err
	}
	if total == 0 {
		if err := s.checkKept(ctx, door.CallerOf(ctx).Workspace, job); err != nil {
			return nil, err
		}
	}
	return &artifactsAnswer{schema.NewList(found, total, in.Paging, newArtifact)}, nil
}

type artifactPath struct {
	ID       string `path:"id" maxLength:"64" doc:"The job's id."`
	Artifact string `path:"artifactId" maxLength:"64" doc:"The artifact's id."`

	// http.ServeContent reads these headers.
	Range       string `header:"Range" doc:"The bytes to return. Several ranges are returned as multipart/byteranges." example:"bytes=1024-"`
	IfRange     string `header:"If-Range" doc:"An ETag. Range is ignored unless the file has it."`
	IfMatch     string `header:"If-Match" doc:"ETags. The request fails unless the file has one of them: 412 precondition_failed."`
	IfNoneMatch string `header:"If-None-Match" doc:"ETags that you have. The file is not returned if it has one of them."`
}

// getArtifact finds the artifact and acquires a slot before it starts the stream, so that their
// errors can still be answered with a status.
func (s *Server) getArtifact(ctx context.Context, in *artifactPath) (*huma.StreamResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, door.BeginLimit)
	defer cancel()
	c := door.CallerOf(ctx)
	found, err := s.findArtifact(ctx, c.Workspace, in)
	if err != nil {
		return nil, err
	}
	if err := s.AcquireSlot(ctx, s.Bounds.Downloads); err != nil {
		return nil, err
	}
	if s.OpenArtifact == nil {
		return nil, errArtifactStore
	}
	return openapi.Stream(func(w http.ResponseWriter, r *http.Request) {
		checkRights, stop := s.WatchRights(r.Context(), c)
		defer stop()
		s.sendArtifact(w, r, found, checkRights, door.SlowestReader)
	}), nil
}

func (s *Server) findArtifact(ctx context.Context, workspace events.ID, in *artifactPath) (farmviews.JobArtifact, error) {
	var none farmviews.JobArtifact
	job, err := door.ParseID(in.ID, farm.ErrNoJob)
	if err != nil {
		return none, err
	}
	id, malformed := events.ParseID(in.Artifact)
	found, ofJob, ok, err := s.Artifacts.Get(ctx, workspace, job, id)
	switch {
	case err != nil:
		return none, err
	case !ofJob:
		return none, farm.ErrNoJob
	case !ok || malformed != nil:
		return none, cmp.Or(s.checkKept(ctx, workspace, job), error(errNoArtifact))
	}
	return found, nil
}

// checkKept returns an error if the artifacts of a job were removed.
func (s *Server) checkKept(ctx context.Context, workspace, job events.ID) error {
	gone, err := s.Artifacts.Removed(ctx, workspace, job)
	if err != nil || !gone {
		return err
	}
	if s.ArtifactDays == 0 { // the retention was limited when they were removed
		return errArtifactsRemoved
	}
	removed := errArtifactsRemoved.With("keptDays", s.ArtifactDays)
	removed.Message = fmt.Sprintf("The artifacts of this job were removed: they are kept for %d days.", s.ArtifactDays)
	return removed
}

// sendArtifact streams a file. If the stream cannot continue, it aborts the connection, so that
// the client does not take a part of the file for the whole.
func (s *Server) sendArtifact(
	w http.ResponseWriter, r *http.Request, a farmviews.JobArtifact, checkRights func() error, slowest door.Pace,
) {
	ctx := r.Context()
	file, err := s.OpenArtifact(ctx, a.Workspace, a.Job, a.ID)
	if err != nil {
		reply.Error(w, r, s.Log, fmt.Errorf("%w: %w", errArtifactStore, err))
		return
	}
	out := door.NewDownload(w, slowest, checkRights)
	content := &watchedReader{file: file}
	defer content.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(a.Path)}))
	h.Set("Cache-Control", "private, no-cache")
	h.Set("ETag", `"`+a.SHA256+`"`)
	reply.ServeContent(out, r, a.Size, a.StoredAt, content)
	switch err := errors.Join(out.Err, content.failure()); {
	case err == nil:
		return
	case ctx.Err() != nil:
		s.Log.InfoContext(ctx, "client disconnected during an artifact download")
	case door.RightsEnded(err):
		s.Log.InfoContext(ctx, "download ended: the caller's rights have changed")
	default:
		middleware.SetFailed(ctx)
		s.Log.ErrorContext(ctx, "artifact download failed", "artifact", a.ID.String(), "err", err)
	}
	panic(http.ErrAbortHandler)
}

// A watchedReader keeps the last read error other than EOF, which http.ServeContent drops. For several
// ranges http.ServeContent reads in a goroutine that may outlive it, so the file can be closed meanwhile.
type watchedReader struct {
	mu     sync.Mutex
	file   io.ReadSeekCloser
	closed bool
	err    error
}

func (w *watchedReader) Read(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, os.ErrClosed
	}
	n, err := w.file.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

// Seek implements [io.Seeker].
func (w *watchedReader) Seek(offset int64, whence int) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, os.ErrClosed
	}
	return w.file.Seek(offset, whence)
}

// Close waits for a read, and makes later ones fail.
func (w *watchedReader) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	return w.file.Close()
}

func (w *watchedReader) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func binary() map[string]*huma.MediaType {
	return map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
}

// describeArtifact describes a download's response, which is not JSON.
func describeArtifact(huma.Registry) *huma.Response {
	return &huma.Response{Description: "The file.", Content: binary(), Headers: describeArtifactHeaders()}
}

func describeArtifactHeaders() map[string]*huma.Param {
	text := &huma.Schema{Type: huma.TypeString}
	return map[string]*huma.Param{
		"Content-Disposition": {Schema: text, Description: "Contains the file's name.", Example: "attachment; filename=app.tar"},
		"ETag":                {Schema: text, Description: "Its SHA-256, in quotes.", Example: `"` + exampleArtifact.SHA256 + `"`},
		"Accept-Ranges":       {Schema: text, Description: "Ranges are supported.", Example: "bytes"},
	}
}

var exampleArtifact = farmviews.JobArtifact{
	ID: schema.ExampleNo(31), Job: schema.ExampleNo(30), Epoch: 1, Name: "dist", Path: "dist/app.tar", Size: 20 << 20,
	SHA256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", Mode: 0o644, StoredAt: schema.ExampleAt(3),
}
