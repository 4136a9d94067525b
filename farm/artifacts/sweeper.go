package artifacts

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"svc/events"
)

const (
	sweepInterval = 15 * time.Minute      // between removals of unfinished uploads
	sweepPause    = 10 * time.Millisecond // between the folders of jobs
	logTimeout    = 10 * time.Second      // for reading a job's files from the log
)

// A Sweeper removes files from a store that nobody will read.
type Sweeper struct {
	Store     Store
	Abandoned AbandonedFunc
	Leads     func() bool // reports whether this process removes files
	Log       *slog.Logger
}

// Run removes unfinished uploads while this process leads, until ctx ends. Once a day it also removes
// files that no event recorded.
func (s Sweeper) Run(ctx context.Context) {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	var swept Swept
	var unrecorded time.Time // time of the last such removal
	for {
		if s.Leads() {
			n, err := swept.Sweep(ctx, s.Store, time.Now(), sweepPause)
			s.logResult(ctx, "broken uploads", n, err)
		}
		if s.Leads() && time.Since(unrecorded) >= UnrecordedRetention {
			began := time.Now()
			n, err := SweepUnrecorded(ctx, s.Store, s.abandonedInLog, began, sweepPause)
			if !errors.Is(err, ErrLog) { // it is retried soon
				unrecorded = began
			}
			s.logResult(ctx, "uploads without an event", n, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// abandonedInLog reads a job's files from the log, with a timeout.
func (s Sweeper) abandonedInLog(ctx context.Context, workspace, job events.ID) ([]events.ID, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	return s.Abandoned(ctx, workspace, job)
}

func (s Sweeper) logResult(ctx context.Context, what string, removed int, err error) {
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("sweep artifacts", "of", what, "err", err)
	}
	if removed > 0 {
		s.Log.Info("swept artifacts", "of", what, "objects", removed)
	}
}
