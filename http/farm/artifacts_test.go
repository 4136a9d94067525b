package farm_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/farm/artifacts"
	"svc/http/farm"
	"svc/http/limit"
)

func TestUploadArtifacts(t *testing.T) {
	u := newUpload(t, 3)
	a, b := content(1, chunkBytes+100), []byte("small")
	manifest := manifestPart(u.manifest(a, b, nil))

	probe := u.send(t, u.a, manifest).is(t, 200, "")
	require.JSONEq(t, fmt.Sprintf(`{"state":"partial","receivedBytes":0,"limitBytes":%d,"files":[
		{"id":"f0","artifactId":"%s","state":"missing","missing":[0,1]},{"id":"f1","artifactId":"%s","state":"missing","missing":[0]},
		{"id":"f2","artifactId":"%s","state":"complete","missing":[]}]}`, jobLimit,
		probe.body.Get("files.0.artifactId"), probe.body.Get("files.1.artifactId"), probe.body.Get("files.2.artifactId")), probe.body.Raw)
	require.Equal(t, []string{"artifacts_declared", "artifact_stored"}, u.happened(t))

	half := u.send(t, u.a, manifest, chunks(0, a)[1]).is(t, 200, "")
	require.Equal(t, "partial", half.body.Get("files.0.state").String())
	require.EqualValues(t, 100, half.body.Get("receivedBytes").Int())
	require.Equal(t, map[string][]byte{"dist/2": {}}, u.readable(t))

	whole := u.send(t, u.b, manifest, chunks(0, a)[0], chunks(1, b)[0]).is(t, 200, "")
	require.Equal(t, "complete", whole.body.Get("state").String())
	u.requireHead(t, whole)
	require.Equal(t, []string{"artifacts_declared", "artifact_stored", "artifact_stored", "artifact_stored", "artifacts_completed"},
		u.happened(t))
	require.Equal(t, map[string][]byte{"dist/0": a, "dist/1": b, "dist/2": {}}, u.readable(t))
	require.Equal(t, whole.body.Raw, u.send(t, u.a, manifest).is(t, 200, "").body.Raw, "the answer was lost")
	require.Len(t, u.happened(t), 5)
}

// Nothing of a refused body is stored, except files that were complete before.
func TestRefusedUploads(t *testing.T) {
	u := newUpload(t, 1)
	a := []byte("hello")
	good := manifestPart(u.manifest(a))
	chunk := chunks(0, a)[0]
	changed := func(change func(*artifacts.Manifest)) part {
		m := u.manifest(a)
		change(&m)
		return manifestPart(m)
	}
	for name, c := range map[string]struct {
		parts  []part
		status int
		code   string
	}{
		"nothing":                  {nil, 422, "validation_failed"},
		"no manifest":              {[]part{chunk}, 422, "validation_failed"},
		"the manifest last":        {[]part{chunk, good}, 422, "validation_failed"},
		"no JSON":                  {[]part{{"manifest", []byte("{")}}, 422, "validation_failed"},
		"no files":                 {[]part{changed(func(m *artifacts.Manifest) { m.Files = nil })}, 422, "validation_failed"},
		"path leaves the folder":   {[]part{changed(func(m *artifacts.Manifest) { m.Files[0].Path = "../x" }), chunk}, 422, "validation_failed"},
		"artifact not in the spec": {[]part{changed(func(m *artifacts.Manifest) { m.Files[0].Name = "logs" }), chunk}, 422, "validation_failed"},
		"another epoch":            {[]part{changed(func(m *artifacts.Manifest) { m.Epoch = 2 }), chunk}, 403, "runner_not_owner"},
		"too large": {[]part{changed(func(m *artifacts.Manifest) { m.Files[0].Size = jobLimit + 1 }), chunk}, 413,
			"artifact_too_large"},
		"too large manifest": {[]part{{"manifest", bytes.Repeat([]byte(" "), artifacts.MaxManifest+1)}}, 422, "validation_failed"},
	} {
		t.Run(name, func(t *testing.T) {
			u.send(t, u.a, c.parts...).is(t, c.status, c.code)
			require.Empty(t, u.happened(t))
			require.Empty(t, slices.Collect(maps.Keys(u.readable(t))))
		})
	}
	u.send(t, u.a, good).is(t, 200, "")
	for name, c := range map[string]struct {
		parts  []part
		status int
		code   string
	}{
		"chunk of an unknown file": {[]part{good, {"f1.0", a}}, 422, "validation_failed"},
		"a part without name":      {[]part{good, {"", a}}, 422, "validation_failed"},
		"a longer chunk":           {[]part{good, {"f0.0", []byte("hello!")}}, 422, "validation_failed"},
		"a shorter chunk":          {[]part{good, {"f0.0", []byte("hell")}}, 422, "validation_failed"},
		"another manifest":         {[]part{changed(func(m *artifacts.Manifest) { m.Files[0].Path = "other" }), chunk}, 422, "validation_failed"},
		"another size":             {[]part{changed(func(m *artifacts.Manifest) { m.Files[0].Size++ })}, 422, "validation_failed"},
		"another digest":           {[]part{good, {"f0.0", []byte("hallo")}}, 422, "artifact_digest_mismatch"},
		"the manifest twice":       {[]part{good, good}, 422, "validation_failed"},
		"another epoch, later":     {[]part{changed(func(m *artifacts.Manifest) { m.Epoch = 2 })}, 403, "runner_not_owner"},
	} {
		t.Run(name, func(t *testing.T) {
			u.send(t, u.a, c.parts...).is(t, c.status, c.code)
			require.Equal(t, []string{"artifacts_declared"}, u.happened(t))
			require.Empty(t, slices.Collect(maps.Keys(u.readable(t))))
		})
	}
	u.send(t, u.a, good, chunk).is(t, 200, "")
	require.Equal(t, map[string][]byte{"dist/0": a}, u.readable(t))
}

func TestUploadsThatAreNotMultipart(t *testing.T) {
	u := newUpload(t, 1)
	for name, change := range map[string]func(*http.Request){
		"JSON":        func(r *http.Request) { r.Header.Set("Content-Type", "application/json") },
		"no type":     func(r *http.Request) { r.Header.Del("Content-Type") },
		"no boundary": func(r *http.Request) { r.Header.Set("Content-Type", "multipart/form-data") },
		"a long boundary": func(r *http.Request) {
			r.Header.Set("Content-Type", "multipart/form-data; boundary="+strings.Repeat("b", 71))
		},
		"another multipart":      func(r *http.Request) { r.Header.Set("Content-Type", "multipart/mixed; boundary="+boundary) },
		"malformed content type": func(r *http.Request) { r.Header.Set("Content-Type", ";;;") },
		"compressed":             func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") },
	} {
		t.Run(name, func(t *testing.T) {
			u.post(t, u.a, bytes.NewReader(body(t, manifestPart(u.manifest([]byte("a"))))), change).is(t, 415, "unsupported_media_type")
		})
	}
	u.post(t, u.a, strings.NewReader("no parts at all")).is(t, 400, "upload_incomplete")
	header := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"manifest\"\r\nX-Long: " + strings.Repeat("x", 1<<20) + "\r\n\r\n{}"
	u.post(t, u.a, strings.NewReader(header)).is(t, 422, "validation_failed")
	require.Empty(t, u.happened(t))
}

// Wherever a body breaks off, the answer says so, and another replica can continue.
func TestInterruptedUploads(t *testing.T) {
	u := newUpload(t, 2)
	a, b := content(1, chunkBytes+7), []byte("small")
	text := body(t, append(append([]part{manifestPart(u.manifest(a, b))}, chunks(1, b)...), chunks(0, a)...)...)
	for _, at := range []int{0, 10, 200, 700, 900, 1200, chunkBytes / 2, chunkBytes + 300, len(text) - 40, len(text) - 3} {
		for name, end := range map[string]io.Reader{"ends": strings.NewReader(""), "fails": iotest.ErrReader(io.ErrUnexpectedEOF)} {
			r := u.post(t, u.a, io.MultiReader(bytes.NewReader(text[:at]), end), func(r *http.Request) { r.ContentLength = -1 })
			require.Contains(t, []string{"upload_incomplete", "validation_failed"}, r.body.Get("code").String(), "%s at %d: %s", name, at, r.body)
			for path, got := range u.readable(t) {
				require.Equal(t, map[string][]byte{"dist/0": a, "dist/1": b}[path], got)
			}
		}
	}
	last := u.send(t, u.b, manifestPart(u.manifest(a, b))).is(t, 200, "")
	require.Equal(t, "[1]", last.body.Get("files.0.missing").Raw, "nobody knows where it would have ended")
	u.send(t, u.b, manifestPart(u.manifest(a, b)), chunks(0, a)[1]).is(t, 200, "")
	require.Equal(t, map[string][]byte{"dist/0": a, "dist/1": b}, u.readable(t))
}

// A too large body is refused before any of it is read.
func TestTooLargeUploadsAreNotRead(t *testing.T) {
	u := newUpload(t, 1)
	untouched := iotest.ErrReader(fmt.Errorf("somebody read it"))
	a := u.post(t, u.a, untouched, func(r *http.Request) { r.ContentLength = 310 << 20 }).is(t, 413, "artifact_too_large")
	require.EqualValues(t, jobLimit, a.body.Get("details.limitBytes").Int())
	require.EqualValues(t, 310<<20, a.body.Get("details.declaredBytes").Int())

	m := u.manifest(make([]byte, jobLimit), []byte("a"))
	head := body(t, manifestPart(m))
	head = append(head[:len(head)-len("--\r\n")], "\r\n"...)
	a = u.post(t, u.a, io.MultiReader(bytes.NewReader(head), untouched), func(r *http.Request) { r.ContentLength = -1 }).is(t, 413,
		"artifact_too_large")
	require.EqualValues(t, jobLimit+1, a.body.Get("details.declaredBytes").Int())

	// Repeated chunks count towards the size of the body, though not of the files.
	endless := io.MultiReader(bytes.NewReader(head[:0]),
		newRepeater(body(t, manifestPart(u.manifest(make([]byte, chunkBytes))), chunks(0, make([]byte, chunkBytes))[0])))
	a = u.post(t, u.a, endless, func(r *http.Request) { r.ContentLength = -1 }).is(t, 413, "artifact_too_large")
	require.Greater(t, a.body.Get("details.receivedBytes").Int(), int64(jobLimit))
}

// newRepeater repeats the last part of a body endlessly.
func newRepeater(text []byte) io.Reader {
	i := bytes.LastIndex(text[:len(text)-len(boundary)-8], []byte("--"+boundary))
	return io.MultiReader(bytes.NewReader(text[:i]), &repeater{text: text[i : len(text)-len(boundary)-6]})
}

type repeater struct {
	text []byte
	at   int
}

func (r *repeater) Read(b []byte) (int, error) {
	n := copy(b, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

// A runner learns nothing about jobs that are not its own.
func TestUploadsOfOtherRunnersGetSameAnswer(t *testing.T) {
	u := newUpload(t, 1)
	text := body(t, manifestPart(u.manifest([]byte("a"))), chunks(0, []byte("a"))[0])
	other := *u
	other.runner, other.certificate = u.enrol(t)
	want := other.post(t, u.a, bytes.NewReader(text), func(r *http.Request) {
		r.URL.Path = strings.Replace(r.URL.Path, u.job.String(), events.ID{1, 2}.String(), 1)
	}).is(t, 404, "farm_job_not_found")
	require.Equal(t, want.body.Raw, other.post(t, u.a, bytes.NewReader(text)).is(t, 404, "farm_job_not_found").body.Raw, "another runner's")

	globex, owner := u.newWorkspace(t, "globex")
	stranger := *u
	stranger.site = &site{db: u.db, clock: u.clock, a: u.a, b: u.b, workspace: globex, owner: owner}
	stranger.runner, stranger.certificate = stranger.enrol(t)
	require.Equal(t, want.body.Raw, stranger.post(t, u.a, bytes.NewReader(text)).is(t, 404, "farm_job_not_found").body.Raw,
		"another workspace's")
	stranger.post(t, u.a, bytes.NewReader(text), func(r *http.Request) { r.URL.Path = "/api/v1/farm/jobs/no-id/artifacts" }).is(t, 404,
		"farm_job_not_found")
	stranger.post(t, u.a, bytes.NewReader(text), func(r *http.Request) { r.Header.Del(header) }).is(t, 401, "runner_certificate_required")
	require.Empty(t, u.happened(t))
	u.post(t, u.a, bytes.NewReader(text)).is(t, 200, "")
}

func TestUploadsTooEarlyAndTooLate(t *testing.T) {
	_, change := stored(t)
	s := newSite(t, change)
	u := &upload{site: s, epoch: 1}
	u.runner, u.certificate = s.enrol(t)
	u.job = s.run(t, u.runner)
	manifest, chunk := manifestPart(u.manifest([]byte("a"), []byte("b"))), part{"f0.0", []byte("a")}
	u.send(t, u.a, manifest, chunk).is(t, 409, "farm_job_not_finished")
	u.finish(t, 2)
	u.send(t, u.a, manifest, chunk).is(t, 200, "")
	_, err := u.a.commands.AbandonArtifacts(t.Context(), u.abandonment())
	require.NoError(t, err)
	u.send(t, u.b, manifest, part{"f1.0", []byte("b")}).is(t, 409, "artifacts_closed")
	require.Equal(t, []string{"artifacts_declared", "artifact_stored", "artifacts_abandoned"}, u.happened(t))
	require.Equal(t, map[string][]byte{"dist/0": []byte("a")}, u.readable(t))
}

// What the runners of a workspace declare in a day is limited, and three quarters of it are for the jobs
// of one submitter. An upload that goes on is not counted again.
func TestArtifactsOfWorkspaceAreLimited(t *testing.T) {
	_, change := stored(t)
	perDay, err := limit.PerDay(1000)
	require.NoError(t, err)
	s := newSite(t, change, func(c *farm.Config) { c.ArtifactLimit = perDay })
	u := &upload{site: s, epoch: 1}
	u.runner, u.certificate = s.enrol(t)
	u.job = s.run(t, u.runner)
	u.finish(t, 1)
	file := content(1, 600)
	manifest := manifestPart(u.manifest(file))
	for range 3 {
		u.send(t, u.a, manifest).is(t, 200, "")
	}
	u.send(t, u.a, append([]part{manifest}, chunks(0, file)...)...).is(t, 200, "")

	other := *u
	other.job = s.run(t, u.runner)
	other.finish(t, 1)
	refused := other.send(t, u.a, manifest).is(t, 429, "artifact_volume_exceeded")
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	require.Empty(t, other.happened(t))
	more := manifestPart(u.manifest(content(2, 300)))
	other.send(t, u.a, more).is(t, 429, "artifact_volume_exceeded")

	s.owner = system(s.workspace)
	theirs := *u
	theirs.job = s.run(t, u.runner)
	theirs.finish(t, 1)
	theirs.send(t, u.a, more).is(t, 200, "")
	other.send(t, u.a, manifestPart(u.manifest(content(3, 50)))).is(t, 200, "")
}

// Files that could not be declared were counted already. When the runner tries again, only what they have
// more is counted.
func TestArtifactsAreCountedOnce(t *testing.T) {
	_, change := stored(t)
	perDay, err := limit.PerDay(1400) // of which a submitter may use 1050
	require.NoError(t, err)
	s := newSite(t, change, func(c *farm.Config) { c.ArtifactLimit = perDay })
	u := &upload{site: s, epoch: 1}
	u.runner, u.certificate = s.enrol(t)
	u.job = s.run(t, u.runner)
	u.finish(t, 2)
	_, err = s.db.Exec(t.Context(), `alter table events add constraint fault check (kind <> 'job.artifacts_declared') not valid`)
	require.NoError(t, err)
	for range 2 {
		u.send(t, u.a, manifestPart(u.manifest(content(1, 600)))).is(t, 500, "internal_error")
	}
	require.Empty(t, u.happened(t))
	_, err = s.db.Exec(t.Context(), `alter table events drop constraint fault`)
	require.NoError(t, err)
	u.send(t, u.a, manifestPart(u.manifest(content(1, 600), content(2, 300)))).is(t, 200, "")

	other := *u
	other.job = s.run(t, u.runner)
	other.finish(t, 1)
	other.send(t, u.a, manifestPart(u.manifest(content(3, 200)))).is(t, 429, "artifact_volume_exceeded")
	other.send(t, u.a, manifestPart(u.manifest(content(3, 90)))).is(t, 200, "")
}

func TestUploadsWithoutStore(t *testing.T) {
	s := newSite(t)
	u := &upload{site: s, epoch: 1}
	u.runner, u.certificate = s.enrol(t)
	u.job = s.run(t, u.runner)
	a := u.send(t, u.a, manifestPart(u.manifest([]byte("a")))).is(t, 503, "artifact_store_unavailable")
	require.Empty(t, a.body.Get("details").Map())
}

// Two replicas receive the same files at once. All answers agree, and each file is recorded once.
func TestTwoReplicasReceiveSameJob(t *testing.T) {
	u := newUpload(t, 2)
	a, b := content(1, chunkBytes+100), content(2, 1000)
	parts := append(append([]part{manifestPart(u.manifest(a, b))}, chunks(0, a)...), chunks(1, b)...)
	var group sync.WaitGroup
	var answers [6]answer
	for i := range answers {
		text := body(t, parts...)
		group.Go(func() { answers[i] = u.post(t, []*replica{u.a, u.b}[i%2], bytes.NewReader(text)) })
	}
	group.Wait()
	for _, a := range answers {
		require.Contains(t, []int{200, 400}, a.status, a.body.Raw) // a later request ended it
	}
	u.send(t, u.a, parts...).is(t, 200, "")
	require.Equal(t, []string{"artifacts_declared", "artifact_stored", "artifact_stored", "artifacts_completed"}, u.happened(t))
	require.Equal(t, map[string][]byte{"dist/0": a, "dist/1": b}, u.readable(t))
}

// A runner whose connection broke sends again while the service still waits for the rest: the new
// request is answered and the old one ends. The upload of a revoked runner ends too.
func TestNewUploadEndsWaitingOne(t *testing.T) {
	u := newUpload(t, 1)
	a := content(1, chunkBytes+100)
	parts := append([]part{manifestPart(u.manifest(a))}, chunks(0, a)...)
	text := body(t, parts...)
	waits := func(certificate string) (*io.PipeWriter, <-chan answer) {
		from, to := io.Pipe()
		done := make(chan answer, 1)
		go func() {
			done <- u.post(t, u.a, from, func(r *http.Request) { r.ContentLength = -1; shows(certificate)(r) })
			_ = from.Close()
		}()
		return to, done
	}
	to, done := waits(u.certificate)
	_, err := to.Write(text[:chunkBytes/2])
	require.NoError(t, err)
	u.send(t, u.a, parts[0]).is(t, 200, "")
	_, _ = to.Write(text[chunkBytes/2 : chunkBytes]) // over a network the deadline ends it without that
	require.Equal(t, "upload_incomplete", (<-done).body.Get("code").String())

	to, done = waits(u.certificate)
	_, err = to.Write(text[:chunkBytes/2])
	require.NoError(t, err)
	_, err = u.a.commands.RevokeRunner(context.WithoutCancel(t.Context()), commands.RevokeRunner{Meta: u.owner, Runner: u.runner})
	require.NoError(t, err)
	for i := chunkBytes / 2; i < len(text); i += 1000 { // slowly enough for the runner to be checked again
		if _, err := to.Write(text[i:min(i+1000, len(text))]); err != nil {
			break
		}
	}
	_ = to.Close()
	(<-done).is(t, 403, "runner_revoked")
	require.Empty(t, u.readable(t))
}
