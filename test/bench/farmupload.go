package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"time"

	rules "svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/farm/certificate"
	"svc/farm/gateway"
)

const (
	uploadMiB   = 256
	uploadBytes = uploadMiB << 20
	uploadChunk = 8 << 20
)

// farmUpload compares an upload of 256 MiB by svc-runner's requests through the gateway with TLS with
// a handler that hashes the same bytes, writes them to a file and syncs it. MiB is the growth of the
// service's memory to its peak during an upload.
func farmUpload(ctx context.Context, s *suite) (result, error) {
	dir, err := os.MkdirTemp(".", "upload-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	dir, err = filepath.Abs(dir)
	if err != nil {
		return result{}, err
	}
	u, done, err := s.newUploader(ctx, dir)
	if err != nil {
		return result{}, err
	}
	defer done()
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := hashAndWrite(filepath.Join(dir, "bare"), r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	defer bare.Close()
	r, err := compare(ctx, func() (work, error) { return u.upload(ctx) }, func() (work, error) {
		begun := time.Now()
		if err := post(ctx, bare.Client(), bare.URL, "application/octet-stream", http.Header{}, bytes.NewReader(u.content), nil); err != nil {
			return work{}, err
		}
		return work{uploadMiB, time.Since(begun)}, os.Remove(filepath.Join(dir, "bare"))
	})
	if err == nil {
		r.Note["MiB"], r.Note["first_MiB"] = int(median(u.memoryGrowth[1:])), int(u.memoryGrowth[0])
		r.Note["processor_time"] = twoDecimals(median(r.CPURatios)) // ours divided by theirs
	}
	return r, err
}

// hashAndWrite writes a body to a file, hashes it meanwhile, and syncs the file once.
func hashAndWrite(name string, body io.Reader) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.CopyBuffer(io.MultiWriter(f, sum), struct{ io.Reader }{body}, make([]byte, 256<<10)); err != nil {
		return err
	}
	sum.Sum(nil)
	return f.Sync()
}

// An uploader is a runner and the gateway through which it uploads.
type uploader struct {
	farm         *farm
	machine      machine
	service      *serviceProcess
	client       *http.Client
	gateway      string
	store        string
	content      []byte
	digest       string
	memoryGrowth []float64
}

// newUploader starts the service and a gateway with TLS, and connects a runner. The function it returns
// stops all of them.
func (s *suite) newUploader(ctx context.Context, dir string) (*uploader, func(), error) {
	db, err := s.database(ctx)
	if err != nil {
		return nil, nil, err
	}
	u := &uploader{farm: newFarm(db, notifyNobody), store: filepath.Join(dir, "store"), content: make([]byte, uploadBytes)}
	_, _ = rand.NewChaCha8([32]byte{}).Read(u.content)
	sum := sha256.Sum256(u.content)
	u.digest = hex.EncodeToString(sum[:])
	list, err := u.farm.enrolMachines(ctx, events.NewID(time.Now()), 1, 1)
	if err == nil {
		u.machine = list[0]
		_, err = u.farm.commands.ConnectRunner(ctx,
			commands.ConnectRunner{Meta: systemMeta(u.machine.workspace), Runner: u.machine.id, Hello: rules.Hello{
				Capacity: 1, Agent: events.Agent{Version: "1", OS: "linux", Arch: "amd64", Sandboxes: []string{"none"}},
			}})
	}
	if err == nil {
		err = os.Mkdir(u.store, 0o700)
	}
	if err == nil {
		u.service, err = s.startRest(ctx, db.Config().ConnString(), "SVC_FARM_CLIENT_CERT_HEADER="+certificateHeader, "SVC_LOG_LEVEL=error",
			"SVC_ARTIFACT_STORE="+u.store)
	}
	if err != nil {
		u.farm.log.Close()
		db.Close()
		return nil, nil, err
	}
	shown, err := u.certificate()
	if err != nil {
		return nil, nil, err
	}
	upstream := &url.URL{Scheme: "http", Host: u.service.addr}
	proxy := gateway.New(upstream, certificateHeader, gateway.Rules(uploadBytes), slog.New(slog.DiscardHandler))
	front := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.TLS.PeerCertificates = []*x509.Certificate{shown} // instead of a TLS handshake with it
		proxy.ServeHTTP(w, r)
	}))
	u.client, u.gateway = front.Client(), front.URL
	return u, func() { front.Close(); proxy.Close(); u.service.stop(); u.farm.log.Close(); db.Close() }, nil
}

func (u *uploader) certificate() (*x509.Certificate, error) {
	text, err := url.PathUnescape(u.machine.header)
	if err != nil {
		return nil, err
	}
	return certificate.Parse(text)
}

// finishedJob creates a job that the runner has finished and that has one artifact to upload.
func (u *uploader) finishedJob(ctx context.Context) (events.ID, error) {
	id, by := events.NewID(time.Now()), systemMeta(u.machine.workspace)
	_, err := u.farm.commands.SubmitJob(ctx, commands.SubmitJob{Meta: by, Job: id, Spec: events.JobSpec{
		Name: "tests", Steps: []events.JobStep{{Name: "test", Run: "make test"}}, Sandbox: events.JobSandbox{Kind: "none", Network: "host"},
		Artifacts: []events.JobArtifactSpec{{Name: "dist", Paths: []string{"dist"}}}, Priority: events.NormalPriority,
		Timeouts: events.JobTimeouts{QueueSeconds: 86400, RunSeconds: 3600}, Retry: events.JobRetry{MaxAttempts: 1},
	}})
	if err == nil {
		_, err = u.farm.commands.LeaseJob(ctx, commands.LeaseJob{Meta: by, Job: id, Runner: u.machine.id})
	}
	for seq, e := range []events.Event{events.JobStarted{}, events.JobFinished{Reported: "succeeded", Artifacts: 1}} {
		if err == nil {
			_, err = u.farm.commands.ReportJob(ctx, commands.ReportJob{
				Meta: by, Job: id, Runner: u.machine.id, Report: rules.JobReport{Epoch: 1, Seq: int64(seq + 1), Event: e},
			})
		}
	}
	return id, err
}

// upload uploads an artifact as a runner does.
func (u *uploader) upload(ctx context.Context) (work, error) {
	id, err := u.finishedJob(ctx)
	if err != nil {
		return work{}, err
	}
	before, err := u.service.memory()
	if err == nil {
		err = u.service.resetPeakMemory()
	}
	if err != nil {
		return work{}, err
	}
	begun := time.Now()
	var answer struct{ State string }
	address := u.gateway + "/api/v1/farm/jobs/" + id.String() + "/artifacts"
	for _, chunks := range []int{0, uploadBytes / uploadChunk} { // a runner first asks which chunks are missing
		body, kind := u.form(chunks)
		if err := post(ctx, u.client, address, kind, http.Header{}, body, &answer); err != nil {
			return work{}, err
		}
	}
	uploaded := work{uploadMiB, time.Since(begun)}
	if answer.State != "complete" {
		return work{}, fmt.Errorf("the upload is %s", answer.State)
	}
	peak, err := u.service.peakMemory()
	u.memoryGrowth = append(u.memoryGrowth, peak-before)
	return uploaded, errors.Join(err, os.RemoveAll(filepath.Join(u.store, u.machine.workspace.String(), id.String())))
}

// A sizedBody is a request body of known length.
type sizedBody struct {
	io.Reader
	size int64
}

// form returns the body of an upload of the first chunks, without copying the file, and its content type.
func (u *uploader) form(chunks int) (sizedBody, string) {
	var head bytes.Buffer
	form := multipart.NewWriter(&head)
	var parts []io.Reader
	size := int64(chunks * uploadChunk)
	flush := func() {
		size += int64(head.Len())
		parts = append(parts, bytes.NewReader(bytes.Clone(head.Bytes())))
		head.Reset()
	}
	manifest, _ := form.CreateFormField("manifest")
	fmt.Fprintf(manifest, `{"epoch":1,"files":[{"id":"f1","name":"dist","path":"dist","size":%d,"sha256":"%s","chunkBytes":%d,"mode":420}]}`,
		uploadBytes, u.digest, uploadChunk)
	for n := range chunks {
		_, _ = form.CreateFormField(fmt.Sprintf("f1.%d", n))
		flush()
		parts = append(parts, bytes.NewReader(u.content[n*uploadChunk:(n+1)*uploadChunk]))
	}
	_ = form.Close()
	flush()
	return sizedBody{io.MultiReader(parts...), size}, form.FormDataContentType()
}

// post sends a body, and decodes the answer into answer unless that is nil.
func post(ctx context.Context, client *http.Client, address, kind string, header http.Header, body io.Reader, answer any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, body)
	if err != nil {
		return err
	}
	if sized, ok := body.(sizedBody); ok {
		r.ContentLength = sized.size
	}
	r.Header = header
	r.Header.Set("Content-Type", kind)
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return err
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("post %s: %d %s", address, res.StatusCode, text)
	case answer == nil:
		return nil
	}
	return json.Unmarshal(text, answer)
}
