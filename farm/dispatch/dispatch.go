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
	"svc/farm/joblog"
	"svc/farm/wire"
	"svc/fault"
)

// Lease is what the process that keeps the time of jobs and runners leads.
const Lease = "farm"

// Config is what a dispatcher works with. What is zero among the numbers at its end has
// a default, but for LogsKept.
type Config struct {
	DB       *pgxpool.Pool
	Commands *commands.Handler
	Live     *feed.Feed
	Logs     *joblog.Logs
	Leads    func(name string) bool
	Now      func() time.Time
	Log      *slog.Logger

	// Reveal returns the secrets of a workspace by their names. Its error is [MissingSecret]
	// if there is none of a name, and [SpoiltSecret] if one will never open again.
	Reveal func(ctx context.Context, workspace events.ID, names []string) (map[string]string, error)

	// CloneURL returns where a repository is cloned from, by its name; "" if that is not known.
	CloneURL func(repo string) string

	ArtifactMaxJobBytes int64 // of which runners are told

	LogsKept     time.Duration // after they are sealed; for ever if 0
	Connections  int           // of this process; 20,000
	OfWorkspace  int           // of those; 5,000
	LeaseTime    time.Duration // wire.LeaseTime
	Silent       time.Duration // after which a runner counts as away; wire.StalledAfter
	Look         time.Duration // how often everything is looked at anew; 5 s
	Every        time.Duration // between two looks at the clock; 1 s
	MessageRate  float64       // of a runner, a second; 200
	ByteRate     float64       // of a runner, a second; 4 MiB
	WorkspaceMsg float64       // messages of all runners of a workspace, a second; 4,000
}

func (c *Config) fill() {
	c.Connections, c.OfWorkspace = cmp.Or(c.Connections, 20_000), cmp.Or(c.OfWorkspace, 5_000)
	c.LeaseTime, c.Silent = cmp.Or(c.LeaseTime, wire.LeaseTime), cmp.Or(c.Silent, wire.StalledAfter)
	c.Look, c.Every = cmp.Or(c.Look, 5*time.Second), cmp.Or(c.Every, time.Second)
	c.MessageRate, c.ByteRate = cmp.Or(c.MessageRate, 200), cmp.Or(c.ByteRate, 4<<20)
	c.WorkspaceMsg = cmp.Or(c.WorkspaceMsg, 4000)
}

// A MissingSecret is one that a job names and the workspace does not have.
type MissingSecret struct{ Name string }

func (e *MissingSecret) Error() string { return "there is no secret " + e.Name }

// A SpoiltSecret is one that a job names and that is not what was sealed. Err tells operators why.
type SpoiltSecret struct {
	Name string
	Err  error
}

func (e *SpoiltSecret) Error() string {
	return "the secret " + e.Name + " cannot be opened: set it anew"
}
func (e *SpoiltSecret) Unwrap() error { return e.Err }

// A Runner is who has a connection.
type Runner struct {
	Workspace, ID events.ID
	Name          string
	Envelope      events.Envelope // of what it does
}

func (r Runner) meta() commands.Meta {
	return commands.Meta{Envelope: r.Envelope, Workspace: r.Workspace}
}

// system begins a command of the service's own.
func system(workspace events.ID) commands.Meta {
	return commands.Meta{Workspace: workspace, Envelope: events.Envelope{
		Actor: events.Actor{Type: events.BySystem, Name: "system"}, Origin: events.FromSystem,
	}}
}

// A Dispatcher has the connections of this process. Its methods may be called concurrently.
type Dispatcher struct {
	Config
	ctx     context.Context // of all that connections do; it ends when the last of them has
	cancel  context.CancelFunc
	ingest  *ingest
	hearts  *hearts
	counts  counts
	changes changes

	working  sync.WaitGroup // lanes, heartbeats, farms
	open     sync.WaitGroup // connections
	leaving  chan struct{}  // closed when the dispatcher is
	closing  sync.Once
	mu       sync.Mutex
	closed   bool
	reserved int
	farms    map[events.ID]*farm
}

// counts are for metrics.
type counts struct {
	connected, claimed, taken, duplicates, stops, fenced atomic.Int64
}

// Why a connection is refused before it begins.
var (
	ErrFull    = fault.New(fault.Busy, "farm_connections_full", "As many runners are connected here as may be. Come again in a moment.")
	ErrClosing = fault.New(fault.Busy, "farm_closing", "This process of the service is about to end. Come again in a moment.")
)

// New returns a dispatcher that works until it is closed.
func New(c Config) *Dispatcher {
	c.fill()
	d := &Dispatcher{Config: c, farms: map[events.ID]*farm{}, leaving: make(chan struct{}), changes: newChanges(c.Connections)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.ingest, d.hearts = newIngest(d), newHearts(d)
	return d
}

// Reserve makes room for a connection of a workspace, or refuses it. The function that it
// returns gives the room back.
func (d *Dispatcher) Reserve(workspace events.ID) (giveBack func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.farms[workspace]
	switch {
	case d.closed:
		return nil, ErrClosing
	case d.reserved >= d.Connections || f != nil && f.reserved >= d.OfWorkspace:
		return nil, ErrFull
	}
	if f == nil {
		f = newFarm(d, workspace)
		d.farms[workspace] = f
		d.working.Go(f.run)
	}
	d.reserved++
	f.reserved++
	d.open.Add(1)
	return sync.OnceFunc(func() { d.giveBack(f) }), nil
}

func (d *Dispatcher) giveBack(f *farm) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reserved--
	if f.reserved--; f.reserved == 0 {
		delete(d.farms, f.workspace)
		f.stop()
	}
	d.open.Done()
}

// Serve takes over a connection for which there is room, and gives that back when it ends.
// It does not wait for that: what its caller needed for the request is free again.
func (d *Dispatcher) Serve(socket *websocket.Conn, r Runner, giveBack func()) {
	d.mu.Lock()
	f := d.farms[r.Workspace]
	d.mu.Unlock()
	c := newConnection(d, f, socket, r)
	go func() { // Close waits for it
		defer giveBack()
		c.serve()
	}()
}

// Connected returns how many runners are connected to this process.
func (d *Dispatcher) Connected() int { return int(d.counts.connected.Load()) }

// closeLimit is how long connections have to end by themselves.
const closeLimit = 5 * time.Second

// Close tells all runners to come again, some sooner than others, and returns when nothing
// of the dispatcher runs any more.
func (d *Dispatcher) Close() { d.closing.Do(d.close) }

func (d *Dispatcher) close() {
	d.mu.Lock()
	d.closed = true
	all := d.connections()
	d.mu.Unlock()
	close(d.leaving)
	for i, c := range all {
		c.bye(spread(i, len(all)))
	}
	ended := make(chan struct{})
	go func() { d.open.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(closeLimit):
		for _, c := range all {
			c.cut()
		}
		<-ended
	}
	d.ingest.close()
	d.cancel()
	d.working.Wait()
}

// connections returns all of them. The caller has the lock.
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

// spread has connections come again one after the other, all within a few seconds.
func spread(i, of int) time.Duration {
	const each = 2 * time.Millisecond
	return time.Duration(i) * min(each, 5*time.Second/time.Duration(max(of, 1)))
}

// warn says what went wrong in the background, unless everything ends.
func (d *Dispatcher) warn(what string, err error, args ...any) {
	if err != nil && d.ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		d.Log.Warn("the build farm goes on without", append([]any{"what", what, "err", err}, args...)...)
	}
}
