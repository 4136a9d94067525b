package runner

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"svc/farm/runner/executor"
	"svc/farm/runner/identity"
	"svc/farm/runner/sandbox"
	"svc/farm/wire"
)

// TestMain is also the main function of a job's process and of a step's first process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == sandbox.InitCommand {
		os.Exit(sandbox.Init(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == ExecCommand {
		if err := executor.Execute(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const waitLimit = 2 * time.Minute

// A farm is a fake service over real TLS. It accepts what the protocol allows, and records
// everything else as a problem.
type farm struct {
	t      *testing.T
	server *httptest.Server
	ca     *x509.Certificate
	caKey  *ecdsa.PrivateKey

	mu               sync.Mutex
	jobs             map[attemptKey]*farmJob
	conns            []*farmConn
	hellos           []wire.Hello
	beats            []wire.Heartbeat
	declined         []wire.Decline
	problems         []string
	repeated         int
	ignoreHeartbeats bool               // heartbeats are not acknowledged
	ignoreAccepts    bool               // nor are accepts
	malformed        map[attemptKey]int // jobs whose events are refused as malformed, and how many were
	goodbyes         int
	refuse           func(w http.ResponseWriter, r *http.Request) bool
	changeWelcome    func(*wire.Welcome)
	ackDelay         func() // before an acknowledgement
	csrKeys          map[string]bool
	serials          []string
	issued           int64
	lifetime         time.Duration
	deregistered     bool
	uploads          int
	uploading        func(n int, w http.ResponseWriter, r *http.Request) bool
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
	manifest *executor.Manifest
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
	f := &farm{t: t, jobs: map[attemptKey]*farmJob{}, csrKeys: map[string]bool{}, lifetime: time.Hour}
	var err error
	f.caKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "farm"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &f.caKey.PublicKey, f.caKey)
	require.NoError(t, err)
	f.ca, err = x509.ParseCertificate(der)
	require.NoError(t, err)

	mux := http.NewServeMux()
	mux.HandleFunc("POST "+identity.RegistrationsPath, f.register)
	mux.HandleFunc("POST "+identity.RegistrationsPath+"/renew", f.register)
	mux.HandleFunc("GET "+identity.RegistrationsPath+"/self", f.self)
	mux.HandleFunc("DELETE "+identity.RegistrationsPath+"/self", f.deregister)
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
	// The server names authorities, none of which is the runner's: see tlsConfig of identity.Client.
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

// certified records the certificate of a request, and refuses a request without one.
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

func (f *farm) deregister(w http.ResponseWriter, r *http.Request) {
	if f.certified(w, r) {
		f.deregistered = true
		w.WriteHeader(204)
	}
}

func (f *farm) problem(format string, args ...any) {
	f.problems = append(f.problems, fmt.Sprintf(format, args...))
}

// enrolled returns the folder of a runner enrolled with this farm.
func (f *farm) enrolled() identity.Folder {
	folder := identity.Folder(filepath.Join(f.t.TempDir(), "data"))
	_, err := identity.Enroll(f.t.Context(), folder, identity.Enrollment{URL: f.server.URL, Token: "tok_enr_secret", ServerCA: f.caFile(),
		Name: "builder-1", Capacity: 4})
	require.NoError(f.t, err)
	return folder
}
