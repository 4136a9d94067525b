package dispatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/jackc/pgx/v5"
	"golang.org/x/time/rate"

	"svc/events"
	"svc/events/feed"
	"svc/farm/queue"
	"svc/farm/wire"
)

// A farm is the part of a workspace's build farm that is connected to this process. One goroutine
// follows the workspace's log for it, to lease waiting jobs and to notify runners. It also reloads
// everything periodically, in case a notification was lost.
type farm struct {
	d         *Dispatcher
	workspace events.ID
	reserved  int                // connections, guarded by Dispatcher.mu
	stop      context.CancelFunc // ends its goroutine
	woken     chan struct{}      // has a value when a runner may have a free slot
	messages  *rate.Limiter      // of all runners
	waiting   queue.Waiting      // owned by the farm's goroutine
	deletedAt time.Time          // when the workspace was found to be deleted; zero if it is not. Owned by the farm's goroutine

	mu          sync.Mutex
	connections map[*connection]bool
	current     map[events.ID]*connection // by runner, once welcomed
}

// startFarm starts the goroutine of a farm. It ends with the farm's stop.
func startFarm(d *Dispatcher, workspace events.ID) *farm {
	ctx, stop := context.WithCancel(d.ctx)
	f := &farm{
		d: d, workspace: workspace, stop: stop, woken: make(chan struct{}, 1),
		waiting:     queue.Waiting{DB: d.DB, Workspace: workspace, Now: d.Now},
		messages:    rate.NewLimiter(rate.Limit(d.WorkspaceRate), int(2*d.WorkspaceRate)),
		connections: map[*connection]bool{}, current: map[events.ID]*connection{},
	}
	d.working.Go(func() { f.run(ctx) })
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

// setCurrent makes c the current connection of its runner and returns the previous one, nil if there is
// none. ok is false if that one is newer, and stays.
func (f *farm) setCurrent(c *connection) (before *connection, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before = f.current[c.runner.ID]
	if before != nil && bytes.Compare(before.id[:], c.id[:]) > 0 {
		return nil, false
	}
	f.current[c.runner.ID] = c
	return before, true
}

// connectionsOf returns the welcomed connections of the given runners, or of all runners if none
// are given.
func (f *farm) connectionsOf(runners ...events.ID) (list []*connection) {
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

// wake wakes the farm's goroutine to look for jobs. It does not block.
func (f *farm) wake() {
	select {
	case f.woken <- struct{}{}:
	default: // it is woken already
	}
}

// farmNouns are the nouns whose events concern runners, or which jobs can be leased.
var farmNouns = []string{"job", "runner", "workspace"}

func (f *farm) run(ctx context.Context) {
	watch := f.d.Live.Watch(f.workspace, farmNouns)
	defer watch.Close()
	ticker := time.NewTicker(f.d.RefreshEvery)
	defer ticker.Stop()
	seq := int64(-1)
	for {
		woken, refresh := false, false
		select {
		case <-ctx.Done():
			return
		case <-f.woken:
			woken = true
		case <-watch.Moved:
		case <-ticker.C:
			refresh = true
		}
		next, err := f.runOnce(ctx, watch, seq, woken, refresh)
		if seq = next; err != nil && ctx.Err() == nil {
			f.d.warn("refresh runners and jobs", err, "workspace", f.workspace)
		}
	}
}

// runOnce closes connections whose certificate has expired, reads new events, notifies the runners
// that they concern, and leases jobs if the farm was woken or there are events of its nouns. It reads from
// sequence number seq on, or starts at the head if seq is negative, and returns where to continue; -1 after an
// error means that events may have been missed. With refresh it also reloads the state of all runners.
func (f *farm) runOnce(ctx context.Context, watch *feed.Watch, seq int64, woken, refresh bool) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, workTimeout)
	defer cancel()
	f.closeExpired()
	var found changes
	var err error
	if seq < 0 {
		refresh = true
		if seq, err = watch.Head(ctx); err != nil {
			return -1, err
		}
	}
	for {
		list, err := watch.After(ctx, seq)
		if errors.Is(err, feed.ErrSetBack) {
			f.wake() // the next round reloads everything
		}
		if err != nil {
			return -1, err
		}
		if len(list) == 0 {
			break
		}
		seq = list[len(list)-1].Seq
		found.add(list)
	}
	if !woken && !refresh && !found.any {
		return seq, nil
	}
	if refresh || found.workspace {
		if err := f.lookUpWorkspace(ctx); err != nil {
			return -1, err
		}
	}
	if refresh {
		if err := f.refreshAll(ctx); err != nil {
			return seq, err
		}
	}
	if err := f.notify(ctx, found); err != nil {
		return -1, err // the next round reloads everything
	}
	if !f.deletedAt.IsZero() {
		f.closeIdle()
		return seq, nil
	}
	for _, c := range f.connectionsOf() {
		f.d.deliver(ctx, c)
	}
	return seq, f.leaseWaiting(ctx)
}

// endTime is how long runners of a deleted workspace may take to end the jobs that were cancelled.
const endTime = 30 * time.Second

// closeIdle closes the connections of a deleted workspace, those with jobs after the jobs have ended.
func (f *farm) closeIdle() {
	late := f.d.Now().Sub(f.deletedAt) >= endTime
	for _, c := range f.connectionsOf() {
		if late || len(c.slots.heldJobs()) == 0 {
			c.out.close(websocket.CloseTryAgainLater, "workspace deleted")
		}
	}
}

// lookUpWorkspace notes whether the workspace is deleted.
func (f *farm) lookUpWorkspace(ctx context.Context) error {
	var deleted bool
	err := f.d.DB.QueryRow(ctx, `select exists (select from deleted_workspaces where workspace_id = $1)`, f.workspace).Scan(&deleted)
	switch {
	case err != nil:
		return fmt.Errorf("look up workspace %s: %w", f.workspace, err)
	case !deleted:
		f.deletedAt = time.Time{}
	case f.deletedAt.IsZero():
		f.deletedAt = f.d.Now()
	}
	return nil
}

// closeExpired closes connections whose certificate has expired, even if the runner has a newer one:
// it has to show that one by connecting again.
func (f *farm) closeExpired() {
	f.mu.Lock()
	all := slices.Collect(maps.Keys(f.connections)) // also those that have not said hello
	f.mu.Unlock()
	now := f.d.Now()
	for _, c := range all {
		if !now.Before(c.runner.NotAfter) {
			c.out.close(wire.CloseExpired, "certificate expired")
		}
	}
}

// changes are what connected runners may have to be told of.
type changes struct {
	changedRunners []events.ID // whose state has changed
	cancelledJobs  []events.ID
	workspace      bool // the workspace itself has changed
	any            bool // there are events of farmNouns
}

func (c *changes) add(list []feed.News) {
	for _, e := range list {
		noun, what, _ := strings.Cut(e.Kind, ".")
		c.any = c.any || slices.Contains(farmNouns, noun)
		switch {
		case noun == "runner" && what != "online":
			c.changedRunners = append(c.changedRunners, e.Target.ID)
		case e.Kind == "job.cancel_requested":
			c.cancelledJobs = append(c.cancelledJobs, e.Target.ID)
		case noun == "workspace":
			c.workspace = true
		}
	}
}

// notify tells runners what people, or expired deadlines, ask of them.
func (f *farm) notify(ctx context.Context, found changes) error {
	if list := f.connectionsOf(found.changedRunners...); len(found.changedRunners) > 0 && len(list) > 0 {
		if err := f.notifyRunners(ctx, list); err != nil {
			return err
		}
	}
	if len(found.cancelledJobs) > 0 {
		return f.notifyCancelled(ctx, found.cancelledJobs)
	}
	return nil
}

// refreshAll reloads all that runners may have to be told.
func (f *farm) refreshAll(ctx context.Context) error {
	list := f.connectionsOf()
	if len(list) == 0 {
		return nil
	}
	if err := f.refreshPresences(ctx, list); err != nil {
		return err
	}
	for _, c := range list {
		if err := f.d.forgetUnanswered(ctx, c); err != nil {
			return err
		}
	}
	if err := f.notifyRunners(ctx, list); err != nil {
		return err
	}
	if err := f.findUndelivered(ctx, list); err != nil {
		return err
	}
	return f.notifyCancelled(ctx, nil)
}

// findUndelivered finds jobs that other processes have leased to connected runners. A process does so
// until it notices that a runner has reconnected to another one, and cannot deliver them.
func (f *farm) findUndelivered(ctx context.Context, list []*connection) error {
	leased, err := f.d.undelivered(ctx, f.workspace, idsOf(list))
	if err != nil {
		return err
	}
	for _, c := range list {
		if c.presence.isGreeted() { // otherwise handleHello looks for them
			c.slots.addPending(without(leased[c.runner.ID], c.slots.heldJobs()))
		}
	}
	return nil
}

func idsOf(list []*connection) (ids []events.ID) {
	for _, c := range list {
		ids = append(ids, c.runner.ID)
	}
	return ids
}

// refreshPresences closes the connections of runners that have a newer one in another process, and
// learns of declines that the sweep recorded.
func (f *farm) refreshPresences(ctx context.Context, list []*connection) error {
	versions := make([]int, len(list))
	for i, c := range list {
		versions[i] = c.backoff.currentVersion()
	}
	// As in selectRunners, each is looked up by key.
	rows, _ := f.d.DB.Query(ctx, `
		select p.* from unnest($2::uuid[]) as k (runner_id) cross join lateral (
			select runner_id, connection_id, declined, rests_until from runner_presence p
			where p.workspace_id = $1 and p.runner_id = k.runner_id offset 0) p`,
		f.workspace, idsOf(list))
	type presenceRow struct {
		runner, connection events.ID
		declines
	}
	by := map[events.ID]presenceRow{}
	var p presenceRow
	_, err := pgx.ForEachRow(rows, []any{&p.runner, &p.connection, &p.Count, &p.Until}, func() error { by[p.runner] = p; return nil })
	if err != nil {
		return fmt.Errorf("read connections of %s: %w", f.workspace, err)
	}
	for i, c := range list {
		switch p, ok := by[c.runner.ID]; {
		case !ok:
		case p.connection == c.id:
			c.backoff.refresh(p.declines, versions[i])
		case c.presence.isGreeted():
			c.out.close(wire.CloseSuperseded, "superseded")
		}
	}
	return nil
}
