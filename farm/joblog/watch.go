package joblog

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/fault"
)

type key struct{ workspace, job events.ID }

// A watchedLog is the log of a job with at least one Watch.
type watchedLog struct {
	watches map[*Watch]bool
	seq     int64 // last message number and epoch at the last check
	epoch   int
}

// A Watch signals that the log of a job may have grown. It must be closed.
type Watch struct {
	// Changed has a value when there may be more to read.
	Changed chan struct{}

	logs *Logs
	key  key
}

// Watch starts to watch the log of a job, in all epochs. Read the log after that, and again after
// each signal, so that nothing is missed.
func (l *Logs) Watch(workspace, job events.ID) *Watch {
	w := &Watch{Changed: make(chan struct{}, 1), logs: l, key: key{workspace, job}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watched[w.key] == nil {
		l.watched[w.key] = &watchedLog{watches: map[*Watch]bool{}}
	}
	l.watched[w.key].watches[w] = true
	return w
}

// Close ends the watch.
func (w *Watch) Close() {
	w.logs.mu.Lock()
	defer w.logs.mu.Unlock()
	if j := w.logs.watched[w.key]; j != nil {
		if delete(j.watches, w); len(j.watches) == 0 {
			delete(w.logs.watched, w.key)
		}
	}
}

// Moved wakes the watches of a job's log. It does not block.
func (l *Logs) Moved(workspace, job events.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched[key{workspace, job}].wake()
}

func (j *watchedLog) wake() {
	if j == nil {
		return
	}
	for w := range j.watches {
		select {
		case w.Changed <- struct{}{}:
		default: // it is signalled already
		}
	}
}

// Run checks the watched logs periodically until ctx ends.
func (l *Logs) Run(ctx context.Context) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := l.checkWatched(ctx); err != nil && ctx.Err() == nil {
			l.log.WarnContext(ctx, "look for logs that have grown", "err", err)
		}
	}
}

func (l *Logs) checkWatched(ctx context.Context) error {
	workspaces, jobs := l.watchedJobs()
	if len(jobs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	rows, _ := l.db.Query(ctx, `
		select k.workspace_id, k.job_id, l.epoch, l.last_seq from unnest($1::uuid[], $2::uuid[]) as k (workspace_id, job_id)
		cross join lateral (select epoch, last_seq from job_leases l where l.workspace_id = k.workspace_id and l.job_id = k.job_id offset 0) l`,
		workspaces, jobs)
	var k key
	var epoch int
	var seq int64
	_, err := pgx.ForEachRow(rows, []any{&k.workspace, &k.job, &epoch, &seq}, func() error {
		l.checkedAt(k, epoch, seq)
		return nil
	})
	return fault.Wrap(err, "look at leases")
}

func (l *Logs) watchedJobs() (workspaces, jobs []events.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range l.watched {
		workspaces, jobs = append(workspaces, k.workspace), append(jobs, k.job)
	}
	return workspaces, jobs
}

// checkedAt wakes the watches of a log that has changed since the last check.
func (l *Logs) checkedAt(k key, epoch int, seq int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j := l.watched[k]; j != nil && (j.epoch != epoch || j.seq != seq) {
		j.epoch, j.seq = epoch, seq
		j.wake()
	}
}
