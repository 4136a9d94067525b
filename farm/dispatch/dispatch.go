package dispatch

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/commands"
	"svc/events"
	"svc/events/feed"
	"svc/farm/ingest"
	"svc/farm/joblog"
	"svc/farm/wire"
	"svc/fault"
)

// A Config holds what a dispatcher works with. The fields at the end default to the value in their
// comment when zero, except LogRetention and ArtifactRetention.
type Config struct {
	DB       *pgxpool.Pool
	Commands *commands.Handler
	Live     *feed.Feed
	Logs     *joblog.Logs
	Leads    func(name string) bool
	Now      func() time.Time
	Log      *slog.Logger

	// Reveal returns the secrets of a workspace by name, as [svc/farm/secrets.Secrets] does.
	Reveal func(ctx context.Context, workspace events.ID, names []string) (map[string]string, error)

	// CloneURL returns the URL to clone a repository of a workspace from, with the password that it needs, or "" if it
	// is not known. name is its name when the job was submitted. The error is an [UnclonableError] if the job can
	// never clone it.
	CloneURL func(ctx context.Context, workspace, repo events.ID, name string) (string, error)

	ArtifactMaxJobBytes int64 // the limit on a job's artifacts that runners are told

	// CountLog counts bytes that a submitter's job logs. If there are too many it counts none and returns
	// when there is room again, and the log is truncated. nil limits nothing.
	CountLog func(ctx context.Context, workspace, submitter events.ID, bytes int) (wait time.Duration)

	// RemoveFiles removes all files of a job from the artifact store. nil without a store.
	RemoveFiles func(ctx context.Context, workspace, job events.ID) error

	LogRetention      time.Duration // how long logs are kept after they are sealed; 0 is forever
	ArtifactRetention time.Duration // how long artifacts are kept after the last one was stored; 0 is forever
	MaxConnections    int           // limit of this process; 20,000
	MaxPerWorkspace   int           // limit of one workspace; 5,000
	LeaseTime         time.Duration // wire.LeaseTime
	OfflineAfter      time.Duration // how long after its last heartbeat a runner is offline; wire.StalledAfter
	RefreshEvery      time.Duration // how often a farm reloads everything; 5 s
	SweepEvery        time.Duration // pause between two sweeps; 1 s
	MessageRate       float64       // messages per second of a runner; 200
	ByteRate          float64       // bytes per second of a runner; 4 MiB
	WorkspaceRate     float64       // messages per second of all runners of a workspace; 4,000
}

func (c *Config) setDefaults() {
	c.MaxConnections, c.MaxPerWorkspace = cmp.Or(c.MaxConnections, 20_000), cmp.Or(c.MaxPerWorkspace, 5_000)
	c.LeaseTime, c.OfflineAfter = cmp.Or(c.LeaseTime, wire.LeaseTime), cmp.Or(c.OfflineAfter, wire.StalledAfter)
	c.RefreshEvery, c.SweepEvery = cmp.Or(c.RefreshEvery, 5*time.Second), cmp.Or(c.SweepEvery, time.Second)
	c.MessageRate, c.ByteRate = cmp.Or(c.MessageRate, 200), cmp.Or(c.ByteRate, 4<<20)
	c.WorkspaceRate = cmp.Or(c.WorkspaceRate, 4000)
	if c.CountLog == nil {
		c.CountLog = func(context.Context, events.ID, events.ID, int) time.Duration { return 0 }
	}
}

// A Runner identifies a runner that has shown its certificate.
type Runner struct {
	Workspace, ID events.ID
	Name          string
	NotAfter      time.Time       // of its certificate; a connection ends then
	Envelope      events.Envelope // for the events that it causes
}

// Meta returns the metadata of a command of the runner.
func (r Runner) Meta() commands.Meta {
	return commands.Meta{Envelope: r.Envelope, Workspace: r.Workspace}
}

// A Dispatcher owns the runner connections of this process. Its methods may be called concurrently.
type Dispatcher struct {
	Config
	ctx           context.Context // for the work of connections; cancelled after the last of them has ended
	cancel        context.CancelFunc
	ingest        *ingest.Ingest
	heartbeats    *heartbeatWriter
	counts        counts
	announcements announceLimiter

	working  sync.WaitGroup // lanes, heartbeats, farms
	open     sync.WaitGroup // connections
	stopping chan struct{}  // closed when Close begins
	closing  sync.Once
	mu       sync.Mutex
	closed   bool
	reserved int
	farms    map[events.ID]*farm
}

// counts are the counters behind [Stats].
type counts struct {
	connected, leased, acknowledged, duplicates, stops, fenced atomic.Int64
}

// Errors of [Dispatcher.Reserve].
var (
	ErrFull    = fault.New(fault.Busy, "farm_connections_full", "As many runners are connected here as may be. Try again in a moment.")
	ErrClosing = fault.New(fault.Busy, "farm_closing", "This process of the service is about to end. Try again in a moment.")
)

// New returns a dispatcher that works until it is closed.
func New(c Config) *Dispatcher {
	c.setDefaults()
	d := &Dispatcher{
		Config: c, farms: map[events.ID]*farm{}, stopping: make(chan struct{}), announcements: newAnnounceLimiter(c.MaxConnections),
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.ingest = ingest.New(d.ctx, ingest.Config{
		DB: c.DB, Commands: c.Commands, Logs: c.Logs, CountLog: c.CountLog, Warn: d.warn,
		Acknowledged: &d.counts.acknowledged, Duplicates: &d.counts.duplicates,
	})
	d.heartbeats = newHeartbeatWriter(d)
	return d
}

// Reserve reserves room for a connection of a workspace. It returns [ErrFull] if the process or the
// workspace has too many, and [ErrClosing] once Close was called. The caller must call release
// once.
func (d *Dispatcher) Reserve(workspace events.ID) (release func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.farms[workspace]
	switch {
	case d.closed:
		return nil, ErrClosing
	case d.reserved >= d.MaxConnections || f != nil && f.reserved >= d.MaxPerWorkspace:
		return nil, ErrFull
	}
	if f == nil {
		f = startFarm(d, workspace)
		d.farms[workspace] = f
	}
	d.reserved++
	f.reserved++
	d.open.Add(1)
	return sync.OnceFunc(func() { d.release(f) }), nil
}

func (d *Dispatcher) release(f *farm) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reserved--
	if f.reserved--; f.reserved == 0 {
		delete(d.farms, f.workspace)
		f.stop()
	}
	d.open.Done()
}

// Serve takes over a connection whose room was reserved and calls release when it ends. It returns
// at once, so that the HTTP request's own resources are freed.
func (d *Dispatcher) Serve(socket *websocket.Conn, r Runner, release func()) {
	d.mu.Lock()
	f := d.farms[r.Workspace]
	d.mu.Unlock()
	c := newConnection(d, f, socket, r)
	go func() { // Close waits for it
		defer release()
		c.serve()
	}()
}

// closeTimeout is how long connections have to end by themselves before they are cut.
const closeTimeout = 5 * time.Second

// Close asks all runners to reconnect, spread over a few seconds, and returns when no goroutine of
// the dispatcher is left.
func (d *Dispatcher) Close() { d.closing.Do(d.close) }

func (d *Dispatcher) close() {
	d.mu.Lock()
	d.closed = true
	close(d.stopping) // connections that begin from now on close themselves
	all := d.connections()
	d.mu.Unlock()
	for i, c := range all {
		c.closeForRestart(reconnectDelay(i, len(all)))
	}
	ended := make(chan struct{})
	go func() { d.open.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(closeTimeout):
		d.mu.Lock()
		all = d.connections()
		d.mu.Unlock()
		for _, c := range all {
			c.out.cut()
		}
		<-ended
	}
	d.ingest.Close()
	d.cancel()
	d.working.Wait()
}

// connections returns all connections. The caller holds d.mu.
func (d *Dispatcher) connections() (list []*connection) {
	for _, f := range d.farms {
		f.mu.Lock()
		for c := range f.connections {
			list = append(list, c)
		}
		f.mu.Unlock()
	}
	return list
}

// reconnectDelay returns how long connection i of n should wait before it reconnects, so that all
// of them do so one after the other within five seconds.
func reconnectDelay(i, n int) time.Duration {
	const each = 2 * time.Millisecond
	return time.Duration(i) * min(each, 5*time.Second/time.Duration(max(n, 1)))
}

// warn logs an error of background work, unless the dispatcher is closing.
func (d *Dispatcher) warn(what string, err error, args ...any) {
	if err != nil && d.ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		d.Log.Warn("a step of the build farm failed", append([]any{"what", what, "err", err}, args...)...)
	}
}
