package farm_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	rules "svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/farm/artifacts"
	"svc/http/farm"
	"svc/projections/farmviews"
)

const (
	chunkBytes = artifacts.MinChunkBytes
	jobLimit   = 12 << 20
)

// stored returns a store directory, and a change that makes each replica of a site use it.
func stored(t *testing.T) (dir string, change func(*farm.Config)) {
	dir = t.TempDir()
	return dir, func(c *farm.Config) {
		d, err := artifacts.OpenDirectory(dir)
		require.NoError(t, err)
		t.Cleanup(func() { _ = d.Close() })
		c.Artifacts, c.ArtifactMaxJobBytes = d, jobLimit
	}
}

// An upload is a runner's work on one of its jobs.
type upload struct {
	*site
	job         events.ID
	runner      events.ID
	certificate string
	epoch       int
}

func system(workspace events.ID) commands.Meta {
	return commands.Meta{Workspace: workspace,
		Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "farm"}, Origin: events.FromSystem}}
}

// newUpload returns a runner with a finished job that left a number of files.
func newUpload(t *testing.T, files int) *upload {
	t.Helper()
	_, change := stored(t)
	s := newSite(t, change)
	u := &upload{site: s}
	u.runner, u.certificate = s.enrol(t)
	u.job, u.epoch = s.run(t, u.runner), 1
	u.finish(t, files)
	return u
}

// abandonment returns the command that ends the upload.
func (u *upload) abandonment() commands.AbandonArtifacts {
	return commands.AbandonArtifacts{Meta: system(u.workspace), Job: u.job, EndedBy: u.clock.now()}
}

// run starts a job on a runner. The job's artifacts are dist and those given.
func (s *site) run(t *testing.T, runner events.ID, more ...events.JobArtifactSpec) (job events.ID) {
	t.Helper()
	job = events.NewID(s.clock.now())
	spec, err := rules.CheckJob(events.JobSpec{
		Name: "test", Steps: []events.JobStep{{Name: "test", Run: "go test ./..."}},
		Artifacts: append(more, events.JobArtifactSpec{Name: "dist", Paths: []string{"**"}}),
	})
	require.NoError(t, err)
	_, err = s.a.commands.SubmitJob(t.Context(), commands.SubmitJob{Meta: s.owner, Job: job, Spec: spec})
	require.NoError(t, err)
	_, err = s.a.commands.ConnectRunner(t.Context(), commands.ConnectRunner{Meta: system(s.workspace), Runner: runner, Hello: rules.Hello{
		Capacity: 2, Agent: events.Agent{Version: "0.4.0", OS: "linux", Arch: "amd64", Sandboxes: []string{"none"}},
	}})
	require.NoError(t, err)
	_, err = s.a.commands.LeaseJob(t.Context(), commands.LeaseJob{Meta: system(s.workspace), Job: job, Runner: runner})
	require.NoError(t, err)
	u := upload{site: s, job: job, runner: runner, epoch: 1}
	u.report(t, 1, events.JobStarted{})
	return job
}

func (u *upload) report(t *testing.T, seq int64, e events.Event) {
	t.Helper()
	_, err := u.a.commands.ReportJob(t.Context(), commands.ReportJob{
		Meta: system(u.workspace), Job: u.job, Runner: u.runner, Report: rules.JobReport{Epoch: u.epoch, Seq: seq, Event: e},
	})
	require.NoError(t, err)
}

func (u *upload) finish(t *testing.T, files int) {
	t.Helper()
	u.report(t, 2, events.JobFinished{Reported: "succeeded", Artifacts: files})
}

func content(seed byte, size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// manifest declares texts as files f0, f1 and so on.
func (u *upload) manifest(texts ...[]byte) artifacts.Manifest {
	m := artifacts.Manifest{Epoch: u.epoch, Files: []artifacts.File{}}
	for i, text := range texts {
		sum := sha256.Sum256(text)
		m.Files = append(m.Files, artifacts.File{
			ID: fmt.Sprint("f", i), Name: "dist", Path: fmt.Sprint("dist/", i), Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:]),
			ChunkBytes: chunkBytes, Mode: 0o644,
		})
	}
	return m
}

// A part is a part of a multipart body.
type part struct {
	name string
	text []byte
}

func manifestPart(m artifacts.Manifest) part {
	text, _ := json.Marshal(m)
	return part{"manifest", text}
}

// chunks returns the parts of a file.
func chunks(file int, text []byte) (list []part) {
	for n := 0; n*chunkBytes < len(text); n++ {
		list = append(list, part{fmt.Sprintf("f%d.%d", file, n), text[n*chunkBytes : min((n+1)*chunkBytes, len(text))]})
	}
	return list
}

const boundary = "boundary-of-the-test"

// body encodes parts.
func body(t *testing.T, parts ...part) []byte {
	t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	require.NoError(t, form.SetBoundary(boundary))
	for _, p := range parts {
		w, err := form.CreatePart(textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf(`form-data; name=%q; filename="x"`, p.name)}})
		require.NoError(t, err)
		_, err = w.Write(p.text)
		require.NoError(t, err)
	}
	require.NoError(t, form.Close())
	return b.Bytes()
}

func (u *upload) post(t *testing.T, at *replica, r io.Reader, change ...func(*http.Request)) answer {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), "POST", "/api/v1/farm/jobs/"+u.job.String()+"/artifacts", r)
	request.RemoteAddr = gateway
	request.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
	shows(u.certificate)(request)
	for _, f := range change {
		f(request)
	}
	w := httptest.NewRecorder()
	at.ServeHTTP(w, request)
	return answer{w.Code, w.Header(), gjson.ParseBytes(w.Body.Bytes())}
}

func (u *upload) send(t *testing.T, at *replica, parts ...part) answer {
	t.Helper()
	return u.post(t, at, bytes.NewReader(body(t, parts...)))
}

// happened returns the events about the job's artifacts.
func (u *upload) happened(t *testing.T) (list []string) {
	t.Helper()
	rows, err := u.db.Query(t.Context(), `
		select substr(kind, 5) from events where workspace_id = $1 and stream = $2 and kind like 'job.artifact%'
			order by seq`, u.workspace, u.job)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var kind string
		require.NoError(t, rows.Scan(&kind))
		list = append(list, kind)
	}
	require.NoError(t, rows.Err())
	return list
}

// readable returns the job's files as readers see them, by path.
func (u *upload) readable(t *testing.T) map[string][]byte {
	t.Helper()
	list, total, ok, err := farmviews.Artifacts{DB: u.db}.Page(t.Context(), u.workspace, u.job, 100, 0)
	require.NoError(t, err)
	require.True(t, ok)
	require.Len(t, list, total)
	files := map[string][]byte{}
	for _, a := range list {
		r, err := artifacts.Open(t.Context(), u.b.server.Artifacts, u.workspace, u.job, a.ID)
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		files[a.Path] = text
	}
	return files
}
