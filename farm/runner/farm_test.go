package runner

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/artifacts"
	"svc/farm/runner/sandbox"
	"svc/farm/wire"
)

// The test's program is also the process of a job, and a step's first process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == sandbox.InitCommand {
		os.Exit(sandbox.Init(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == ExecCommand {
		if err := Execute(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const patience = 30 * time.Second

// A farm is the service as a runner sees it, over real TLS: it takes in what the protocol
// lets it, and notes what it does not.
type farm struct {
	t      *testing.T
	server *httptest.Server
	ca     *x509.Certificate
	caKey  *ecdsa.PrivateKey

	mu        sync.Mutex
	jobs      map[key]*farmJob
	conns     []*farmConn
	hellos    []wire.Hello
	beats     []wire.Heartbeat
	declined  []wire.Decline
	problems  []string
	repeated  int
	deaf      bool        // heartbeats are not acknowledged
	malformed map[key]int // events of these jobs are, and so many came
	goodbyes  int
	refuse    func(w http.ResponseWriter, r *http.Request) bool
	tweak     func(*wire.Welcome)
	ackDelay  func() // before an acknowledgement
	csrKeys   map[string]bool
	serials   []string
	issued    int64
	lifetime  time.Duration
	uploads   int
	uploading func(n int, w http.ResponseWriter, r *http.Request) bool
}

type farmJob struct {
	spec     wire.Assign
	accepted int
	last     int64
	events   []wire.Event
	log      []byte
	cut      bool
	cancel   *wire.Cancel
	stopped  bool
	files    map[string][]byte
	manifest *manifest
	complete bool
}

func (j *farmJob) end() *wire.Event {
	for _, e := range j.events {
		if e.Kind == wire.EventFinished {
			return &e
		}
	}
	return nil
}

type farmConn struct {
	f  *farm
	ws *websocket.Conn
	mu sync.Mutex
}

func newFarm(t *testing.T) *farm {
	f := &farm{t: t, jobs: map[key]*farmJob{}, csrKeys: map[string]bool{}, lifetime: time.Hour}
	var err error
	f.caKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "farm"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &f.caKey.PublicKey, f.caKey)
	require.NoError(t, err)
	f.ca, err = x509.ParseCertificate(der)
	require.NoError(t, err)

	mux := http.NewServeMux()
	mux.HandleFunc("POST "+registrations, f.register)
	mux.HandleFunc("POST "+registrations+"/renew", f.register)
	mux.HandleFunc("GET "+registrations+"/self", f.self)
	mux.HandleFunc("GET /api/v1/farm/agent", f.agent)
	mux.HandleFunc("POST /api/v1/farm/jobs/{id}/artifacts", f.artifacts)
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		refuse := f.refuse
		f.mu.Unlock()
		if refuse == nil || !refuse(w, r) {
			mux.ServeHTTP(w, r)
		}
	}))
	// It names authorities, of which none is the runner's: see link.tls.
	others := x509.NewCertPool()
	others.AddCert(&x509.Certificate{Raw: []byte{1}, RawSubject: []byte{0x30, 0x00}})
	f.server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, ClientCAs: others}
	f.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	f.server.StartTLS()
	t.Cleanup(f.server.Close)
	t.Cleanup(f.cutAll)
	return f
}

func (f *farm) caFile() string {
	file := filepath.Join(f.t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
	require.NoError(f.t, os.WriteFile(file, text, 0o600))
	return file
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func refuseWith(w http.ResponseWriter, status int, code string) {
	answer(w, status, map[string]any{"code": code, "message": code, "details": map[string]any{}})
}

func (f *farm) register(w http.ResponseWriter, r *http.Request) {
	var in struct{ Token, CSR, Name string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	block, _ := pem.Decode([]byte(in.CSR))
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || csr.CheckSignature() != nil {
		refuseWith(w, 422, "validation_failed")
		return
	}
	if strings.HasSuffix(r.URL.Path, "/renew") != (len(r.TLS.PeerCertificates) > 0) {
		refuseWith(w, 401, "runner_certificate_required")
		return
	}
	public, _ := x509.MarshalPKIXPublicKey(csr.PublicKey)
	f.mu.Lock()
	f.csrKeys[string(public)] = true
	f.issued++
	serial := big.NewInt(1000 + f.issued)
	lifetime := f.lifetime
	f.mu.Unlock()
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: time.Now().Add(-time.Second), NotAfter: time.Now().Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, f.ca, csr.PublicKey, f.caKey)
	if err != nil {
		panic(err)
	}
	answer(w, 201, map[string]any{
		"runnerId": "019aa100-0f3c-7a51-8c22-5b7d90e1f6a4", "workspaceId": "019aa0f3-d2e7-71b4-8f60-74c95de01ab8", "name": "builder-1",
		"certificate": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), "serial": fmt.Sprintf("%x", serial),
		"notBefore": template.NotBefore, "notAfter": template.NotAfter,
		"agentUrl": strings.Replace(f.server.URL, "https://", "wss://", 1) + "/api/v1/farm/agent", "releaseKeys": []string{"ed25519:key"},
	})
}

// certified notes the certificate of a request, and refuses one without.
func (f *farm) certified(w http.ResponseWriter, r *http.Request) bool {
	if len(r.TLS.PeerCertificates) == 0 {
		refuseWith(w, 401, "runner_certificate_required")
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.serials = append(f.serials, fmt.Sprintf("%x", r.TLS.PeerCertificates[0].SerialNumber))
	return true
}

func (f *farm) self(w http.ResponseWriter, r *http.Request) {
	if f.certified(w, r) {
		answer(w, 200, map[string]any{"name": "builder-1", "state": "online", "serverTime": time.Now()})
	}
}

func (f *farm) problem(format string, args ...any) {
	f.problems = append(f.problems, fmt.Sprintf(format, args...))
}

func (f *farm) agent(w http.ResponseWriter, r *http.Request) {
	if !f.certified(w, r) {
		return
	}
	up := websocket.Upgrader{Subprotocols: []string{wire.Version}}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer ws.Close()
	c := &farmConn{f: f, ws: ws}
	_, frame, err := ws.ReadMessage()
	if err != nil {
		return
	}
	e, err := wire.Decode(frame)
	hello, bad := wire.Read[wire.Hello](e)
	f.mu.Lock()
	if err != nil || bad != nil {
		f.problem("hello: %s", frame)
	}
	f.hellos = append(f.hellos, hello)
	welcome, again := f.welcome(hello)
	f.conns = append(f.conns, c)
	c.say(welcome, key{})
	for k, spec := range again {
		c.say(spec, k)
	}
	f.mu.Unlock()
	for {
		kind, frame, err := ws.ReadMessage()
		if err != nil {
			return
		}
		c.take(kind, frame)
	}
}

// welcome has a verdict on each job that is held, and assigns again what is not.
func (f *farm) welcome(h wire.Hello) (wire.Welcome, map[key]wire.Assign) {
	w := wire.Welcome{Connection: fmt.Sprint(len(f.hellos)), HeartbeatSeconds: 1, LeaseSeconds: 90, ServerTime: time.Now()}
	known := map[key]bool{}
	for _, h := range h.Held {
		k := key{h.Job, h.Epoch}
		known[k] = true
		j := f.jobs[k]
		v := wire.Verdict{Job: h.Job, Epoch: h.Epoch, Verdict: wire.StopJob}
		switch {
		case j == nil || j.stopped:
		case j.end() != nil:
			v.Verdict, v.Artifacts = wire.Done, !j.complete && j.end().Artifacts > 0
		case j.cancel != nil:
			v.Verdict, v.GraceSeconds = wire.CancelJob, j.cancel.GraceSeconds
		default:
			v.Verdict = wire.Continue
		}
		if j != nil {
			v.Acked = j.last
		}
		w.Held = append(w.Held, v)
	}
	again := map[key]wire.Assign{}
	for k, j := range f.jobs {
		if _, begun := f.malformed[k]; !begun && !known[k] && j.end() == nil && !j.stopped && !h.Draining {
			again[k] = j.spec
		}
	}
	if f.tweak != nil {
		f.tweak(&w)
	}
	return w, again
}

func (c *farmConn) say(m wire.Message, k key) {
	frame, err := wire.EncodeFor(m, time.Now(), k.job, k.epoch, 0)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.ws.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_ = c.ws.WriteMessage(websocket.TextMessage, frame)
}

// take is the service's ingest: the next number of a job alone changes anything.
func (c *farmConn) take(kind int, frame []byte) {
	f := c.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if kind == websocket.BinaryMessage {
		chunk, err := wire.DecodeChunk(frame)
		if err != nil {
			f.problem("chunk: %v", err)
			return
		}
		k := key{events.ID(chunk.Job).String(), chunk.Epoch}
		c.numbered(k, chunk.Seq, func(j *farmJob) {
			if chunk.Offset != int64(len(j.log)) || j.cut {
				f.problem("%v: chunk %d at %d instead of %d", k, chunk.Seq, chunk.Offset, len(j.log))
			}
			j.log = append(j.log, chunk.Data...)
			j.cut = chunk.Flags&wire.Truncated != 0
		})
		return
	}
	e, err := wire.Decode(frame)
	if err != nil {
		f.problem("frame: %v", err)
		return
	}
	k := key{e.Job, e.Epoch}
	switch e.Type {
	case wire.TypeHeartbeat:
		h, _ := wire.Read[wire.Heartbeat](e)
		f.beats = append(f.beats, h)
		if !f.deaf {
			c.say(wire.HeartbeatAck{Seq: h.Seq}, key{})
		}
	case wire.TypeAccept:
		if j := f.jobs[k]; j != nil {
			j.accepted++
		}
	case wire.TypeDecline:
		d, _ := wire.Read[wire.Decline](e)
		f.declined = append(f.declined, d)
		delete(f.jobs, k)
	case wire.TypeGoodbye:
		f.goodbyes++
	case wire.TypeEvent:
		event, err := wire.Read[wire.Event](e)
		if err != nil {
			f.problem("event: %v", err)
		}
		if n, ok := f.malformed[k]; ok {
			f.malformed[k] = n + 1
			c.mu.Lock()
			defer c.mu.Unlock()
			_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(wire.CloseProtocol, ""), time.Now().Add(time.Second))
			_ = c.ws.NetConn().Close()
			return
		}
		c.numbered(k, e.Seq, func(j *farmJob) {
			if j.end() != nil {
				f.problem("%v: %s after the end", k, event.Kind)
			}
			j.events = append(j.events, event)
		})
	case wire.TypeDrain:
	default:
		f.problem("message %s", e.Type)
	}
}

func (c *farmConn) numbered(k key, seq int64, take func(*farmJob)) {
	j := c.f.jobs[k]
	switch {
	case j == nil || j.stopped:
		c.say(wire.Stop{}, k)
		return
	case seq <= j.last:
		c.f.repeated++
	case seq > j.last+1:
		c.say(wire.Error{Code: wire.CodeGap, Expected: j.last + 1}, k)
		return
	default:
		j.last = seq
		take(j)
	}
	upto := j.last
	if c.f.ackDelay == nil {
		c.say(wire.Ack{Upto: upto}, k)
		return
	}
	delay := c.f.ackDelay
	go func() { // and out of order
		delay()
		c.say(wire.Ack{Upto: upto}, k)
	}()
}

// assign queues a job for the runner, and hands it out if one is connected.
func (f *farm) assign(spec wire.Assign) key {
	k := key{events.NewID(time.Now()).String(), 1}
	f.assignAs(k, spec)
	return k
}

func (f *farm) assignAs(k key, spec wire.Assign) {
	if spec.Sandbox.Kind == "" {
		spec.Sandbox = wire.Sandbox{Kind: sandbox.None, Network: "host"}
	}
	if spec.LeaseSeconds == 0 {
		spec.LeaseSeconds = 90
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs[k] = &farmJob{spec: spec, files: map[string][]byte{}}
	if n := len(f.conns); n > 0 {
		f.conns[n-1].say(spec, k)
	}
}

// tell says something to the runner that is connected.
func (f *farm) tell(m wire.Message, k key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cancel, ok := m.(wire.Cancel); ok {
		f.jobs[k].cancel = &cancel
	}
	if n := len(f.conns); n > 0 {
		f.conns[n-1].say(m, k)
	}
}

// cutAll breaks all connections.
func (f *farm) cutAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		_ = c.ws.NetConn().Close()
	}
	f.conns = nil
}

func (f *farm) close(code int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), time.Now().Add(time.Second))
		_ = c.ws.NetConn().Close()
	}
	f.conns = nil
}

// with looks at a job under the lock.
func (f *farm) with(k key, look func(*farmJob) bool) func() bool {
	return func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.jobs[k] != nil && look(f.jobs[k])
	}
}

func (f *farm) check(look func() bool) func() bool {
	return func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return look()
	}
}

func (f *farm) ended(k key) wire.Event {
	f.t.Helper()
	require.Eventually(f.t, f.with(k, func(j *farmJob) bool { return j.end() != nil }), patience, 5*time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Empty(f.t, f.problems)
	return *f.jobs[k].end()
}

func (f *farm) log(k key) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.jobs[k].log)
}

func (f *farm) kinds(k key) (list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.jobs[k].events {
		list = append(list, e.Kind)
	}
	return list
}

// artifacts is the service's upload: the manifest first, chunks by their names.
func (f *farm) artifacts(w http.ResponseWriter, r *http.Request) {
	if !f.certified(w, r) {
		return
	}
	f.mu.Lock()
	f.uploads++
	n, hook := f.uploads, f.uploading
	f.mu.Unlock()
	if hook != nil && hook(n, w, r) {
		return
	}
	form, err := r.MultipartReader()
	if err != nil {
		refuseWith(w, 415, "unsupported_media_type")
		return
	}
	part, err := form.NextPart()
	if err != nil || part.FormName() != "manifest" {
		refuseWith(w, 422, "validation_failed")
		return
	}
	var m manifest
	text, _ := io.ReadAll(part)
	if _, err := artifacts.ReadManifest(bytes.NewReader(text), 1<<30); err != nil {
		f.problem("manifest: %v", err)
		refuseWith(w, 422, "validation_failed")
		return
	}
	_ = json.Unmarshal(text, &m)
	k := key{r.PathValue("id"), m.Epoch}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			refuseWith(w, 400, "upload_incomplete")
			return
		}
		data, err := io.ReadAll(part)
		if err != nil {
			refuseWith(w, 400, "upload_incomplete")
			return
		}
		f.mu.Lock()
		f.jobs[k].files[part.FormName()] = data
		f.mu.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	j := f.jobs[k]
	if j == nil || j.end() == nil {
		refuseWith(w, 409, "farm_job_not_finished")
		return
	}
	if j.manifest != nil && !slices.Equal(j.manifest.Files, m.Files) {
		f.problem("another manifest")
	}
	j.manifest = &m
	answer(w, 200, f.uploaded(j))
}

func (f *farm) uploaded(j *farmJob) map[string]any {
	var files []map[string]any
	j.complete = true
	for _, file := range j.manifest.Files {
		var whole []byte
		var missing []int64
		for n := int64(0); n*file.ChunkBytes < file.Size; n++ {
			data, ok := j.files[fmt.Sprintf("%s.%d", file.ID, n)]
			if !ok {
				missing = append(missing, n)
			}
			whole = append(whole, data...)
		}
		state := "complete"
		if sum := sha256.Sum256(whole); len(missing) > 0 {
			state, j.complete = "partial", false
		} else if hex.EncodeToString(sum[:]) != file.SHA256 {
			f.problem("digest of %s", file.Path)
		}
		files = append(files, map[string]any{"id": file.ID, "state": state, "missing": missing})
	}
	if j.complete {
		return map[string]any{"state": "complete", "files": files}
	}
	return map[string]any{"state": "partial", "files": files}
}

// enrolled is the folder of a runner of this farm.
func (f *farm) enrolled() Folder {
	folder := Folder(filepath.Join(f.t.TempDir(), "data"))
	_, err := Enroll(f.t.Context(), folder, Enrollment{URL: f.server.URL, Token: "tok_enr_secret", ServerCA: f.caFile(), Name: "builder-1", Capacity: 4})
	require.NoError(f.t, err)
	return folder
}

// Lines is a log that may be read while it is written.
type lines struct {
	mu  sync.Mutex
	got bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.got.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.got.String()
}

// A running is a supervisor in this process.
type running struct {
	t      *testing.T
	s      *Supervisor
	stop   chan os.Signal
	cancel context.CancelFunc
	done   chan error
	log    *lines
}

func start(t *testing.T, folder Folder, change ...func(*Config)) *running {
	r := &running{t: t, stop: make(chan os.Signal, 2), done: make(chan error, 1), log: &lines{}}
	cfg := Config{Folder: folder, Program: "/proc/self/exe", Stop: r.stop, GitProtocols: "file", MinDiskFree: 1,
		Log: slog.New(slog.NewTextHandler(r.log, nil))}
	for _, c := range change {
		c(&cfg)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	var err error
	r.s, err = NewSupervisor(ctx, cfg)
	require.NoError(t, err)
	go func() { r.done <- r.s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		_ = r.wait()
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	return r
}

// quick comes back at once.
func quick(c *Config) { c.Backoff = func(int) time.Duration { return time.Millisecond } }

// wait returns with what Run has.
func (r *running) wait() error {
	select {
	case err := <-r.done:
		r.done <- err
		return err
	case <-time.After(patience):
		r.t.Error("the supervisor does not end")
		return nil
	}
}

func (r *running) empty() {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return len(r.s.list()) == 0 }, patience, 5*time.Millisecond)
	for _, name := range []string{spoolFolder, workFolder} {
		left, err := os.ReadDir(r.s.cfg.Folder.path(name))
		require.NoError(r.t, err)
		require.Empty(r.t, left, name)
	}
}

func steps(scripts ...string) (list []wire.Step) {
	for i, s := range scripts {
		list = append(list, wire.Step{Name: fmt.Sprintf("step %d", i), Run: s})
	}
	return list
}
