package jobs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/aggregates/farm"
	"svc/events"
	"svc/farm/artifacts"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/reply"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections/farmviews"
	"svc/test/pgtest"
)

// storeArtifact stores a file of a job, and returns its view row.
func storeArtifact(t *testing.T, store artifacts.Store, path string, text []byte) farmviews.JobArtifact {
	t.Helper()
	job := artifacts.Job{Workspace: events.NewID(epoch), ID: events.NewID(epoch), Epoch: 1}
	sum := sha256.Sum256(text)
	f := artifacts.File{
		ID: "f1", Name: "dist", Path: path, Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:]), ChunkBytes: artifacts.MinChunkBytes,
	}
	u, err := artifacts.Resume(t.Context(), store, job, artifacts.Manifest{Epoch: 1, Files: []artifacts.File{f}})
	require.NoError(t, err)
	for n := 0; n*artifacts.MinChunkBytes < len(text); n++ {
		part := text[n*artifacts.MinChunkBytes : min((n+1)*artifacts.MinChunkBytes, len(text))]
		require.NoError(t, u.Receive(t.Context(), "f1."+string(rune('0'+n)), bytes.NewReader(part)))
	}
	require.Len(t, u.Sealed(), 1)
	return farmviews.JobArtifact{
		Workspace: job.Workspace, ID: u.Sealed()[0].ID, Job: job.ID, Epoch: 1, Name: "dist", Path: path, Size: f.Size, SHA256: f.SHA256,
		StoredAt: epoch,
	}
}

// newDownloadServer serves an artifact as the API does.
func newDownloadServer(t *testing.T, dir string, a farmviews.JobArtifact, checkRights func() error) *httptest.Server {
	t.Helper()
	store, err := artifacts.OpenDirectory(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	s := &Server{Door: door.New(door.Config{Log: slog.New(slog.DiscardHandler)}), Config: Config{
		OpenArtifact: func(ctx context.Context, workspace, job, artifact events.ID) (io.ReadSeekCloser, error) {
			return artifacts.Open(ctx, store, workspace, job, artifact)
		},
	}}

	limits := middleware.Limits{Time: downloadLimit, Stream: true}
	server := httptest.NewUnstartedServer(middleware.Limited(limits, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.sendArtifact(w, r, a, checkRights, door.Pace{Timeout: testTimeout})
	})))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

func always() error { return nil }

func fetch(t *testing.T, server *httptest.Server, headers ...string) (*http.Response, []byte, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := server.Client().Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res, text, err
}

// A busyFile notes whether it is used by two goroutines at once, or after it was closed.
type busyFile struct {
	bytes.Reader
	reads           chan struct{} // closed by the first Read, which then waits for leaving
	leaving         chan struct{}
	first           sync.Once
	reading, closed atomic.Bool
	misused         atomic.Bool
}

func (f *busyFile) Read(b []byte) (int, error) {
	f.reading.Store(true)
	defer f.reading.Store(false)
	if f.closed.Load() {
		f.misused.Store(true)
	}
	f.first.Do(func() { close(f.reads) })
	<-f.leaving
	for range 10_000 {
		runtime.Gosched()
	}
	return f.Reader.Read(b[:1])
}

func (f *busyFile) Close() error {
	f.closed.Store(true)
	if f.reading.Load() {
		f.misused.Store(true)
	}
	return nil
}

// With several ranges, http.ServeContent reads in a goroutine that may outlive it.
func TestDownloadOfRangesClosesFileAfterReading(t *testing.T) {
	t.Parallel()
	f := &busyFile{Reader: *bytes.NewReader(make([]byte, 1000)), reads: make(chan struct{}), leaving: make(chan struct{})}
	s := &Server{Door: door.New(door.Config{Log: slog.New(slog.DiscardHandler)}), Config: Config{
		OpenArtifact: func(context.Context, events.ID, events.ID, events.ID) (io.ReadSeekCloser, error) { return f, nil },
	}}

	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	r.Header.Set("Range", "bytes=0-400,500-999")
	gone := func() error {
		<-f.reads
		close(f.leaving)
		return errors.New("the client is gone")
	}
	require.Panics(t, func() {
		s.sendArtifact(httptest.NewRecorder(), r, farmviews.JobArtifact{SHA256: "aa", Path: "a"}, gone, door.Pace{Timeout: testTimeout})
	})
	require.True(t, f.closed.Load())
	require.False(t, f.misused.Load())

	content := &watchedReader{file: f}
	require.NoError(t, content.Close())
	_, err := content.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrClosed)
	_, err = content.Seek(0, io.SeekStart)
	require.ErrorIs(t, err, os.ErrClosed)
	require.False(t, f.misused.Load())
}

func TestDownload(t *testing.T) {
	t.Parallel()
	text := make([]byte, artifacts.MinChunkBytes+1000)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(text)
	dir := t.TempDir()
	store, err := artifacts.OpenDirectory(dir)
	require.NoError(t, err)
	defer store.Close()
	a := storeArtifact(t, store, "dist/r\u00e9sum\u00e9 \"1\".html", text)
	server := newDownloadServer(t, dir, a, always)

	res, got, err := fetch(t, server)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.True(t, bytes.Equal(text, got))
	for name, want := range map[string]string{
		"ETag": `"` + a.SHA256 + `"`, "Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff",
		"Content-Disposition": "attachment; filename*=utf-8''r%C3%A9sum%C3%A9%20%221%22.html", "Accept-Ranges": "bytes",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Cache-Control": "private, no-cache",
	} {
		require.Equal(t, want, res.Header.Get(name), name)
	}
	for value, want := range map[string][]byte{
		"bytes=0-9": text[:10], "bytes=5242870-5242889": text[5242870:5242890], "bytes=-7": text[len(text)-7:], "bytes=5243000-": text[5243000:],
	} {
		res, got, err := fetch(t, server, "Range", value)
		require.NoError(t, err)
		require.Equal(t, http.StatusPartialContent, res.StatusCode, value)
		require.True(t, bytes.Equal(want, got), value)
	}
	etag := `"` + a.SHA256 + `"`
	download := described(t).Get("paths./api/v1/farm/jobs/{id}/artifacts/{artifactId}.get")
	for name, c := range map[string]struct {
		headers []string
		status  int
		code    string
	}{
		"If-None-Match, same":  {[]string{"If-None-Match", etag}, 304, ""},
		"If-None-Match, other": {[]string{"If-None-Match", `"x"`}, 200, ""},
		"If-Range, same":       {[]string{"Range", "bytes=1-2", "If-Range", etag}, 206, ""},
		"If-Range, other":      {[]string{"Range", "bytes=1-2", "If-Range", `"x"`}, 200, ""},
		"unsatisfiable range":  {[]string{"Range", "bytes=9999999-"}, 416, "range_not_satisfiable"},
		"If-Match, other":      {[]string{"If-Match", `"x"`}, 412, "precondition_failed"},
	} {
		res, got, err := fetch(t, server, c.headers...)
		require.NoError(t, err, name)
		require.Equal(t, c.status, res.StatusCode, name)
		for i := 0; i < len(c.headers); i += 2 {
			require.True(t, download.Get(`parameters.#(name=="`+c.headers[i]+`")`).Exists(), "%s is not described", c.headers[i])
		}
		answer := download.Get("responses." + strconv.Itoa(c.status))
		require.True(t, answer.Exists(), "%d is not described", c.status)
		if c.code == "" {
			for _, header := range []string{"Accept-Ranges", "Content-Range", "ETag"} {
				require.Equal(t, res.Header.Get(header) != "", answer.Get("headers."+header).Exists(), "%s: %s", name, header)
			}
		} else {
			require.True(t, answer.Get("content.application/json.examples."+c.code).Exists(), "%s is not described", c.code)
			var body reply.Body
			require.NoError(t, json.Unmarshal(got, &body), "%s: %s", name, got)
			require.Equal(t, c.code, body.Code)
			require.Equal(t, "application/json", res.Header.Get("Content-Type"))
			require.EqualValues(t, len(text), body.Details["sizeBytes"])
		}
	}
}

// A caller that loses its rights while reading gets an aborted connection, not a short file.
func TestDownloadEndsWhenRightsChange(t *testing.T) {
	t.Parallel()
	text := make([]byte, 4*artifacts.MinChunkBytes)
	dir := t.TempDir()
	store, err := artifacts.OpenDirectory(dir)
	require.NoError(t, err)
	defer store.Close()
	a := storeArtifact(t, store, "a", text)
	var asked atomic.Int64
	server := newDownloadServer(t, dir, a, func() error {
		if asked.Add(1) > 100 {
			return door.ErrRightsChanged
		}
		return nil
	})
	_, got, err := fetch(t, server)
	require.Error(t, err)
	require.Less(t, len(got), len(text))
}

func TestDownloadOfLostArtifact(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := artifacts.OpenDirectory(dir)
	require.NoError(t, err)
	defer store.Close()
	a := storeArtifact(t, store, "a", []byte("hello"))
	server := newDownloadServer(t, dir, a, always)
	folder := a.Workspace.String() + "/" + a.Job.String()
	objects, err := store.List(t.Context(), folder)
	require.NoError(t, err)
	for _, o := range objects {
		if o.Name != a.ID.String() {
			require.NoError(t, store.Remove(t.Context(), folder, o.Name))
		}
	}
	_, got, err := fetch(t, server)
	require.Error(t, err, "the connection is aborted")
	require.Empty(t, got)
	require.NoError(t, store.Remove(t.Context(), folder, a.ID.String()))
	res, got, err := fetch(t, server)
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	require.JSONEq(t, `{"code":"artifact_store_unavailable","message":"Artifacts cannot be read at the moment.","details":{}}`, string(got))
}

// An artifact is found only in its own workspace and job.
func TestFindArtifact(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	acme, globex := events.NewID(epoch), events.NewID(epoch)
	job, other, theirs := events.NewID(epoch), events.NewID(epoch), events.NewID(epoch)
	file, foreign := events.NewID(epoch), events.NewID(epoch)
	for _, j := range [][2]events.ID{{acme, job}, {acme, other}, {globex, theirs}} {
		_, err := db.Exec(t.Context(), `
			insert into jobs select (jsonb_populate_record(null::jobs, jsonb_build_object(
				'workspace_id', $1::uuid, 'job_id', $2::uuid, 'name', '', 'state', 'succeeded',
				'submitted_by', '{}'::jsonb, 'requirement', '', 'required', '{}'::jsonb, 'repo_name', '', 'checked_out', '',
				'priority', '', 'fair_key', '', 'turn', 0,
				'submitted_at', $3::timestamptz, 'queued_at', $3::timestamptz, 'not_before', $3::timestamptz, 'epoch', 1,
				'attempt', 1, 'max_attempts', 1,
				'runner_name', '', 'excluded', '{}'::uuid[], 'concurrency_key', '', 'concurrency', 0, 'slot', 0, 'accepted', true, 'run_seconds', 1,
				'expires_at', $3::timestamptz, 'attempts', '[]'::jsonb, 'artifacts', '{}'::jsonb))).*`, j[0], j[1], epoch)
		require.NoError(t, err)
	}
	for _, a := range [][3]events.ID{{acme, job, file}, {globex, theirs, foreign}} {
		_, err := db.Exec(t.Context(), `
			insert into job_artifacts (workspace_id, job_id, artifact_id, epoch, name, path, size, sha256, mode, stored_at)
			values ($1, $2, $3, 1, 'dist', 'a', 1, '', 0, $4)`, a[0], a[1], a[2], epoch)
		require.NoError(t, err)
	}
	s := &Server{Artifacts: farmviews.Artifacts{DB: db}}
	for name, c := range map[string]struct {
		workspace events.ID
		job, file string
		want      *fault.Fault
	}{
		"own":              {acme, job.String(), file.String(), nil},
		"other job":        {acme, other.String(), file.String(), errNoArtifact},
		"unknown":          {acme, job.String(), events.NewID(time.Now()).String(), errNoArtifact},
		"malformed id":     {acme, job.String(), "app.tar", errNoArtifact},
		"unknown job":      {acme, events.NewID(time.Now()).String(), file.String(), farm.ErrNoJob},
		"foreign artifact": {acme, theirs.String(), foreign.String(), farm.ErrNoJob},
		"foreign caller":   {globex, job.String(), file.String(), farm.ErrNoJob},
		"malformed job id": {acme, "..", file.String(), farm.ErrNoJob},
	} {
		found, err := s.findArtifact(t.Context(), c.workspace, &artifactPath{ID: c.job, Artifact: c.file})
		if c.want == nil {
			require.NoError(t, err, name)
			require.Equal(t, file, found.ID)
		} else {
			require.Equal(t, error(c.want), err, name)
		}
	}
	_, err := db.Exec(t.Context(), `update jobs set artifacts = '{"state":"removed"}' where workspace_id = $1 and job_id = $2`, acme, other)
	require.NoError(t, err)
	ctx := door.WithCaller(t.Context(), &door.Caller{Workspace: acme})
	for days, details := range map[int]map[string]any{30: {"keptDays": 30}, 0: {}} {
		s.ArtifactDays = days
		_, err := s.findArtifact(t.Context(), acme, &artifactPath{ID: other.String(), Artifact: file.String()})
		_, listed := s.listArtifacts(ctx, &artifactsQuery{ID: other.String(), Paging: schema.Paging{Limit: 10}})
		require.Equal(t, err, listed)
		require.ErrorIs(t, err, errArtifactsRemoved)
		require.Equal(t, 410, fault.As(err).Kind.Status())
		require.Equal(t, details, fault.As(err).Details)
	}
	list, total, ok, err := s.Artifacts.Page(t.Context(), acme, job, 10, 0)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, 1, total)
	require.Equal(t, file, list[0].ID)
	_, total, ok, err = s.Artifacts.Page(t.Context(), acme, theirs, 10, 0)
	require.NoError(t, err)
	require.False(t, ok)
	require.Zero(t, total)
}
