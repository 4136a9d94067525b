package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"svc/commands"
	"svc/config"
	"svc/events"
	"svc/events/store"
	"svc/farm/certificate"
	"svc/farm/ingest"
	"svc/farm/wire"
	"svc/projections/farmviews"
	"svc/vault"
)

const certificateHeader = "X-Svc-Client-Cert"

// A farm is a database with workspaces and runners, and a command handler that submits jobs to them.
type farm struct {
	db          *pgxpool.Pool
	log         *store.Store
	commands    *commands.Handler
	authorities map[events.ID]*certificate.Authority // by workspace
}

// newFarm returns a farm on a database. moved is called after each append.
func newFarm(db *pgxpool.Pool, moved func(events.ID, int64)) *farm {
	f := &farm{db: db, log: newLog(db, moved, ingest.Leases{}), authorities: map[events.ID]*certificate.Authority{}}
	f.commands = commands.New(f.log, time.Now)
	f.commands.Views = commands.Views{Turn: turnByTime, KeyUse: farmviews.Jobs{DB: db}.KeyUse}
	return f
}

// systemMeta returns the metadata of a command that the service issues by itself.
func systemMeta(workspace events.ID) commands.Meta {
	return commands.Meta{Workspace: workspace, Envelope: events.Envelope{
		Actor: events.Actor{Type: events.BySystem, Name: "system"}, Origin: events.FromSystem,
	}}
}

// submit submits a job. The changes are applied to its default specification.
func (f *farm) submit(ctx context.Context, workspace events.ID, change ...func(*events.JobSpec)) (events.ID, error) {
	id := events.NewID(time.Now())
	spec := events.JobSpec{
		Name: "tests", Steps: []events.JobStep{{Name: "test", Run: "make test"}},
		Sandbox: events.JobSandbox{Kind: "none", Network: "host"}, Priority: events.NormalPriority,
		Timeouts: events.JobTimeouts{QueueSeconds: 86400, RunSeconds: 3600, CancelGraceSeconds: 10},
		Retry:    events.JobRetry{MaxAttempts: 3, On: []string{"lost", "infra"}},
	}
	for _, f := range change {
		f(&spec)
	}
	_, err := f.commands.SubmitJob(ctx, commands.SubmitJob{Meta: systemMeta(workspace), Job: id, Spec: spec})
	return id, err
}

func requireLabel(label string) func(*events.JobSpec) {
	return func(s *events.JobSpec) { s.Requires.Labels = []string{label} }
}

// limitToOne lets jobs with the same key run one at a time.
func limitToOne(key string) func(*events.JobSpec) {
	return func(s *events.JobSpec) { s.Concurrency = &events.JobConcurrency{Key: key, Limit: 1} }
}

// A machine is an enrolled runner. header is its certificate as a gateway forwards it.
type machine struct {
	workspace, id events.ID
	header        string
}

// authority returns the certificate authority of a workspace, and creates it on first use.
func (f *farm) authority(ctx context.Context, workspace events.ID) (*certificate.Authority, error) {
	if a := f.authorities[workspace]; a != nil {
		return a, nil
	}
	ring, err := vault.NewRing([]config.Secret{secret}) // the service's, which trusts only authorities in its vault
	if err != nil {
		return nil, err
	}
	secrets := vault.Secrets{DB: f.db, Ring: ring}
	key, text, err := secrets.GetOrCreate(ctx, certificate.SecretName(workspace), func() ([]byte, string, error) {
		return certificate.MakeAuthority(workspace, time.Now())
	})
	if err != nil {
		return nil, err
	}
	a, err := certificate.OpenAuthority(text, key)
	if err != nil {
		return nil, err
	}
	f.authorities[workspace] = a
	return a, f.append(ctx, workspace, events.AuthorityStream, events.AuthorityCreated{
		Authority: a.ID, Certificate: a.PEM(), NotAfter: a.Certificate.NotAfter.UTC(),
	})
}

// enrolMachines enrolls n runners in a workspace by appending the events of an enrollment.
func (f *farm) enrolMachines(ctx context.Context, workspace events.ID, n, capacity int) ([]machine, error) {
	now := time.Now()
	authority, err := f.authority(ctx, workspace)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	request := certificate.Request{Key: key.Public(), Hash: sha256.Sum256(der)}
	list := make([]machine, n)
	var group errgroup.Group
	group.SetLimit(connections)
	for i := range list {
		group.Go(func() error {
			id := events.NewID(now)
			c := certificate.NewLeaf(authority.ID, request.Hash, now)
			text, err := authority.Issue("farm.example", workspace, id, c, request)
			if err != nil {
				return err
			}
			list[i] = machine{workspace, id, url.PathEscape(text)}
			return f.append(ctx, workspace, id, events.RunnerEnrolled{
				Runner: id, Name: fmt.Sprintf("m%d", i), Enrollment: id, Labels: []string{}, MintedLabels: []string{}, ExclusiveLabels: []string{},
				Capacity: capacity, CapacityLimit: capacity, Agent: events.Agent{Version: "1", OS: "linux", Arch: "amd64", Sandboxes: []string{"none"}},
				Certificate: c,
			})
		})
	}
	return list, group.Wait()
}

// append appends one event to a new stream.
func (f *farm) append(ctx context.Context, workspace, stream events.ID, e events.Event) error {
	_, err := f.log.Append(ctx, &events.Commit{
		Workspace: workspace, Envelope: systemMeta(workspace).Envelope, At: time.Now(),
		Writes: []events.Write{{Stream: stream, Events: []events.Event{e}}},
	})
	return err
}

// startFarmService starts the service with the farm's routes. A low GOGC makes memory figures those of live memory.
func (s *suite) startFarmService(ctx context.Context, db *pgxpool.Pool) (*serviceProcess, error) {
	return s.startRest(ctx, db.Config().ConnString(), "SVC_FARM_CLIENT_CERT_HEADER="+certificateHeader, "SVC_LOG_LEVEL=error", "GOGC=50")
}

// An agent is the connection of a machine to the service.
type agent struct {
	machine
	socket   *websocket.Conn
	received chan wire.Envelope // all messages except acknowledgements
	// Both are read when such an answer arrives, so they are assigned before the message that it answers is sent.
	onAck          func(e wire.Envelope, upto int64)
	onHeartbeatAck func(seq int64)
	mu             sync.Mutex // serialises writes
	readErr        error
}

// dial connects an agent, sends its hello and waits for the welcome.
func dial(ctx context.Context, addr string, m machine, capacity int) (*agent, error) {
	dialer := websocket.Dialer{Subprotocols: []string{wire.Version}, ReadBufferSize: 1 << 10, WriteBufferPool: &sync.Pool{},
		HandshakeTimeout: time.Minute}
	socket, answer, err := dialer.DialContext(ctx, "ws://"+addr+"/api/v1/farm/agent", http.Header{certificateHeader: {m.header}})
	if err != nil {
		return nil, fmt.Errorf("connect a runner: %w", err)
	}
	if err := answer.Body.Close(); err != nil {
		return nil, err
	}
	socket.SetPingHandler(func(text string) error { // with a long deadline: a slow service must not end the connection
		return socket.WriteControl(websocket.PongMessage, []byte(text), time.Now().Add(time.Minute))
	})
	a := &agent{machine: m, socket: socket, received: make(chan wire.Envelope, 128)}
	hello := wire.Hello{Version: "1", OS: "linux", Arch: "amd64", Capacity: capacity, Sandboxes: []string{"none"}}
	if err := a.send(hello, events.ID{}, 0, 0); err != nil {
		return nil, err
	}
	go a.read()
	if _, err := a.receive(ctx, wire.TypeWelcome); err != nil {
		return nil, err
	}
	return a, nil
}

// read dispatches incoming messages until the connection ends. It then closes received.
func (a *agent) read() {
	defer close(a.received)
	for {
		_, frame, err := a.socket.ReadMessage()
		if err != nil {
			a.readErr = err
			return
		}
		e, err := wire.Decode(frame)
		if err != nil {
			a.readErr = err
			return
		}
		switch {
		case e.Type == wire.TypeAck && a.onAck != nil:
			ack, _ := wire.Read[wire.Ack](e)
			a.onAck(e, ack.Upto)
		case e.Type == wire.TypeHeartbeatAck:
			ack, _ := wire.Read[wire.HeartbeatAck](e)
			if a.onHeartbeatAck != nil {
				a.onHeartbeatAck(ack.Seq)
			}
		default:
			a.received <- e
		}
	}
}

var errConnectionEnded = errors.New("the connection has ended")

// receive returns the next message of a kind and drops all others before it.
func (a *agent) receive(ctx context.Context, kind wire.Type) (wire.Envelope, error) {
	for {
		select {
		case e, ok := <-a.received:
			if !ok {
				return e, fmt.Errorf("%w: %w", errConnectionEnded, a.readErr)
			}
			if e.Type == kind {
				return e, nil
			}
		case <-ctx.Done():
			return wire.Envelope{}, ctx.Err()
		}
	}
}

// send sends a message. The zero job stands for none.
func (a *agent) send(m wire.Message, job events.ID, epoch int, seq int64) error {
	name := ""
	if !job.IsZero() {
		name = job.String()
	}
	frame, err := wire.EncodeFor(m, time.Now(), name, epoch, seq)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.socket.WriteMessage(websocket.TextMessage, frame)
}

// dialAll connects agents, 64 at a time.
func dialAll(ctx context.Context, addr string, list []machine, capacity int) ([]*agent, error) {
	agents := make([]*agent, len(list))
	var group errgroup.Group
	group.SetLimit(64)
	for i, m := range list {
		group.Go(func() (err error) {
			agents[i], err = dial(ctx, addr, m, capacity)
			return err
		})
	}
	return agents, group.Wait()
}

func closeAll(agents []*agent) {
	for _, a := range agents {
		if a != nil {
			_ = a.socket.Close()
		}
	}
}

// turnByTime returns the current time in milliseconds as the turn of a job, which puts the job behind all earlier ones.
func turnByTime(events.ID, events.ID, events.JobSpec) func(context.Context) (string, int64, error) {
	return func(context.Context) (string, int64, error) { return "key", time.Now().UnixMilli(), nil }
}
