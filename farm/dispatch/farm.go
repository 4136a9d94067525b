package dispatch

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/time/rate"

	"svc/events"
	"svc/events/feed"
	"svc/farm/wire"
)

// A farm is the part of a workspace's build farm that is connected to this process. One
// goroutine follows the workspace's log for it: jobs that wait, and what runners are told.
// It also looks everything up anew from time to time.
type farm struct {
	d         *Dispatcher
	workspace events.ID
	reserved  int // connections, under Dispatcher.mu
	ctx       context.Context
	stop      context.CancelFunc
	wake      chan struct{} // has a value when a runner has a place
	messages  *rate.Limiter // of all runners
	after     string        // what jobs require was looked at up to there, by the farm's goroutine; "" from the beginning

	mu          sync.Mutex
	connections map[*connection]bool
	current     map[events.ID]*connection // by runner, of those that were greeted
}

func newFarm(d *Dispatcher, workspace events.ID) *farm {
	f := &farm{
		d: d, workspace: workspace, wake: make(chan struct{}, 1), messages: rate.NewLimiter(rate.Limit(d.WorkspaceMsg), int(2*d.WorkspaceMsg)),
		connections: map[*connection]bool{}, current: map[events.ID]*connection{},
	}
	f.ctx, f.stop = context.WithCancel(d.ctx)
	return f
}

func (f *farm) add(c *connection) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.connections[c] = true
}

func (f *farm) remove(c *connection) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.connections, c)
	if f.current[c.runner.ID] == c {
		delete(f.current, c.runner.ID)
	}
}

// greet makes c the connection of its runner, and returns the one before it.
func (f *farm) greet(c *connection) (before *connection) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before = f.current[c.runner.ID]
	f.current[c.runner.ID] = c
	if before == c {
		return nil
	}
	return before
}

// of returns the connections of runners, or all if none are named.
func (f *farm) of(runners ...events.ID) (list []*connection) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if runners == nil {
		for _, c := range f.current {
			list = append(list, c)
		}
		return list
	}
	for _, id := range runners {
		if c := f.current[id]; c != nil {
			list = append(list, c)
		}
	}
	return list
}

// nudge has the farm look for jobs. It does not block.
func (f *farm) nudge() {
	select {
	case f.wake <- struct{}{}:
	default: // it will
	}
}

// farmNouns are those of which the farm has to know what their events happened to.
var farmNouns = []string{"job", "runner"}

func (f *farm) run() {
	watch := f.d.Live.Watch(f.workspace, farmNouns)
	defer watch.Close()
	look := time.NewTicker(f.d.Look)
	defer look.Stop()
	seq := int64(-1)
	for {
		everything := false
		select {
		case <-f.ctx.Done():
			return
		case <-f.wake:
		case <-watch.Moved:
		case <-look.C:
			everything = true
		}
		next, err := f.turn(watch, seq, everything)
		if seq = next; err != nil && f.ctx.Err() == nil {
			f.d.warn("look after runners", err, "workspace", f.workspace)
		}
	}
}

// turn takes in what is new, tells runners what concerns them and gives jobs out.
func (f *farm) turn(watch *feed.Watch, seq int64, everything bool) (int64, error) {
	ctx, cancel := context.WithTimeout(f.ctx, workLimit)
	defer cancel()
	var n news
	var err error
	if seq < 0 {
		everything = true
		if seq, err = watch.Head(ctx); err != nil {
			return -1, err
		}
	}
	for {
		list, err := watch.After(ctx, seq)
		if err != nil {
			return -1, err
		}
		if len(list) == 0 {
			break
		}
		seq = list[len(list)-1].Seq
		n.take(list)
	}
	if everything {
		if err := f.lookAround(ctx); err != nil {
			return seq, err
		}
	}
	if err := f.tell(ctx, n); err != nil {
		return -1, err // everything is looked up the next time
	}
	for _, c := range f.of() {
		f.d.deliver(ctx, c)
	}
	return seq, f.claim(ctx)
}

// news are what happened, as far as it concerns runners that are connected.
type news struct {
	runners   []events.ID // that something was asked of
	cancelled []events.ID // jobs
}

func (n *news) take(list []feed.News) {
	for _, e := range list {
		switch noun, what, _ := strings.Cut(e.Kind, "."); {
		case noun == "runner" && what != "online":
			n.runners = append(n.runners, e.Target.ID)
		case e.Kind == "job.cancel_requested":
			n.cancelled = append(n.cancelled, e.Target.ID)
		}
	}
}

// tell tells runners what people, or the clock, ask of them.
func (f *farm) tell(ctx context.Context, n news) error {
	if list := f.of(n.runners...); len(n.runners) > 0 && len(list) > 0 {
		if err := f.tellRunners(ctx, list); err != nil {
			return err
		}
	}
	if len(n.cancelled) > 0 {
		return f.tellCancelled(ctx, n.cancelled)
	}
	return nil
}

// lookAround looks up all that runners may have to be told.
func (f *farm) lookAround(ctx context.Context) error {
	list := f.of()
	if len(list) == 0 {
		return nil
	}
	if err := f.lookAtPresences(ctx, list); err != nil {
		return err
	}
	for _, c := range list {
		if err := f.d.missed(ctx, c); err != nil {
			return err
		}
	}
	if err := f.tellRunners(ctx, list); err != nil {
		return err
	}
	return f.tellCancelled(ctx, nil)
}

func idsOf(list []*connection) (ids []events.ID) {
	for _, c := range list {
		ids = append(ids, c.runner.ID)
	}
	return ids
}

// lookAtPresences closes the connections of runners that have a newer one at another process, and
// learns of others that gave jobs back by saying nothing.
func (f *farm) lookAtPresences(ctx context.Context, list []*connection) error {
	noted := make([]int, len(list))
	for i, c := range list {
		noted[i] = c.notedBefore()
	}
	rows, _ := f.d.DB.Query(ctx, `
		select p.* from unnest($2::uuid[]) as k (runner_id) cross join lateral (
			select runner_id, connection_id, declined, rests_until from runner_presence p
			where p.workspace_id = $1 and p.runner_id = k.runner_id offset 0) p`,
		f.workspace, idsOf(list))
	type presence struct {
		runner, connection events.ID
		declines
	}
	by := map[events.ID]presence{}
	var p presence
	_, err := pgx.ForEachRow(rows, []any{&p.runner, &p.connection, &p.Count, &p.Until}, func() error { by[p.runner] = p; return nil })
	if err != nil {
		return fmt.Errorf("connections of %s: %w", f.workspace, err)
	}
	for i, c := range list {
		switch p, ok := by[c.runner.ID]; {
		case !ok:
		case p.connection == c.id:
			c.noteRead(p.declines, noted[i])
		case c.isGreeted():
			c.close(wire.CloseSuperseded, "superseded")
		}
	}
	return nil
}
